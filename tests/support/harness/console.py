"""The web console in a real Chromium, driven by Playwright."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import ConsoleMessage, Locator, Page, Request, expect, sync_playwright

from local.devstack.config import ROOT

AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
# The time for the metrics job to count a batch on a loaded machine, in milliseconds.
PATIENCE_MS = 60_000
# The time for a page to show anything else. Playwright's own 5 s are too short for a loaded machine.
expect.set_options(timeout=30_000)
# A script of a page: it notes layout shifts and the durations of interactions until the next paint, from 16 ms on.
OBSERVE = """
window.measured = { shifts: [], events: [] };
new PerformanceObserver((list) => list.getEntries().forEach((each) => {
  const moved = each.sources.map(({ node }) => node?.outerHTML?.slice(0, 120));
  if (!each.hadRecentInput) measured.shifts.push([each.value, moved]);
})).observe({ type: "layout-shift", buffered: true });
new PerformanceObserver((list) => list.getEntries().forEach((each) => {
  if (each.interactionId) measured.events.push([each.name, each.duration, each.interactionId]);
})).observe({ type: "event", buffered: true, durationThreshold: 16 });
"""
# A script of a page: it notes the time of the first frame with content of the API below the heading.
PAINT = """
window.painted = new Promise((done) => {
  const look = () => {
    if (document.querySelector("main :is(td, dd, [data-testid=first-steps], form textarea)")) {
      requestAnimationFrame(() => setTimeout(() => done(performance.now())));
    } else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
});
"""
# A condition of a page: the router has opened its address.
OPENED = """() => {
  const route = document.querySelector("#app")?.__vue_app__?.config.globalProperties.$route;
  return route?.matched.length && route.fullPath === (location.hash.slice(1) || "/");
}"""
# The most presses of Tab to the next field or button that a test wants.
_TABS = 60
# A script of a page: it begins without the draft and the language of the page before. about:blank has no storage.
FORGET = """
if (location.protocol === "http:") {
  sessionStorage.removeItem("masscomm.draft");
  localStorage.removeItem("masscomm.language");
}
"""
_SERIOUS = ("serious", "critical")


@dataclass
class Console:
    """One tab of a browser, with its requests and the messages of its console."""

    page: Page
    url: str
    # The errors that the page logged, violations of its Content-Security-Policy included.
    errors: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def sign_in(self, user: str, sign_out: str = "Sign out") -> None:
        """Choose a ready user on the issuer's page, to which a button of the console led."""
        self.page.get_by_role("button", name=user.title()).click()
        expect(self.page.get_by_role("button", name=sign_out)).to_be_visible(timeout=PATIENCE_MS)

    def call(self, method: str, path: str, body: object = None) -> int:
        """Call the API with the person's own token, as another program could. Returns the status."""
        stored = self.page.evaluate("Object.entries(sessionStorage).find(([name]) => name.includes('user:'))[1]")
        headers = {"Authorization": f"Bearer {json.loads(stored)['access_token']}", "Content-Type": "application/json"}
        return self.page.request.fetch(f"{self.url}{path}", method=method, headers=headers, data=body).status

    def compose(self, recipients: str, *, title: str, body: str, type: str = "announcement") -> None:
        """Fill in a send and go to its review."""
        open_page(self.page, f"{self.url}/#/compose")
        self.page.get_by_label("Category").select_option(type)
        self.page.get_by_label("Title").fill(title)
        self.page.get_by_label("Text").fill(body)
        self.page.get_by_label("User ids").fill(recipients)
        self.page.get_by_role("button", name="Review").click()

    def sends(self) -> list[Request]:
        """Return the requests for sends, without those that only ask for numbers."""
        return [each for each in self.requests if is_send(each)]

    def accepted(self) -> str:
        """Wait for the page of the send that was accepted. Returns the send's id."""
        self.page.wait_for_url(re.compile(r"#/sends/"), timeout=PATIENCE_MS)
        return self.page.get_by_test_id("send-id").inner_text()

    def count(self, status: str) -> int:
        """Return the number of notifications that the bar shows in a status."""
        return int(self.page.locator(f"li[data-status={status}]").get_attribute("data-count") or "")

    def wait_for_state(self, text: str) -> None:
        expect(self.page.get_by_test_id("state")).to_have_text(text, timeout=PATIENCE_MS)

    def measured(self) -> dict[str, Any]:
        """Return what the script OBSERVE has noted on this page."""
        # Entries arrive after the frame that they describe.
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        found: dict[str, Any] = json.loads(self.page.evaluate("JSON.stringify(measured)"))
        return found

    def first_useful_paint_ms(self, path: str) -> float:
        """Open a page anew, and return the time from its request to the first frame with its content in ms. Needs the
        script PAINT.
        """
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/{path}")
        return float(self.page.evaluate("painted"))

    def tab_to(self, wanted: Locator) -> None:
        """Press Tab until an element has the focus."""
        for _ in range(_TABS):
            if wanted.evaluate("each => each === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not lead to {wanted}")

    def longest_interaction(self) -> str:
        """Return the longest interaction until the next paint, in words. At least one was noted."""
        longest: dict[int, tuple[float, str]] = {}
        for name, duration, interaction in self.measured()["events"]:
            longest[interaction] = max(longest.get(interaction, (0.0, "")), (duration, name))
        duration, name = max(longest.values())
        return f"interaction to next paint: {duration:.0f} ms ({name}), of {len(longest)} from 16 ms on"

    def violations(self) -> list[str]:
        """Return the serious violations of accessibility rules on this page, as axe-core finds them."""
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("axe.run().then(result => result.violations)")
        return [
            f"{each['id']}: {each['help']}: {node['html'][:200]}"
            for each in found
            if each["impact"] in _SERIOUS
            for node in each["nodes"]
        ]


def open_page(page: Page, url: str) -> None:
    """Open an address of the console, and return once its page is shown in place of the one before. Both have a header
    and a heading, and a page is loaded when it is first opened.
    """
    page.goto(url)
    page.wait_for_function(OPENED, timeout=PATIENCE_MS)


def is_send(request: Request) -> bool:
    """Return whether a request asks for a send, and not only for its numbers."""
    return request.method == "POST" and request.url.endswith("/v1/sends") and "idempotency-key" in request.headers


@contextmanager
def open_console(
    url: str,
    user: str | None,
    *,
    dark: bool = False,
    locale: str = "en-GB",
    sign_out: str = "Sign out",
    time_zone: str | None = None,
) -> Iterator[Console]:
    """Open the console in a new browser and sign in as a ready user; None: stay signed out. A test fails if the page
    has logged an error.

    Args:
        sign_out: The text of the button in the language of `locale`.
        time_zone: The time zone of the browser; None: that of the machine.
    """
    executable = os.environ.get("CHROME_PATH") or shutil.which("chromium")
    assert executable, "no browser: install chromium, or set CHROME_PATH"
    with sync_playwright() as playwright:
        # Chromium's sandbox does not start for root.
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        context = browser.new_context(locale=locale, color_scheme="dark" if dark else "light", timezone_id=time_zone)
        page = context.new_page()
        console = Console(page, url)

        def log(message: ConsoleMessage) -> None:
            # Chromium also logs each response with an error status, such as the 404 of a send that is not counted yet.
            if message.type == "error" and not message.text.startswith("Failed to load resource"):
                console.errors.append(message.text)

        page.on("console", log)
        page.on("pageerror", lambda error: console.errors.append(str(error)))
        page.on("request", lambda request: console.requests.append(request))
        page.goto(url)
        expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=PATIENCE_MS)
        if user is not None:
            page.locator("main").get_by_role("button").click()
            console.sign_in(user, sign_out)
        try:
            yield console
            assert console.errors == []
        finally:
            browser.close()
