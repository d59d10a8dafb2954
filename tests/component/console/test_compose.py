"""The page Compose in a real Chromium, over the functions in memory behind the local gateway."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from devstack.services.lambda_host import CONSOLE
from tests.support.harness import console_pictures, rest_api
from tests.support.harness.console import Console, is_send, open_console

pytestmark = pytest.mark.nightly


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> Iterator[Console]:
    console_pictures.build(monkeypatch)
    with rest_api.serving(CONSOLE) as url, open_console(url, "admin") as opened:
        yield opened


def test_numbers_and_preview_follow_the_entries(console: Console) -> None:
    page = console.page
    page.get_by_label("Category").fill("news")
    page.get_by_label("User ids").fill("40-59 999")
    push = page.get_by_test_id("forecast").get_by_role("table").filter(has_text="21 notifications")
    expect(push.get_by_role("row").filter(has_text="The user is not known")).to_contain_text("1")
    page.get_by_label("User ids").fill("40-59")
    expect(page.get_by_test_id("forecast")).to_contain_text("20 notifications")
    page.get_by_label("Title").fill("Goal")
    expect(page.get_by_test_id("preview-push")).to_contain_text("Goal")
    assert console.sends() == []
    assert console.errors == []


def test_the_last_page_lists_reached_and_other_recipients(console: Console) -> None:
    """Nothing is sent before its button is clicked, and then once."""
    page = console.page
    console.compose("40-59", title="Goal", body="1:0", type="match_reminder")
    expect(page.get_by_test_id("forecast-sums")).to_contain_text("not")
    rows = page.get_by_test_id("forecast").get_by_role("row")
    counts = [int(row.get_by_role("cell").last.inner_text()) for row in rows.all()]
    assert sum(counts) == 20
    expect(rows.filter(has_text="opted out")).to_contain_text("4")
    assert console.sends() == []
    assert console.violations() == []
    page.get_by_role("button", name="Send to 20 recipients").dblclick()
    console.accepted()
    assert len({each.headers["idempotency-key"] for each in console.sends()}) == 1


def test_an_audience_is_entered_with_the_keyboard_alone(console: Console) -> None:
    page = console.page
    page.get_by_label("Category").fill("news")
    page.get_by_label("Title").fill("Goal")
    page.get_by_label("Text").fill("1:0")
    page.get_by_label("A list or a file of users").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_label("An audience of the club")).to_be_checked()
    # To the kind of audience, the field, its operator and its value.
    for _ in range(4):
        page.keyboard.press("Tab")
    page.keyboard.type("de")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    # The focus is in the new condition.
    expect(page.get_by_role("group", name="Condition 2").get_by_label("Field")).to_be_focused()
    page.keyboard.type("Time")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("Europe/Berlin")
    expect(page.get_by_test_id("forecast")).to_contain_text("6 notifications")
    assert console.violations() == []
    page.get_by_role("button", name="Review").click()
    with page.expect_request(is_send) as sent:
        page.get_by_role("button", name="Send to this audience").click()
    body = json.loads(sent.value.post_data or "")
    assert body["audience"] == {
        "where": {"all": [{"field": "locale", "is": "de"}, {"field": "time_zone", "is": "Europe/Berlin"}]}
    }
    assert "to_users" not in body


def test_a_test_goes_to_oneself_and_keeps_the_draft(console: Console) -> None:
    page = console.page
    console.compose("40-59", title="Goal", body="1:0")
    page.get_by_label("Your own user id").fill("42")
    with page.expect_request(is_send) as sent:
        page.get_by_role("button", name="Send a test").dblclick()
    assert json.loads(sent.value.post_data or "")["to_users"] == [42]
    expect(page.get_by_test_id("tested")).to_contain_text("user 42")
    assert len({each.headers["idempotency-key"] for each in console.sends()}) == 1
    page.get_by_role("link", name="Follow it").click()
    console.accepted()
    page.get_by_role("link", name="Compose").click()
    assert page.get_by_label("Title").input_value() == "Goal"
    page.get_by_role("button", name="Review").click()
    assert page.get_by_label("Your own user id").input_value() == "42"
    page.get_by_role("button", name="Send a test").click()
    expect(page.get_by_test_id("tested")).to_be_visible()


def test_a_time_of_the_recipients_zones_is_sent_as_entered(console: Console) -> None:
    page = console.page
    page.get_by_label("In each recipient's time zone").check()
    page.get_by_label("Time", exact=True).fill("2030-01-01T09:00")
    console.page.get_by_label("Title").fill("Goal")
    page.get_by_label("Text").fill("1:0")
    page.get_by_label("User ids").fill("42")
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_text("in each recipient's own time zone")).to_be_visible()
    with page.expect_request(is_send) as sent:
        page.get_by_role("button", name="Send to 1 recipient").click()
    assert json.loads(sent.value.post_data or "")["send_at_local"] == "2030-01-01T09:00"
