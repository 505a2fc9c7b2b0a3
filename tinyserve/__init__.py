"""What the reader builds: cost model, decoder, cache, engine. Knows nothing of the course around it."""
