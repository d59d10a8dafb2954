"""A stack composes what resources/ makes, and grants."""
