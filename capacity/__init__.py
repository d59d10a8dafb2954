"""What masscomm costs and which limit it meets first: a model, checked against a simulation.

`make capacity` prints the tables and writes them into docs/capacity.md.
"""
