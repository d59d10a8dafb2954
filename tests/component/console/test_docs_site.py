"""The documentation's site as the gateway serves it, in a real Chromium."""

import json
from collections.abc import Iterator
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError
from playwright.sync_api import expect

from local.devstack.services.lambda_host import DOCS as SITE
from local.emulators.gateway import DOCS, DOCUMENT, REFERENCE
from tests.support.harness.console import Console, open_console, open_page
from tests.support.until import until

# A script of a page: it notes each address that the header has led to.
NOTE_HEADER = """
window.addresses = [];
new MutationObserver(() => {
  const link = document.querySelector("header a.docs");
  if (link) addresses.push(link.href);
}).observe(document, { attributes: true, childList: true, subtree: true });
"""


@pytest.fixture
def console(url: str) -> Iterator[Console]:
    with open_console(url, None) as opened:
        opened.requests.clear()
        yield opened
        assert [each.url for each in opened.requests if not each.url.startswith((f"{url}/", "data:", "blob:"))] == []


def test_documentation_is_searched_and_links_to_sections(console: Console) -> None:
    page = console.page
    page.goto(f"{console.url}/docs")
    expect(page.get_by_role("heading", level=1)).to_contain_text("masscomm")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("searchbox").fill("quiet hours")
    page.get_by_role("listbox").get_by_role("link").filter(has_text="Quiet hours").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Preferences")
    page.goto(f"{console.url}/docs/concepts.html")
    page.locator("main").get_by_role("link", name="Guarantees").click()
    page.wait_for_url("**/docs/guarantees.html#the-duplicate-bound")
    expect(page.get_by_role("heading", name="The duplicate bound")).to_be_in_viewport()
    page.get_by_role("switch").first.click()
    expect(page.locator("html")).to_have_class("dark")


def test_example_is_shown_in_the_chosen_language(console: Console) -> None:
    page = console.page
    page.goto(f"{console.url}/docs/sending.html")
    tabs = page.locator(".vp-code-group").first
    expect(tabs.get_by_text("/v1/sends")).to_be_visible()
    for language, code in (("Java", "class Send"), ("Python", "from masscomm_client import Client")):
        expect(tabs.get_by_text(code)).to_be_hidden()
        tabs.get_by_text(language, exact=True).click()
        expect(tabs.get_by_text(code)).to_be_visible()
    expect(tabs.get_by_text("class Send")).to_be_hidden()


def test_header_leads_to_the_page_about_a_page(console: Console) -> None:
    page = console.page
    open_page(page, f"{console.url}/#/operations/letters")
    with page.expect_popup() as opened:
        page.get_by_role("banner").get_by_role("link", name="Documentation").click()
    opened.value.wait_for_url("**/docs/operations.html#dead-letters")
    expect(opened.value.get_by_role("heading", name="Dead letters")).to_be_in_viewport()
    opened.value.close()


def test_header_is_about_the_first_page_from_its_start(console: Console) -> None:
    page = console.page
    page.add_init_script(NOTE_HEADER)
    page.goto("about:blank")
    open_page(page, f"{console.url}/#/operations/letters")
    assert set(page.evaluate("addresses")) == {f"{console.url}/docs/operations.html#dead-letters"}


def test_api_reference_shows_each_operation(console: Console) -> None:
    page = console.page
    page.goto(f"{console.url}/docs/")
    page.get_by_role("link", name="API reference").first.click()
    page.wait_for_url(f"**{REFERENCE}")
    operations = [
        each["summary"]
        for path in json.loads(DOCUMENT.read_text())["paths"].values()
        for each in path.values()
        if isinstance(each, dict)
    ]
    assert len(operations) > 40

    def absent() -> list[str]:
        # One look at all headings: by role, the browser computes each name of this large page for each operation.
        headings = page.locator("h1, h2, h3, h4").all_text_contents()
        return [summary for summary in operations if not any(summary in heading for heading in headings)]

    until("each operation has a heading", lambda: not absent(), every_s=0.25)
    found = page.get_by_role("menuitem", name="Forecast a send").first

    def searched() -> bool:
        # A search before the index is ready finds nothing.
        page.get_by_role("textbox").first.fill("")
        page.get_by_role("textbox").first.fill("dry run")
        with suppress(PlaywrightTimeoutError):
            found.wait_for(timeout=1_000)
        return found.is_visible()

    until("the search finds the operation", searched)


def test_diagrams_are_pictures(console: Console) -> None:
    page = console.page
    page.goto(f"{console.url}/docs/internals/architecture.html")
    diagram = page.locator(".diagram svg")
    expect(diagram.get_by_text("preference_checker")).to_be_visible()
    expect(page.locator(".language-mermaid")).to_have_count(0)
    # The colours of the theme: a picture without styles would be black on black.
    box = diagram.locator("rect").first
    page.get_by_role("switch", name="theme").first.click()
    expect(page.locator("html")).to_have_class("dark")
    assert box.evaluate("box => getComputedStyle(box).fill") not in ("none", "rgb(0, 0, 0)")


class _Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.add(given.get("id") or "")
        if tag == "a" and (href := given.get("href")):
            self.links.add(href)


def test_links_of_the_site_lead_to_a_page_and_a_section() -> None:
    """Links of the built pages, those of the sidebar included; to a file that is no page, as well."""
    assert (SITE / "index.html").exists(), "the documentation is not built: make setup"
    pages = {f"{DOCS}/{path.relative_to(SITE)}": _Page(path) for path in SITE.rglob("*.html")}
    links = {(page, urljoin(page, href)) for page, parsed in pages.items() for href in parsed.links}
    inside = {(page, *urldefrag(link)) for page, link in links if link.startswith("/")}
    assert len(inside) > 1_000
    broken = []
    for page, path, anchor in inside:
        file = f"{path}index.html" if path.endswith("/") else path
        if anchor and unquote(anchor) in pages[file].anchors:
            continue
        if anchor or not file.startswith(f"{DOCS}/") or not (SITE / file.removeprefix(f"{DOCS}/")).is_file():
            broken.append((page, f"{path}#{anchor}"))
    assert broken == []
