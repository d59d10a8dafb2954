"""The pages Sends and Send in a real Chromium, over the functions in memory behind the local gateway."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Request, Route, expect

from masscomm.domain.statuses import Status
from masscomm.errors import Retry
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from masscomm.stores.metrics.port import ChannelTotals
from tests.support.harness import console_pictures
from tests.support.harness.console import Console, open_console, open_page
from tests.support.harness.console_pictures import ENDED, LIVE, SCHEDULED

pytestmark = pytest.mark.nightly
MORE = 60


@dataclass(frozen=True)
class Opened:
    console: Console
    store: InMemoryMetricsStore

    def add_sends(self, count: int, *, at: datetime) -> None:
        """Add sends of the category news that were requested in the minutes before `at`."""
        known = self.store.sends[LIVE]
        for index in range(count):
            send_id = f"{len(self.store.sends):08}-0000-4000-8000-000000000000"
            requested_at = at - timedelta(minutes=index)
            self.store.sends[send_id] = replace(known, send_id=send_id, type="news", requested_at=requested_at)

    def count_batch(self) -> None:
        """Note that the metrics job has counted a batch."""
        self.store.batch_id = (self.store.batch_id or 0) + 1

    def listed(self) -> list[str]:
        return self.console.page.locator("td .id").all_inner_texts()


@pytest.fixture
def opened(url: str, store: InMemoryMetricsStore) -> Iterator[Opened]:
    with open_console(url, "admin", time_zone="Asia/Tokyo") as console:
        yield Opened(console, store)


def test_older_sends_are_appended_once_and_all_stay(opened: Opened) -> None:
    """A double click appends one page; a send that new ones push from the first page stays in the list."""
    page = opened.console.page
    now = datetime.now(UTC)
    opened.add_sends(MORE, at=now - timedelta(days=1))
    open_page(page, f"{opened.console.url}/#/sends")
    expect(page.locator("td .id")).to_have_count(25)
    page.get_by_role("button", name="Older sends").dblclick()
    expect(page.locator("td .id")).to_have_count(50)
    before = opened.listed()
    assert len(set(before)) == 50
    opened.add_sends(3, at=now)
    opened.count_batch()
    expect(page.locator("td .id")).to_have_count(53, timeout=30_000)
    assert opened.listed()[3:] == before
    page.get_by_role("button", name="Older sends").click()
    expect(page.locator("td .id")).to_have_count(len(opened.store.sends))
    assert len(set(opened.listed())) == len(opened.store.sends)


def test_rows_of_earlier_filters_are_not_appended(opened: Opened) -> None:
    page = opened.console.page
    opened.add_sends(MORE, at=datetime.now(UTC) - timedelta(days=1))
    open_page(page, f"{opened.console.url}/#/sends")
    expect(page.locator("td .id")).to_have_count(25)
    held: list[Route] = []
    page.route("**/v1/sends?*cursor=*", lambda route: held.append(route))
    with page.expect_request("**/v1/sends?*cursor=*"):
        page.get_by_role("button", name="Older sends").click()
    page.get_by_label("Search").fill("newsletter")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="newsletter")).to_have_count(1)
    expect(page.locator("td .id")).to_have_count(1)
    expect(page.get_by_role("button", name="Older sends")).to_have_count(0)


def test_the_link_to_the_sends_clears_the_filters(opened: Opened) -> None:
    page = opened.console.page
    open_page(page, f"{opened.console.url}/#/sends?search=newsletter&status=ended")
    expect(page.locator("td .id")).to_have_count(1)
    expect(page.get_by_label("Search")).to_have_value("newsletter")
    page.get_by_role("navigation").get_by_role("link", name="Sends").click()
    expect(page.locator("td .id")).to_have_count(len(opened.store.sends))
    expect(page.get_by_label("Search")).to_have_value("")
    assert page.get_by_label("Status").input_value() == ""


def test_a_typed_club_makes_one_request(opened: Opened) -> None:
    page = opened.console.page
    open_page(page, f"{opened.console.url}/#/sends")
    expect(page.locator("td .id").first).to_be_visible()
    page.get_by_label("Tenant").press("End")
    page.get_by_label("Tenant").press_sequentially("234")
    page.wait_for_url("**/#/sends?club=1234")
    expect(page.get_by_text("There is no such send yet.")).to_be_visible()
    asked = {each.url.partition("club_id=")[2].partition("&")[0] for each in opened.console.requests if is_list(each)}
    assert asked == {"1", "1234"}


def test_sends_of_every_tenant_are_listed(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without counts there is no such list: the page says what to do."""
    page = opened.console.page
    other = replace(opened.store.sends[LIVE], send_id="00000000-0000-4000-8000-000000000002", club_id=2)
    opened.store.sends[other.send_id] = other
    open_page(page, f"{opened.console.url}/#/sends")
    expect(page.locator("td .id").first).to_be_visible()
    expect(page.get_by_role("columnheader", name="Tenant")).to_have_count(0)
    page.get_by_label("Tenant").fill("")
    expect(page.get_by_role("columnheader", name="Tenant")).to_be_visible()
    expect(page.locator("td .id")).to_have_count(len(opened.store.sends))
    expect(page.get_by_role("row").filter(has_text=other.send_id).get_by_role("cell").nth(1)).to_have_text("2")
    expect(page.get_by_text("Sends to audiences at a later time are in the lists")).to_be_visible()

    def down(*_: object) -> None:
        raise Retry("the metrics database is down")

    monkeypatch.setattr(opened.store, "list_sends", down)
    page.reload()
    expect(page.get_by_text("Choose a tenant")).to_be_visible()


