"""Measurements, and the model of costs and limits."""
