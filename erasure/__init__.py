"""Erase one person of one tenant from every store of ours: `python -m erasure --user 7 --club 3`."""
