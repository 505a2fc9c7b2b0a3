"""Benchmarks of the book: each predicts, then measures, and writes benchmarks/results/NAME.json."""
