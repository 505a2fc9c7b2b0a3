"""What the rounds of benchmarks.vllm_serve come to: medians, errors of the prediction, order of the arms, and the table."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.rounds import quartile_ratio


def hit_rate(before: dict[str, float], after: dict[str, float]) -> float:
    """Return hits over queries between two readings of /metrics; 0 where nothing was looked up."""
    hits, queries = (after[n] - before[n] for n in ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"))
    return hits / queries if queries else 0.0


def block_config(metrics: str) -> dict[str, int]:
    """Return block size and number of blocks from the labels of vllm:cache_config_info."""
    line = next(line for line in metrics.splitlines() if line.startswith("vllm:cache_config_info{"))
    return {name: int(re.search(rf'[{{,]{name}="(\d+)"', line)[1]) for name in ("block_size", "num_gpu_blocks")}


def judged(rounds: dict[str, list[dict[str, Any]]], arms: dict[str, Any]) -> dict[str, Any]:
    """Return the arms of an experiment: rounds, medians, and the error of the prediction (median over rounds of predicted / measured - 1)."""
    found = {}
    for label, seen in rounds.items():
        keys = [k for k in seen[0]["measured"] if all(k in r["measured"] for r in seen)]
        both = [k for k in keys if all(r["predicted"].get(k) and r["measured"][k] for r in seen)]
        ratios = {k: [r["predicted"][k] / r["measured"][k] for r in seen] for k in both}
        found[label] = {
            **arms[label], "rounds": seen, "median": {k: statistics.median(r["measured"][k] for r in seen) for k in keys},
            "predicted": {k: statistics.median(r["predicted"][k] for r in seen) for k in seen[0]["predicted"]},
            "errors": {k: statistics.median(v) - 1 for k, v in ratios.items()},
            "spread": quartile_ratio([r["measured"]["e2el_p50"] for r in seen]),
        }
    return found


def turns(labels: Sequence[str], rounds: int) -> list[tuple[int, str]]:
    """Return (round, label) with an order that rotates."""
    return [(r, labels[(i + r) % len(labels)]) for r in range(rounds) for i in range(len(labels))]


def lines_of(name: str, found: dict[str, Any]) -> list[str]:
    """Return an experiment as text: medians, and the prediction's error in brackets."""
    lines = [f"\n{name} ({found['requests']} requests{', ' + str(found['concurrency']) + ' at once' if found['concurrency'] else ''})"]
    for label, arm in found["arms"].items():
        def cell(key: str, scale: float = 1e3, arm: dict[str, Any] = arm) -> str:
            error = f" ({arm['errors'][key]:+.0%})" if key in arm["errors"] else ""
            return f"{scale * arm['median'].get(key, float('nan')):>9.1f}{error:8}"

        lines.append(
            f"  {label:14} tok/s{cell('output_tokens_per_second', 1)} ttft ms{cell('ttft_p50')} itl ms{cell('itl_p50')} itl p99{cell('itl_p99')}"
            f" good/s {arm['median'].get('goodput', 0):.2f} hits {arm['median']['hit_rate']:.2f} spread {arm['spread']:.2f}"
        )
    return lines
