"""A model of masscomm's costs and of the first limit that a growing load reaches. A simulation checks the model.

`make capacity` prints the tables and writes them into docs/internals/capacity.md.
"""