def is_list(request: Request) -> bool:
    return request.method == "GET" and "/v1/sends?" in request.url


def test_a_send_is_cancelled_with_the_keyboard_alone(opened: Opened) -> None:
    """The question has the focus; Escape keeps the send."""
    console, page = opened.console, opened.console.page
    open_page(page, f"{console.url}/#/sends/{LIVE}")
    cancel = page.get_by_role("button", name="Cancel this send")
    expect(cancel).to_be_visible()
    for answer in ("Escape", "Enter"):
        console.tab_to(cancel)
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_be_visible()
        if answer == "Enter":
            console.tab_to(page.get_by_role("button", name="Cancel the send"))
        page.keyboard.press(answer)
        expect(page.get_by_role("dialog")).to_have_count(0)
    console.wait_for_state("Being cancelled")


def test_a_send_is_opened_at_its_top(opened: Opened) -> None:
    page = opened.console.page
    opened.add_sends(MORE, at=datetime.now(UTC) - timedelta(days=1))
    open_page(page, f"{opened.console.url}/#/sends")
    expect(page.locator("td .id")).to_have_count(25)
    last = page.get_by_role("link", name="news", exact=True).last
    last.scroll_into_view_if_needed()
    assert page.evaluate("scrollY") > 0
    last.click()
    expect(page.get_by_test_id("sum")).to_be_visible()
    assert page.evaluate("scrollY") == 0


def test_the_recipients_are_filtered_by_user_and_status(opened: Opened) -> None:
    page = opened.console.page
    open_page(page, f"{opened.console.url}/#/sends/{LIVE}")
    table = page.get_by_role("region", name="Recipients").get_by_role("row")
    expect(table).to_have_count(21)
    options = page.get_by_label("Status").locator("option").evaluate_all("all => all.map(each => each.value)")
    assert set(options) == {"", *Status}
    page.get_by_label("Status").select_option("suppressed")
    expect(table).to_have_count(9)
    page.get_by_label("User", exact=True).fill("42")
    expect(table).to_have_count(2)
    expect(table.last).to_contain_text("42")
    page.get_by_label("Status").select_option("delivered")
    expect(page.get_by_text("No notification matches.")).to_be_visible()
    page.get_by_label("Status").select_option("")
    expect(table.last).to_contain_text("opted out")


