"""Erases one person of one tenant from all stores: `python -m ops.erasure --user 7 --club 3`."""
