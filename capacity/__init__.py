"""Model of masscomm's costs and of the limit it meets first, checked against a simulation.

`make capacity` prints the tables and writes them into docs/capacity.md.
"""
