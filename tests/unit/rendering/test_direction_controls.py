"""A value cannot reverse the template's own text: its controls of direction end where the value does."""

from collections.abc import Mapping
from itertools import groupby
from unicodedata import bidirectional

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from masscomm.domain.channels import CHANNELS
from masscomm.domain.limits import RECORD_STEPS
from masscomm.domain.users import Template, User
from masscomm.rendering.compiler import Steps
from masscomm.rendering.templates import context_of, fields_of

EMBEDDINGS, ISOLATES = {"LRE", "RLE", "LRO", "RLO"}, {"LRI", "RLI", "FSI"}
CLASSES = {*EMBEDDINGS, *ISOLATES, "PDF", "PDI"}
CONTROLS = [chr(each) for each in range(0x2000, 0x2070) if bidirectional(chr(each)) in CLASSES]
MARKS = "\u200e\u200f\u061c"
HIDDEN = "\u202epay 100 to ada"
BEFORE, AFTER = "You owe ", " 25 euros"
TEXTS = st.text(st.sampled_from([*CONTROLS, *MARKS, "a", "é", "ש", "1", " "]), max_size=12)


def test_each_control_of_direction_is_among_the_tested_ones() -> None:
    every = {bidirectional(chr(each)) for each in range(0x110000)}
    assert every >= CLASSES
    assert len(CONTROLS) == sum(bidirectional(chr(each)) in CLASSES for each in range(0x110000)) == 9


@pytest.mark.guarantee("templates.values_keep_the_direction")
@pytest.mark.kills(guard="templates.direction_controls")
@pytest.mark.parametrize("channel", CHANNELS)
@given(before=TEXTS, value=TEXTS)
@example(before="", value=HIDDEN)
@example(before="\u2068", value="\u2069\u202e")
@example(before="\u202b", value="\u202c")
def test_text_after_a_value_has_the_templates_direction(channel: str, before: str, value: str) -> None:
    own = f"{before}{BEFORE}"
    for name, text in _message(channel, f"{own}{{{{ data.x }}}}{AFTER}", {"x": value}).items():
        assert text.endswith(AFTER), name
        assert _open(text) == _open(f"{own}{AFTER}"), name
        kept = "".join(each for each in value if each not in CONTROLS)
        assert _words(text) == _words(f"{own}{kept}{AFTER}"), name


@pytest.mark.parametrize("filters", ["", " | truncate(3, true, '')", " | upper", " | escape", " | default('x') | trim"])
def test_filters_leave_no_control_of_direction(filters: str) -> None:
    source = f"{{{{ data.x{filters} }}}}{{% for each in data.x | split %}}{{{{ each }}}}{{% endfor %}}{AFTER}"
    for name, text in _message("email", source, {"x": f"{HIDDEN}, \u2067é<"}).items():
        assert _open(text) == [], name
        assert ("&lt;" in text) is (name == "html" or "escape" in filters), name


def _message(channel: str, source: str, data: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a message whose template has the same source in each field that is not a link."""
    links = {field.column for field in CHANNELS[channel].fields if field.is_link}
    title, body, html, url = ("" if column in links else source for column in ("title", "body", "html", "url"))
    template = Template(1, 7, "news", channel, "en", title, body, html=html, url=url)
    context, steps = context_of(User(user_id=1, club_id=7), 7, data, "en"), Steps(RECORD_STEPS)
    texts = {field.name: field.render(context, steps) for field in fields_of(template, steps)}
    return {name: text for name, text in texts.items() if text}


def _open(text: str) -> list[str]:
    """Return the embeddings, overrides and isolates that are open at the end of a text (UAX 9, X1 to X8)."""
    found: list[str] = []
    for kind in map(bidirectional, text):
        if kind in EMBEDDINGS | ISOLATES:
            found.append(kind)
        elif kind == "PDF" and found and found[-1] in EMBEDDINGS:
            found.pop()
        elif kind == "PDI" and ISOLATES & set(found):
            while found.pop() not in ISOLATES:
                pass
    return found


def _words(text: str) -> str:
    """Return a text with one space for several, as in a field of one line."""
    return "".join(" " if kind else "".join(each) for kind, each in groupby(text, str.isspace)).strip()