def test_a_notification_that_is_not_found_keeps_the_list(opened: Opened) -> None:
    page = opened.console.page
    open_page(page, f"{opened.console.url}/#/sends/{LIVE}")
    page.route(
        "**/v1/notifications/*", lambda route: route.fulfill(status=404, json={"detail": "No such notification."})
    )
    page.get_by_role("button", name="41", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("No such notification.")
    expect(page.get_by_role("region", name="Recipients").get_by_role("row")).to_have_count(21)


def test_numbers_that_do_not_add_up_are_marked(opened: Opened) -> None:
    """The API's numbers add up, so one of them is changed on its way."""
    page = opened.console.page

    def change(route: Route) -> None:
        response = route.fetch(headers=route.request.headers | {"accept": "application/json"})
        body = response.json()
        body["send"]["totals"]["requested"] += 1
        route.fulfill(response=response, json=body)

    page.route("**/events*", change, times=1)
    open_page(page, f"{opened.console.url}/#/sends/{LIVE}")
    expect(page.get_by_test_id("sum")).to_have_text(
        "These numbers do not add up: 110,000 in the states, 110,001 requested"
    )


def test_a_paused_send_has_no_rate(opened: Opened) -> None:
    page = opened.console.page
    open_page(page, f"{opened.console.url}/#/sends/{LIVE}")
    expect(page.get_by_test_id("state")).to_have_text("In progress")
    send = opened.store.sends[LIVE]
    opened.store.sends[LIVE] = replace(
        send, channels={**send.channels, "email": ChannelTotals(12_000, 0, 9_000, {"sent": {"": 7_000}})}
    )
    opened.count_batch()
    expect(page.get_by_test_id("progress")).to_contain_text("per second", timeout=30_000)
    # Held notifications end later than the rate says.
    expect(page.get_by_test_id("progress")).to_contain_text("all but the 2,400 that wait")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_test_id("state")).to_have_text("Paused", timeout=30_000)
    expect(page.get_by_test_id("progress")).not_to_contain_text("per second")
    expect(page.locator("li[data-status=in_flight]")).to_contain_text("Paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_test_id("state")).to_have_text("In progress", timeout=30_000)


# --- another time -----------------------------------------------------------------------------------------------------


def open_form(console: Console) -> Locator:
    """Open the form for another time on the page of the scheduled send. Returns the dialog."""
    open_page(console.page, f"{console.url}/#/sends/{SCHEDULED}")
    console.page.get_by_role("button", name="Change the time").click()
    return console.page.get_by_role("dialog")


def fill_form(form: Locator, at: str, zone: str = "UTC") -> None:
    form.get_by_label("Time", exact=True).fill(at)
    form.get_by_label("Time zone").select_option(zone)


def moves(console: Console) -> list[str]:
    """Return the times of the requests that move a send."""
    asked = [each for each in console.requests if each.method == "PATCH"]
    return [json.loads(each.post_data or "")["send_at"] for each in asked]


def test_a_scheduled_send_is_moved_to_a_time_of_a_zone(opened: Opened) -> None:
    """The form begins with the present time. Enter submits it, and the focus returns to its button."""
    page, form = opened.console.page, open_form(opened.console)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    expect(form.get_by_label("Time", exact=True)).to_be_focused()
    expect(form.get_by_label("Time", exact=True)).to_have_value(f"{tomorrow:%Y-%m-%d}T18:30")
    expect(form.get_by_label("Time zone")).to_have_value("Asia/Tokyo")
    expect(page.get_by_test_id("scheduled")).to_contain_text("18:30:00 (Asia/Tokyo)")
    fill_form(form, f"{tomorrow:%Y-%m-%d}T18:00", "Africa/Lagos")
    form.get_by_label("Time", exact=True).press("Enter")
    expect(form).to_have_count(0)
    expect(page.get_by_test_id("scheduled")).to_contain_text("02:00:00 (Asia/Tokyo)")
    expect(page.get_by_role("button", name="Change the time")).to_be_focused()
    assert moves(opened.console) == [f"{tomorrow:%Y-%m-%d}T17:00:00Z"]


def test_a_time_that_cannot_be_used_is_refused_at_its_field(opened: Opened) -> None:
    page, form = opened.console.page, open_form(opened.console)
    field, save = form.get_by_label("Time", exact=True), form.get_by_role("button", name="Save the new time")
    year = datetime.now(UTC).year + 1
    refusals = {
        ("", "Europe/Madrid"): "This is needed.",
        ("2020-01-01T09:00", "Europe/Madrid"): "This time has passed.",
        (last_sunday_of_march(year), "Europe/Madrid"): "Clocks in this zone skip this time.",
    }
    for (at, zone), problem in refusals.items():
        fill_form(form, at, zone)
        save.click()
        expect(form.get_by_text(problem)).to_be_visible()
        expect(field).to_be_focused()
    assert moves(opened.console) == []
    fill_form(form, "2099-01-01T09:00")
    save.click()
    expect(form.get_by_text("must lie ahead, and not more than")).to_be_visible()
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    expect(page.get_by_role("alert")).to_have_count(0)
    # The text is in the language that is chosen.
    console_pictures.in_german(page)
    expect(form.get_by_text("muss in der Zukunft liegen")).to_be_visible()


def last_sunday_of_march(year: int) -> str:
    """Return a time that the clocks of Central Europe skip."""
    last = datetime(year, 3, 31, tzinfo=UTC)
    return f"{last - timedelta(days=(last.weekday() + 1) % 7):%Y-%m-%d}T02:30"


@pytest.mark.parametrize("arrived", [True, False])
def test_a_move_with_a_lost_answer_is_shown_or_repeated(opened: Opened, arrived: bool) -> None:
    """If the API has the new time, the page shows it and closes the form; otherwise the form is still open."""
    page, form = opened.console.page, open_form(opened.console)

    def lose(route: Route) -> None:
        if arrived:
            route.fetch()
        route.abort()

    page.route(f"**/v1/sends/{SCHEDULED}", lose)
    tomorrow = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}"
    fill_form(form, f"{tomorrow}T18:00")
    form.get_by_role("button", name="Save the new time").click()
    if not arrived:
        expect(form.get_by_text("the send may have the new time")).to_be_visible()
        expect(form.get_by_role("alert")).to_contain_text("The API does not answer.")
        expect(page.get_by_test_id("scheduled")).to_contain_text("18:30:00")
        page.unroute(f"**/v1/sends/{SCHEDULED}")
        form.get_by_role("button", name="Save the new time").click()
    expect(form).to_have_count(0)
    expect(page.get_by_test_id("scheduled")).to_contain_text("03:00:00")
    assert set(moves(opened.console)) == {f"{tomorrow}T18:00:00Z"}


