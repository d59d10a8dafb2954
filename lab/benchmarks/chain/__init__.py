"""Measure the whole chain on the local servers: `python -m lab.benchmarks.chain --help`."""
