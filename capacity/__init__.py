"""A model of masscomm's costs, and of the limit that a growing load meets first. A simulation checks the model.

`make capacity` prints the tables and writes them into docs/capacity.md.
"""
