"""Measures the processor time of each function for a send of one recipient."""
