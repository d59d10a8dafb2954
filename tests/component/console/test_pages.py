"""Every page that the gateway serves, in a real Chromium: no error, such as one of the Content-Security-Policy, and
each control within its card, at three widths and in both languages.
"""

from collections.abc import Iterator

import pytest

from tests.support.harness import console_pictures
from tests.support.harness.console import FORGET, Console, open_console, open_page
from tests.support.harness.console_pictures import PHONE, PICTURES, SIGNED_OUT

pytestmark = pytest.mark.nightly
# The pages of one session, with an API that answers.
PAGES = [each for each in PICTURES if each.name not in {SIGNED_OUT, "sends-error", "sends-offline"}]
SIZES = [(PHONE["width"], PHONE["height"]), (1024, 768), (1920, 1080)]
# Returns each control that is seen and lies outside its card, a dialog or the window, by more than a rounded pixel.
OUTSIDE = """() => [...document.querySelectorAll("button, a, input, select, textarea, summary")]
  .filter((control) => control.checkVisibility() && !control.closest(".visually-hidden, .skip:not(:focus)"))
  .filter((control) => {
    const card = (control.closest(".card, .dialog") ?? document.body).getBoundingClientRect();
    const { left, right, top, bottom } = control.getBoundingClientRect();
    return left < card.left - 1 || right > card.right + 1 || top < card.top - 1 || bottom > card.bottom + 1;
  })
  .map((control) => control.ariaLabel ?? control.textContent.trim() ?? control.outerHTML)"""


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: str(size[0]))
def console(request: pytest.FixtureRequest, url_of_pages: str) -> Iterator[Console]:
    with open_console(url_of_pages, "admin") as opened:
        opened.page.add_init_script(FORGET)
        width, height = request.param
        opened.page.set_viewport_size({"width": width, "height": height})
        yield opened


@pytest.mark.parametrize("picture", PAGES, ids=lambda picture: picture.name)
def test_each_control_lies_within_its_card(console: Console, picture: console_pictures.Picture) -> None:
    page = console.page
    console.errors.clear()
    page.goto("about:blank")
    open_page(page, f"{console.url}/{picture.path}")
    picture.do(page)
    assert page.evaluate(OUTSIDE) == []
    console_pictures.in_german(page)
    assert page.evaluate(OUTSIDE) == []
    assert console.errors == []
