"""Texts are counted and cut between grapheme clusters."""

from typing import Any

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from masscomm.domain.limits import RECORD_STEPS
from masscomm.rendering.compiler import Steps, compile_source, render
from masscomm.rendering.graphemes import clusters

FAMILY, FLAG, ACCENT, HINDI = "👨\u200d👩\u200d👧", "🇨🇭", "e\u0301", "\u0928\u093f"


def _rendered(source: str, *, escaped: bool = False, **data: Any) -> str:
    steps = Steps(RECORD_STEPS)
    return render(compile_source(source, escaped=escaped, steps=steps).write, {"data": data, "user": {}}, steps)


@pytest.mark.kills(guard="templates.grapheme_clusters")
@pytest.mark.parametrize("cluster", [FAMILY, FLAG, ACCENT, HINDI, "ü", "x", "👍🏽"])
@pytest.mark.parametrize(
    ("source", "before", "after"),
    [
        ("{{ data.x[:1] }}", "", ""),
        ("{{ data.x[1:] }}", "a", ""),
        ("{{ data.x[-1:] }}", "a", ""),
        ("{{ data.x[0] }}", "", ""),
        ("{{ data.x[-1] }}", "a", ""),
        ("{{ data.x | first }}", "", "a"),
        ("{{ data.x | last }}", "a", ""),
    ],
)
def test_a_selected_character_is_a_whole_grapheme_cluster(source: str, before: str, after: str, cluster: str) -> None:
    assert _rendered(source, x=before + cluster + after) == cluster


@pytest.mark.kills(guard="templates.grapheme_clusters")
@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ data.x | truncate(5, true) }}", f"{FLAG * 2}..."),
        ("{{ data.x | truncate(5, true, '…') }}", f"{FLAG * 4}…"),
        ("{{ data.x | truncate(6, end='…', leeway=0) }}", f"{FLAG * 5}…"),
        ("{{ data.x | truncate(8, leeway=0) }}", f"{FLAG * 5}..."),
        ("{{ data.x | truncate(20, leeway=0) }}", f"{FLAG * 5} {FLAG * 5}"),
        ("{{ data.x | length }}", "11"),
        ("{{ data.x[::-1] | length }}", "11"),
    ],
)
def test_texts_are_counted_in_clusters(source: str, text: str) -> None:
    assert _rendered(source, x=f"{FLAG * 5} {FLAG * 5}") == text


def test_ascii_is_cut_as_jinja_does() -> None:
    assert _rendered("{{ data.x | truncate(9) }}|{{ data.x[:3] }}|{{ data.x | first }}", x="foo bar baz qux") == (
        "foo...|foo|f"
    )


def test_html_that_is_escaped_stays_escaped_once() -> None:
    assert _rendered("{{ (data.x | e)[:6] }}", escaped=True, x="é&a") == "é&amp;"


# A virama follows its consonant: after a flag, regex joins it with the next one, which Unicode's rule GB9c does not.
_PIECES = st.sampled_from(
    ["a", " ", "\u0301", "\u200d", "🇨", "🇭", "👍", "🏽", "\u0600", "\u1100", "\u1161", "\u0915\u094d", "\u0915"]
)


@given(st.lists(_PIECES, max_size=30).map("".join))
def test_clusters_are_those_of_unicode(text: str) -> None:
    assert list(clusters(text)) == regex.findall(r"\X", text)
