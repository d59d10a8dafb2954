"""The overview in a real Chromium, over the functions in memory: each role, an empty installation, and parts that are
missing.
"""

from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from functions.operations_handler import handler as operations_handler
from masscomm.errors import Retry
from tests.support.harness.console import open_console
from tests.support.harness.console_pictures import LIVE

pytestmark = pytest.mark.nightly
# What the page shows in the place of an unknown number.
UNKNOWN = "\N{EN DASH}"


def noon_now() -> str:
    """Return a time zone in which it is between 12:00 and 13:00, so that the counts of today are those of any run."""
    return f"Etc/GMT{datetime.now(UTC).hour - 12:+d}"


def test_overview_is_the_first_page_in_one_request(url: str) -> None:
    with open_console(url, "admin", time_zone=noon_now()) as console:
        page = console.page
        expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
        expect(page.get_by_role("link", name="Derby")).to_be_visible()
        calls = [each.url.partition("/v1/")[2] for each in console.requests if "/v1/" in each.url]
        assert [call.partition("?")[0] for call in calls] == ["overview"]
        expect(page.get_by_test_id("today-failed")).to_have_text("36")
        expect(page.get_by_test_id("health")).to_contain_text("Changes of users and settings arrive late")
        expect(page.get_by_text("1 record could not be processed")).to_be_visible()
        bar = page.locator("li").filter(has_text="Derby").get_by_role("img")
        expect(bar).to_have_attribute("aria-label", "Sent: 65,565, In flight: 38,552, Suppressed: 5,876, Failed: 7")
        page.get_by_role("link", name="What to do").click()
        expect(page.get_by_role("article")).to_be_visible()
        page.go_back()
        page.get_by_role("link", name="Derby").click()
        expect(page.get_by_test_id("send-id")).to_have_text(LIVE)


def test_viewer_sees_sends_and_counts_of_the_own_club(url: str) -> None:
    with open_console(url, "viewer") as console:
        page = console.page
        expect(page.get_by_role("link", name="Derby")).to_be_visible()
        expect(page.get_by_test_id("today-sent")).not_to_have_text(UNKNOWN)
        expect(page.get_by_role("heading", name="Needs attention")).to_have_count(0)
        expect(page.get_by_label("Only tenant")).to_have_count(0)


def test_club_of_the_address_is_shown_alone(url: str) -> None:
    with open_console(url, "admin") as console:
        page = console.page
        page.get_by_label("Only tenant").fill("2")
        page.wait_for_url("**/#/?club=2")
        expect(page.get_by_test_id("today-sent")).to_have_text("0")
        expect(page.get_by_role("link", name="Derby")).to_have_count(0)
        expect(page.get_by_test_id("first-steps")).to_have_count(0)


def test_empty_installation_shows_the_first_steps(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = operations_handler.bootstrap().overview.lists.store
    monkeypatch.setattr(store, "sends", {})
    register: Any = operations_handler.bootstrap().overview.lists.sends
    monkeypatch.setattr(register, "sends", {})
    with open_console(url, "sender") as console:
        steps = console.page.get_by_test_id("first-steps")
        expect(steps).to_contain_text("masscomm send --to 42")
        steps.get_by_role("link", name="Compose a message").click()
        expect(console.page.get_by_role("button", name="Review")).to_be_visible()
    with open_console(url, "viewer") as console:
        expect(console.page.get_by_test_id("first-steps")).to_contain_text("Nothing was sent yet")
        expect(console.page.get_by_test_id("first-steps").get_by_role("link")).to_have_count(0)


def test_failed_parts_leave_the_others(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*_: object) -> None:
        raise Retry("the metrics database is down")

    store = operations_handler.bootstrap().overview.lists.store
    for name in ("counts", "list_sends"):
        monkeypatch.setattr(store, name, down)
    with open_console(url, "admin") as console:
        page = console.page
        expect(page.get_by_text("Not available now: the counts.")).to_be_visible()
        expect(page.get_by_test_id("today-sent")).to_have_text(UNKNOWN)
        expect(page.get_by_text("1 record could not be processed")).to_be_visible()


def test_overview_is_read_again(url: str) -> None:
    """A failed request is repeated, and what the page shows stays."""
    with open_console(url, "admin") as console:
        page = console.page
        expect(page.get_by_role("link", name="Derby")).to_be_visible()
        failed: list[str] = []

        def fail(route: Route) -> None:
            failed.append(route.request.url)
            route.fulfill(status=503, json={"detail": "The register is away."}, headers={"Retry-After": "1"})

        page.route("**/v1/overview*", fail, times=1)
        expect(page.get_by_role("alert")).to_be_visible(timeout=30_000)
        expect(page.get_by_role("link", name="Derby")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0, timeout=30_000)
        assert len(failed) == 1
