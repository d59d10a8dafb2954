"""axe-core on the console's pages: light and dark, as wide as a phone, in both languages, and with an open dialog."""

from collections.abc import Iterator

import pytest

from tests.support.harness import console_pictures
from tests.support.harness.console import FORGET, Console, open_console, open_page
from tests.support.harness.console_pictures import PHONE, PICTURES, SIGNED_OUT

pytestmark = pytest.mark.nightly
# The errors of these pages are those of the API.
PAGES = [each for each in PICTURES if each.name not in {SIGNED_OUT, "sends-error", "sends-offline"}]


@pytest.fixture(scope="module", params=["light", "dark", "phone", "dark phone", "German", "German phone"])
def console(request: pytest.FixtureRequest, url_of_pages: str) -> Iterator[Console]:
    with open_console(url_of_pages, "admin", dark="dark" in request.param) as opened:
        opened.page.add_init_script(FORGET)
        if "phone" in request.param:
            opened.page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
        yield opened


@pytest.mark.parametrize("picture", PAGES, ids=lambda picture: picture.name)
def test_a_page_has_no_serious_violation(
    console: Console, picture: console_pictures.Picture, request: pytest.FixtureRequest
) -> None:
    console.page.goto("about:blank")
    open_page(console.page, f"{console.url}/{picture.path}")
    picture.do(console.page)
    if "German" in request.node.callspec.params["console"]:
        console_pictures.in_german(console.page)
    assert console.violations() == []
    width = console.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0, "the page is wider than its window"
