"""Grapheme clusters: what a reader takes for one character, such as a letter with its accents, a flag or a family emoji
(Unicode's UAX 29). Texts are counted and cut by them.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

# The two letters of a flag and their marks are an alternative of their own, because \X reads all letters before them:
# 50,000 flags would take 22 s.
_CLUSTER = r"[\U0001F1E6-\U0001F1FF]{2}[\p{GCB=Extend}\p{GCB=SpacingMark}\u200D]*|\X"


def clusters(text: str) -> Sequence[str]:
    """Return the grapheme clusters of a text. In ASCII, each character is one: a line break of two characters
    may be cut.
    """
    return text if text.isascii() else _find()(text)  # guard: templates.grapheme_clusters


def cut(text: str, part: slice) -> str:
    """Return a slice of a text, as a text of the same type: HTML that is escaped stays so."""
    found = clusters(text)[part]
    return found if isinstance(found, str) else type(text)("".join(found))


def shortened(truncate: Callable[..., str]) -> Callable[..., Any]:
    """Return Jinja's filter `truncate`, which counts characters, for grapheme clusters."""

    def run(text: Any, length: Any = 255, killwords: Any = False, end: Any = "...", leeway: Any = None) -> Any:
        if not isinstance(text, str) or text.isascii():
            return truncate(text, length, killwords, end, leeway)
        found = clusters(text)
        # Jinja cuts at spaces. Any other cluster is one character for it.
        places = "".join(each if each == " " else "x" for each in found)
        kept = truncate(places, length, killwords, end, leeway)
        return text if kept is places else type(text)("".join(found[: len(kept) - len(end)])) + end

    return run


@cache
def _find() -> Callable[[str], list[str]]:
    # regex takes 50 ms to import, which only texts with other characters than those of ASCII need.
    import regex

    find: Callable[[str], list[str]] = regex.compile(_CLUSTER).findall
    return find
