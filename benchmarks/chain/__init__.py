"""Measure the whole chain on the local servers: `python -m benchmarks.chain --help`."""
