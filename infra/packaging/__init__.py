"""`python -m infra.packaging`: a zip for each function, with what it imports and nothing else."""
