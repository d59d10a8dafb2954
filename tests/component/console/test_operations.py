"""The console's operations pages in a real Chromium, over the functions in memory behind the local gateway."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Route, expect

from functions.operations_handler import handler as operations_handler
from tests.support.harness.console import Console, open_console, open_page
from tests.support.harness.operations_api import KEY_ID

pytestmark = pytest.mark.nightly
SECTIONS = ("health", "alarms", "letters", "devices", "suppressions", "keys", "audit")


@pytest.fixture
def console(url_of_one_send: str) -> Iterator[Console]:
    with open_console(url_of_one_send, "admin") as opened:
        yield opened


def section(console: Console, name: str) -> None:
    open_page(console.page, f"{console.url}/#/operations/{name}")


def test_a_dead_letter_is_replayed_once(console: Console) -> None:
    """The replay, its principal and the new status are visible afterwards."""
    page = console.page
    section(console, "letters")
    page.get_by_role("button", name="Show 0@17").click()
    expect(page.locator("pre").first).to_contain_text('"to_users": [42]')
    expect(page.get_by_role("heading", name="0@17")).to_be_focused()
    page.get_by_role("button", name="Replay").press("Enter")
    question = page.get_by_role("alert").filter(has_text="Replay this record?")
    expect(question.get_by_role("button", name="Replay")).to_be_focused()
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    page.get_by_role("button", name="Replay").press("Enter")
    expect(question.get_by_role("button", name="Replay")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Letter 0@17 is replayed.")
    expect(page.get_by_text("No dead letters match.")).to_be_visible()
    page.get_by_label("Status").select_option("replayed")
    page.get_by_role("button", name="Show 0@17").click()
    expect(page.get_by_role("listitem").filter(has_text="Replayed")).to_contain_text("admin")
    expect(page.get_by_role("button", name="Replay")).to_have_count(0)
    section(console, "audit")
    expect(page.get_by_role("row").filter(has_text="dead_letter.replayed")).to_contain_text("0@17")


def test_a_discard_needs_a_reason(console: Console) -> None:
    page = console.page
    section(console, "letters")
    page.get_by_role("button", name="Show 0@17").click()
    expect(page.get_by_role("button", name="Discard")).to_be_disabled()
    page.get_by_label("Why is it discarded?").fill("the match is over")
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_role("status")).to_contain_text("Letter 0@17 is discarded.")
    section(console, "audit")
    expect(page.get_by_role("row").filter(has_text="dead_letter.discarded")).to_contain_text("the match is over")


def test_categories_without_unsubscribe_are_a_warning(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    page, cases = console.page, operations_handler.bootstrap()
    section(console, "health")
    expect(page.get_by_role("status").filter(has_text="unsubscribe")).to_have_count(0)
    health = replace(cases.health, offers_unsubscribe=False)
    monkeypatch.setattr(operations_handler, "bootstrap", lambda: replace(cases, health=health))
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_role("status").filter(has_text="no way to unsubscribe: newsletter")).to_be_visible()


def test_a_suppression_is_found_by_its_address_and_removed(console: Console) -> None:
    """The address stays in the browser."""
    page = console.page
    section(console, "suppressions")
    page.get_by_label("Address or its SHA-256").fill("Ada@Example.org")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("button", name="Remove 1-").click()
    page.get_by_role("alert").get_by_role("button", name="Back").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("button", name="Remove 1-").click()
    page.keyboard.press("Enter")  # The question has the focus.
    expect(page.get_by_role("status")).to_contain_text("the address gets e-mail again")
    expect(page.get_by_text("No suppressions match.")).to_be_visible()
    assert not any("xample.org" in request.url or "%40" in request.url for request in console.requests)


def test_a_key_is_created_shown_once_and_revoked(console: Console) -> None:
    page = console.page
    section(console, "keys")
    page.get_by_label("Name").fill("newsletter")
    page.get_by_role("button", name="Create a key").click()
    expect(page.get_by_role("status").locator("code")).to_contain_text("mc_")
    text = page.get_by_role("status").locator("code").inner_text()
    page.reload()
    expect(page.get_by_role("row").filter(has_text="newsletter")).to_be_visible()
    assert text not in page.content()
    page.get_by_role("row").filter(has_text=KEY_ID).get_by_role("button", name="Revoke").click()
    page.get_by_role("alert").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("row").filter(has_text=KEY_ID).get_by_role("button")).to_have_count(0)


def test_a_key_is_rotated_after_a_question(console: Console) -> None:
    page = console.page
    section(console, "keys")
    page.get_by_label("Name").fill("newsletter")
    page.get_by_label("Tenants").fill("seven")
    expect(page.get_by_text("Ids of tenants with commas between them.").last).to_be_visible()
    expect(page.get_by_role("button", name="Create a key")).to_be_disabled()
    page.get_by_role("row").filter(has_text=KEY_ID).get_by_role("button", name="Rotate").click()
    expect(page.get_by_role("alert").get_by_role("button", name="Rotate")).to_be_focused()
    assert not [each for each in console.requests if each.url.endswith("/rotate")]
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").locator("code")).to_contain_text("mc_")
    (rotated,) = [each for each in console.requests if each.url.endswith("/rotate")]
    assert rotated.headers["idempotency-key"]


def test_a_device_with_an_id_of_64_bits_is_enabled(console: Console) -> None:
    page = console.page

    def enlarge(route: Route) -> None:
        answer = route.fetch().json()
        device = {"device_id": 9007199254740993, "user_id": 9223372036854775807, "can_be_enabled": True}
        route.fulfill(json=answer | {"rows": [row | device for row in answer["rows"]]})

    page.route(re.compile(r"/v1/devices(\?|$)"), enlarge)
    section(console, "devices")
    user = page.get_by_role("link", name="9223372036854775807")
    expect(user).to_have_attribute("href", "#/users/9223372036854775807")
    with page.expect_request("**/enable") as enabled:
        page.get_by_role("button", name="Try again 9007199254740993").click()
    assert enabled.value.url.endswith("/v1/devices/9007199254740993/enable")


def test_quiet_alarms_are_shown_on_demand(console: Console) -> None:
    def answer(route: Route) -> None:
        response = route.fetch()
        (row,) = response.json()["rows"]
        rows = [row | {"name": f"quiet-{number}", "state": "ok"} for number in range(3)]
        route.fulfill(response=response, json=response.json() | {"rows": rows})

    page = console.page
    page.route("**/v1/alarms", answer)
    section(console, "alarms")
    expect(page.get_by_text("No alarm rings.")).to_be_visible()
    page.get_by_role("button", name="Show the 3 quiet ones too").press("Enter")
    expect(page.get_by_role("row").filter(has_text="quiet-")).to_have_count(3)


def test_an_alarm_leads_to_its_runbook(console: Console) -> None:
    """A runbook links to others, and other pages are named without a link."""
    page = console.page
    section(console, "alarms")
    row = page.get_by_role("row").filter(has_text="builder-dead-letters")
    expect(row).to_contain_text("Rings")
    row.get_by_role("link", name="A function dead-letters many records").click()
    runbook = page.get_by_role("article", name="A function dead-letters many records")
    expect(runbook.get_by_role("heading", name="Do")).to_be_visible()
    expect(runbook.get_by_text("masscomm dead-letters list --deployed ENVIRONMENT")).to_be_visible()
    assert runbook.locator("a[href*='operations.md']").count() == 0
    assert console.violations() == []
    page.get_by_role("link", name="Close the runbook").click()
    expect(runbook).to_have_count(0)


def test_a_disabled_device_is_tried_again(console: Console) -> None:
    page = console.page
    section(console, "devices")
    expect(page.get_by_role("region", name="Disabled devices")).to_contain_text("1")
    page.get_by_label("Reason").select_option("takes_nothing")
    page.get_by_role("button", name="Search").click()
    row = page.get_by_role("row").filter(has_text="420")
    expect(row).to_contain_text("The platform accepts nothing for it any more")
    row.get_by_role("button", name="Try again 420").click()
    expect(page.get_by_role("status")).to_contain_text("Device 420 is registered again.")
    section(console, "audit")
    expect(page.get_by_role("row").filter(has_text="device.enabled")).to_contain_text("420")


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_has_no_serious_violation(console: Console, name: str) -> None:
    section(console, name)
    expect(console.page.get_by_role("table").first).to_be_visible()
    assert console.violations() == []


def test_a_phone_shows_each_cell_with_its_column(console: Console) -> None:
    page = console.page
    page.set_viewport_size({"width": 390, "height": 844})
    section(console, "keys")
    cell = page.get_by_role("row").filter(has_text="shop").get_by_role("cell")
    expect(cell.nth(2)).to_have_attribute("data-label", "Scopes")
    for button in page.get_by_role("row").get_by_role("button").all():
        box = button.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 390
