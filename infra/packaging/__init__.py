"""Builds a zip for each function with the modules that it imports: `python -m infra.packaging`."""
