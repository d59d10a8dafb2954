"""The page of HTML in the design of the console."""

import re

from local.devstack.config import ROOT
from masscomm.http.html_page import STYLE, html_page

_PAIR = re.compile(r"light-dark\((#[0-9a-f]{6}),\s*(#[0-9a-f]{6})\)")


def test_colours_are_those_of_the_console() -> None:
    tokens = (ROOT / "web" / "src" / "design" / "tokens.css").read_text()
    assert set(_PAIR.findall(STYLE)) <= set(_PAIR.findall(tokens))
    assert len(re.findall(r"#[0-9a-f]{3,}", STYLE)) == 2 * len(_PAIR.findall(STYLE)) > 0


def test_texts_are_no_markup() -> None:
    page = html_page("<b>", "<p>text</p>", above="<i>")
    assert "<h1>&lt;b&gt;</h1><p>text</p>" in page
    assert "&lt;i&gt;" in page
    assert "<style>" in page
    assert '<style nonce="n">' in html_page("t", "", nonce="n")
