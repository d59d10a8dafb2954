"""Replaces generated parts of documentation pages."""


def with_part(page: str, begin: str, text: str, end: str) -> str:
    """Return the page with this text between two markers. Raises ValueError if it lacks one of them."""
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"the page lacks the markers {begin} and {end}")
    return f"{before}{begin}{text}{end}{after}"