def test_a_send_that_begins_meanwhile_is_not_moved(opened: Opened) -> None:
    """The API refuses a move some seconds before the send's time. Once it has passed, the form has no button."""
    page, form = opened.console.page, open_form(opened.console)
    soon = (datetime.now(UTC) + timedelta(seconds=6)).isoformat()
    assert opened.console.call("PATCH", f"/v1/sends/{SCHEDULED}", {"send_at": soon}) == 200
    expect(page.get_by_test_id("scheduled")).not_to_contain_text("18:30:00")
    fill_form(form, f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%d}T18:00")
    form.get_by_role("button", name="Save the new time").click()
    expect(form.get_by_role("alert")).to_contain_text("The send is released: its send_at was")
    expect(form.get_by_role("alert")).to_contain_text("no longer waits for its time", timeout=30_000)
    expect(form.get_by_role("button", name="Save the new time")).to_have_count(0)
    form.get_by_role("button", name="Close").click()
    expect(page.get_by_role("button", name="Change the time")).to_have_count(0)
    expect(page.get_by_test_id("scheduled")).to_have_count(0)


def test_a_send_that_is_cancelled_meanwhile_is_not_moved(opened: Opened) -> None:
    form = open_form(opened.console)
    assert opened.console.call("POST", f"/v1/sends/{SCHEDULED}/cancel", {}) == 202
    expect(form.get_by_role("alert")).to_contain_text("no longer waits for its time", timeout=30_000)


def test_a_send_that_waits_for_no_time_is_not_moved(opened: Opened) -> None:
    page = opened.console.page
    open_page(page, f"{opened.console.url}/#/sends/{LIVE}")
    expect(page.get_by_role("button", name="Cancel this send")).to_be_visible()
    expect(page.get_by_role("button", name="Change the time")).to_have_count(0)


def test_a_viewer_moves_no_scheduled_send(url: str) -> None:
    with open_console(url, "viewer") as console:
        open_page(console.page, f"{console.url}/#/sends/{SCHEDULED}")
        expect(console.page.get_by_test_id("scheduled")).to_be_visible()
        expect(console.page.get_by_role("button", name="Change the time")).to_have_count(0)


