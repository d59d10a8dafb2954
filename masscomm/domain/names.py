"""Names that other systems write: they are compared without case and blanks."""

from functools import lru_cache


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """Return a name without case and blanks."""
    return "".join(name.split()).casefold()