# --- another pace -----------------------------------------------------------------------------------------------------


def test_the_pace_of_a_send_is_changed(opened: Opened) -> None:
    page = opened.console.page
    open_page(page, f"{opened.console.url}/#/sends/{LIVE}")
    expect(page.get_by_test_id("pace")).to_contain_text("At most 50,000 recipients a minute")
    page.get_by_role("button", name="Change the pace").click()
    form = page.get_by_role("dialog")
    number, save = form.get_by_label("At most a minute"), form.get_by_role("button", name="Save the new pace")
    expect(number).to_have_value("50000")
    number.fill("0")
    save.click()
    expect(number).to_have_attribute("aria-invalid", "true")
    number.fill("700")
    save.click()
    expect(form).to_have_count(0)
    expect(page.get_by_test_id("pace")).to_contain_text("At most 700 recipients a minute")


def test_sends_are_found_by_a_part_of_their_name(opened: Opened) -> None:
    page = opened.console.page
    open_page(page, f"{opened.console.url}/#/sends")
    expect(page.locator("td .id")).to_have_count(8)
    page.get_by_label("Search").fill("SEASON")
    page.keyboard.press("Enter")
    expect(page.locator("td .id")).to_have_count(1)
    expect(page.get_by_role("row").filter(has_text="New season tickets")).to_be_visible()
    open_page(page, f"{opened.console.url}/#/sends?search=derby")
    expect(page.get_by_role("row").filter(has_text="Derby").get_by_role("cell").last).to_have_text("7")


def test_reason_leads_to_its_recipients(opened: Opened) -> None:
    page = opened.console.page
    open_page(page, f"{opened.console.url}/#/sends/{LIVE}")
    rows = page.get_by_role("region", name="Recipients").locator("tbody tr")
    expect(rows).to_have_count(20)
    page.get_by_role("link", name="show the recipients. The user has no device").press("Enter")
    expect(rows).to_have_count(4)
    expect(page.get_by_role("heading", name="Recipients")).to_be_focused()
    page.get_by_role("button", name="Every reason").click()
    expect(rows).to_have_count(8)


def test_message_of_a_send_follows_language_and_user(opened: Opened) -> None:
    page = opened.console.page
    open_page(page, f"{opened.console.url}/#/sends/{LIVE}")
    message = page.get_by_role("region", name="Message")
    push = message.get_by_test_id("preview-push")
    expect(push).to_contain_text("Anpfiff um 19:30")
    message.get_by_role("tab", name="en and others").click()
    expect(push).to_contain_text("Kick-off at 19:30")
    expect(push).to_contain_text("With the template matchday (en) as it is now")
    message.get_by_label("Preview for the user").fill("43")
    expect(message.get_by_test_id("preview-email")).to_contain_text("Hi Ada, we play FC Riverside at 19:30.")


def test_own_words_of_a_send_are_shown(opened: Opened) -> None:
    page = opened.console.page
    open_page(page, f"{opened.console.url}/#/sends/{ENDED}")
    push = page.get_by_role("region", name="Message").get_by_test_id("preview-push")
    expect(push).to_contain_text("They are on sale from today.")
    expect(push).not_to_contain_text("With the template")


def test_message_that_is_not_kept_has_its_reason(opened: Opened) -> None:
    page = opened.console.page
    open_page(page, f"{opened.console.url}/#/sends/{SCHEDULED}")
    expect(page.get_by_test_id("not-kept")).to_have_text(
        "The message is not kept, because its data has more than 100,000 bytes."
    )


def test_hidden_values_of_a_message_have_their_names(opened: Opened) -> None:
    """No role of the console lacks the scope users:read; a token of another issuer may."""
    page = opened.console.page

    def hide(route: Route) -> None:
        response = route.fetch()
        body = response.json()
        route.fulfill(
            response=response, json=body | {"content": body["content"] | {"data": {}}, "hidden": ["opponent"]}
        )

    page.route("**/v1/sends/*/message", hide)
    open_page(page, f"{opened.console.url}/#/sends/{LIVE}")
    message = page.get_by_role("region", name="Message")
    expect(message).to_contain_text("sees the values of: opponent")
    expect(message.get_by_test_id("preview-push")).to_contain_text("[opponent]")
