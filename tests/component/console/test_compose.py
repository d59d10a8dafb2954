"""The page Compose in a real Chromium, over the functions in memory behind the local gateway."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Request, Route, expect

from tests.support.harness.console import Console, is_send, open_console, open_page
from tests.support.until import until

pytestmark = pytest.mark.nightly


@pytest.fixture
def console(url: str) -> Iterator[Console]:
    with open_console(url, "admin") as opened:
        open_page(opened.page, f"{url}/#/compose")
        yield opened


def test_numbers_and_preview_follow_the_entries(console: Console) -> None:
    page = console.page
    page.get_by_label("Category").select_option("news")
    page.get_by_label("User ids").fill("40-59 999")
    push = page.get_by_test_id("forecast").get_by_role("table").filter(has_text="21 notifications")
    expect(push.get_by_role("row").filter(has_text="The user is not known")).to_contain_text("1")
    page.get_by_label("User ids").fill("40-59")
    expect(page.get_by_test_id("forecast")).to_contain_text("20 notifications")
    page.get_by_label("Title").fill("Goal")
    expect(page.get_by_test_id("preview-push")).to_contain_text("Goal")
    assert console.sends() == []


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
    reached = page.locator("tr[data-group=arrives] td").last.inner_text()
    page.get_by_role("button", name=f"Send to {reached} people").dblclick()
    console.accepted()
    assert len({each.headers["idempotency-key"] for each in console.sends()}) == 1


def test_options_of_a_push_are_previewed_by_platform(console: Console) -> None:
    page = console.page
    page.get_by_label("Category").select_option("announcement")
    page.get_by_label("Title").fill("Goal")
    page.get_by_label("Text").fill("1:0")
    page.get_by_label("User ids").fill("42")
    page.get_by_text("Push: picture, sound, buttons, data").click()
    page.get_by_label("Number at the icon").fill("3")
    expect(page.get_by_text("id: text | address")).to_be_visible()
    page.get_by_label("Buttons").fill("watch: Watch | riverside://matches/7")
    page.get_by_label("Data for the app").fill("match: 7")
    ios, android = page.get_by_test_id("preview-ios"), page.get_by_test_id("preview-android")
    expect(ios).to_contain_text("Watch")
    expect(android).to_contain_text("only if the app does")
    page.get_by_label("Silent").check()
    expect(ios).to_contain_text("Shows nothing")
    page.get_by_label("Silent").uncheck()
    page.get_by_label("Data for the app").fill("from: 7")
    error = page.get_by_role("status").filter(has_text="push.data.from")
    expect(error).to_contain_text("a name that Apple, Firebase or masscomm uses")
    page.get_by_label("Data for the app").fill("match: 7")
    expect(error).not_to_be_visible()
    page.get_by_role("button", name="Review").click()
    page.get_by_role("button", name="Send to 1 person").click()
    console.accepted()
    (sent,) = console.sends()
    actions = [{"id": "watch", "title": "Watch", "url": "riverside://matches/7"}]
    assert json.loads(sent.post_data or "")["push"] == {"badge": 3, "actions": actions, "data": {"match": "7"}}


def test_an_audience_is_entered_with_the_keyboard_alone(console: Console) -> None:
    page = console.page
    page.get_by_label("Category").select_option("news")
    page.get_by_label("Title").fill("Goal")
    page.get_by_label("Text").fill("1:0")
    page.get_by_label("A list or a file of users").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_label("An audience of the tenant")).to_be_checked()
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
        page.get_by_role("button", name="Send to").click()
    body = json.loads(sent.value.post_data or "")
    assert body["audience"] == {
        "where": {"all": [{"field": "locale", "is": "de"}, {"field": "time_zone", "is": "Europe/Berlin"}]}
    }
    assert "to_users" not in body


def test_conditions_are_saved_and_chosen_for_a_later_send(console: Console) -> None:
    page = console.page
    page.get_by_label("Title").fill("Goal")
    page.get_by_label("Text").fill("1:0")
    page.get_by_label("An audience of the tenant").check()
    page.get_by_label("Value", exact=True).fill("de")
    page.get_by_label("Save these conditions as").fill("fans.de")
    page.get_by_role("button", name="Save the audience").click()
    expect(page.get_by_text("fans.de is saved.")).to_be_visible()
    page.get_by_label("A saved one").check()
    page.get_by_label("Saved audience").select_option("fans.de")
    page.get_by_label("Later").check()
    # The time is too far ahead for the clock of the functions, and the button has no number without a dry run.
    page.route("**/v1/dry-runs", lambda route: route.fulfill(status=503, json={"detail": "away"}))
    page.get_by_label("Time", exact=True).fill("2030-01-01T09:00")
    page.get_by_label("At that time, with those who join until then").check()
    assert console.violations() == []
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_text("At that time, with those who join until then")).to_be_visible()
    with page.expect_request(is_send) as sent:
        page.get_by_role("button", name="Send", exact=True).click()
    body = json.loads(sent.value.post_data or "")
    assert (body["audience"], body["audience_at"]) == ({"saved": "fans.de"}, "due")


def test_a_send_is_composed_with_the_keyboard_alone(console: Console) -> None:
    page, keyboard = console.page, console.page.keyboard
    for field, text in (("Category", "news"), ("Title", "Goal"), ("Text", "1:0"), ("User ids", "40-59")):
        console.tab_to(page.get_by_label(field, exact=True))
        keyboard.type(text)
    console.tab_to(page.get_by_role("button", name="Review"))
    keyboard.press("Enter")
    send = page.get_by_role("button", name="Send to")
    expect(send).to_be_enabled()
    console.tab_to(send)
    keyboard.press("Enter")
    console.accepted()
    (sent,) = console.sends()
    body = json.loads(sent.post_data or "")
    assert (body["type"], len(body["to_users"])) == ("news", 20)


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
    # The time is too far ahead for the clock of the functions, and the button has no number without a dry run.
    page.route("**/v1/dry-runs", lambda route: route.fulfill(status=503, json={"detail": "away"}))
    page.get_by_label("In each recipient's time zone").check()
    page.get_by_label("Time", exact=True).fill("2030-01-01T09:00")
    console.page.get_by_label("Title").fill("Goal")
    page.get_by_label("Text").fill("1:0")
    page.get_by_label("User ids").fill("42")
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_text("in each recipient's own time zone")).to_be_visible()
    with page.expect_request(is_send) as sent:
        page.get_by_role("button", name="Send", exact=True).click()
    assert json.loads(sent.value.post_data or "")["send_at_local"] == "2030-01-01T09:00"


def lose_answers(console: Console) -> None:
    """The API accepts requests from now on, and the browser gets no answer."""

    def lose(route: Route) -> None:
        if is_send(route.request):
            route.fetch()
            route.abort()
        else:
            route.continue_()

    console.page.route("**/v1/sends", lose)


@pytest.mark.parametrize("detour", ["none", "back", "reload"])
def test_a_send_after_a_lost_answer_has_the_same_key(console: Console, detour: str) -> None:
    """The second request is answered with the send of the first."""
    page = console.page
    console.compose("40-59", title="Goal", body="1:0")
    lose_answers(console)
    page.get_by_role("button", name="Send to").click()
    expect(page.get_by_test_id("unanswered")).to_contain_text("notifies no user twice")
    page.unroute("**/v1/sends")
    if detour == "back":
        page.get_by_role("button", name="Back").click()
    if detour == "reload":
        page.reload()
        expect(page.get_by_label("Title")).to_have_value("Goal")
    if detour != "none":
        page.get_by_role("button", name="Review").click()
        expect(page.get_by_test_id("unanswered")).to_contain_text("notifies no user twice")
    with page.expect_response(lambda response: is_send(response.request)) as answered:
        page.get_by_role("button", name="Send to").click()
    console.accepted()
    assert answered.value.headers["idempotency-replayed"] == "true"
    assert len({each.headers["idempotency-key"] for each in console.sends()}) == 1


def test_changed_content_after_a_lost_answer_is_announced(console: Console) -> None:
    page = console.page
    console.compose("40-59", title="Goal", body="1:0")
    lose_answers(console)
    page.get_by_role("button", name="Send to").click()
    expect(page.get_by_test_id("unanswered")).to_be_visible()
    page.unroute("**/v1/sends")
    page.get_by_role("button", name="Back").click()
    page.get_by_label("Title").fill("Another goal")
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_test_id("unanswered")).to_contain_text("second send")
    page.get_by_role("button", name="Send to").click()
    console.accepted()
    assert len({each.headers["idempotency-key"] for each in console.sends()}) == 2


def hold_sends(console: Console) -> list[Route]:
    """Return the list to which each request for a send is added instead of being sent."""
    held: list[Route] = []
    console.page.route("**/v1/sends", lambda route: held.append(route) if is_send(route.request) else route.continue_())
    return held


def test_a_page_that_is_left_while_sending_is_not_returned_to(console: Console) -> None:
    page = console.page
    console.compose("40-59", title="Goal", body="1:0")
    held = hold_sends(console)
    page.get_by_role("button", name="Send to").click()
    expect(page.get_by_role("button", name="Sending")).to_be_visible()
    page.get_by_role("navigation").get_by_role("link", name="Sends").click()
    expect(page.get_by_role("heading", level=1, name="Sends")).to_be_visible()
    with page.expect_response(lambda response: is_send(response.request)) as answered:
        held[0].continue_()
    assert answered.value.status == 202
    # The draft was sent, so it is not offered again.
    kept = "Object.keys(sessionStorage).filter(name => /draft|send-key/.test(name)).length"
    until("the draft and its key are forgotten", lambda: page.evaluate(kept) == 0)
    expect(page.get_by_role("heading", level=1, name="Sends")).to_be_visible()
    page.get_by_role("navigation").get_by_role("link", name="Compose").click()
    expect(page.get_by_label("Title")).to_have_value("")
    assert len(console.sends()) == 1


def test_a_return_while_sending_shows_the_request_under_way(console: Console) -> None:
    page = console.page
    console.compose("40-59", title="Goal", body="1:0")
    held = hold_sends(console)
    page.get_by_role("button", name="Send to").click()
    page.get_by_role("navigation").get_by_role("link", name="Sends").click()
    page.get_by_role("navigation").get_by_role("link", name="Compose").click()
    expect(page.get_by_role("button", name="Sending")).to_be_disabled()
    held[0].continue_()
    console.accepted()
    assert len(console.sends()) == 1


def test_back_ends_the_wait_for_an_answer(console: Console) -> None:
    page = console.page
    console.compose("40-59", title="Goal", body="1:0")
    hold_sends(console)
    page.get_by_role("button", name="Send to").click()
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_role("heading", level=1, name="Compose")).to_be_focused()
    expect(page.get_by_test_id("unanswered")).to_contain_text("may have been accepted")
    page.unroute("**/v1/sends")
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_role("heading", level=1, name="Check before sending")).to_be_focused()
    page.get_by_role("button", name="Send to").click()
    console.accepted()
    assert len({each.headers["idempotency-key"] for each in console.sends()}) == 1


def test_an_empty_form_shows_no_error(console: Console) -> None:
    page = console.page
    preview = page.get_by_test_id("preview-push")
    expect(preview).to_contain_text("Appears once")
    expect(page.locator(".danger-text")).to_have_count(0)
    page.get_by_label("Title").fill("Goal")
    expect(preview).to_contain_text("the message has no text")


def test_an_error_of_the_api_is_at_its_field(console: Console) -> None:
    """A field under *More* is shown if it has an error, and gets the focus."""
    page = console.page
    more = page.get_by_text("More: language, expiry, priority")
    locale = page.get_by_label("Locale")
    expect(locale).to_be_hidden()
    more.click()
    locale.fill("no locale!")
    more.click()
    with page.expect_response("**/v1/dry-runs"):
        page.get_by_label("User ids").fill("40-59")
    page.get_by_label("Title").fill("Goal")
    page.get_by_label("Text").fill("1:0")
    page.get_by_role("button", name="Review").click()
    expect(locale).to_be_focused()
    expect(locale).to_have_attribute("aria-invalid", "true")
    expect(page.locator("section").get_by_role("alert")).to_have_count(0)
    locale.fill("de")
    expect(page.get_by_test_id("forecast")).to_be_visible()
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_role("button", name="Send to")).to_be_visible()


def test_typing_asks_for_no_numbers(console: Console) -> None:
    page = console.page
    page.get_by_label("Category").select_option("news")
    page.get_by_label("User ids").fill("40-59")
    expect(page.get_by_test_id("forecast")).to_contain_text("20 notifications")
    expect(page.locator(".forecast")).to_have_attribute("aria-busy", "false")
    asked = len(numbers(console))
    page.get_by_label("Title").press_sequentially("Goal")
    page.get_by_label("Text").press_sequentially("1:0")
    expect(page.get_by_test_id("preview-push")).to_contain_text("1:0")
    page.get_by_label("User ids").fill("40-49")
    expect(page.get_by_test_id("forecast")).to_contain_text("10 notifications")
    assert len(numbers(console)) == asked + 1


def numbers(console: Console) -> list[Request]:
    return [each for each in console.requests if each.url.endswith("/v1/dry-runs")]


def test_earlier_numbers_are_marked_until_the_next_ones(console: Console) -> None:
    page = console.page
    page.get_by_label("User ids").fill("40-59")
    expect(page.get_by_test_id("forecast")).to_contain_text("20 notifications")
    held: list[Route] = []
    page.route("**/v1/dry-runs", lambda route: held.append(route))
    with page.expect_request("**/v1/dry-runs"):
        page.get_by_label("User ids").fill("40-49")
    expect(page.locator(".forecast")).to_have_attribute("aria-busy", "true")
    expect(page.get_by_text("Counting the recipients")).to_be_visible()
    held[0].continue_()
    expect(page.get_by_test_id("forecast")).to_contain_text("10 notifications")
    expect(page.locator(".forecast")).to_have_attribute("aria-busy", "false")


def test_numbers_of_a_long_list_are_estimates_at_first(console: Console) -> None:
    page = console.page
    page.get_by_label("User ids").fill("1-10001")
    expect(page.get_by_test_id("forecast")).to_contain_text("10,001 notifications")
    expect(page.get_by_test_id("forecast")).to_contain_text("Estimated from a sample")


def test_the_column_of_a_file_is_chosen(console: Console) -> None:
    """The file has a header, and a second column of numbers."""
    page = console.page
    table = b'row,name,user_id\n1,"Lovelace, Ada",42\n2,Grace,43\n3,Eva,43\n'
    page.get_by_label("Read from a file").set_input_files(
        {"name": "members.csv", "mimeType": "text/csv", "buffer": table}
    )
    expect(page.get_by_label("Column with the user ids")).to_be_focused()
    chosen = page.get_by_label("Column with the user ids").locator("option:checked")
    expect(chosen).to_contain_text("user_id")
    assert console.violations() == []
    page.get_by_role("button", name="Add the users of this column").click()
    assert page.get_by_label("User ids").input_value() == "42\n43\n43"
    expect(page.get_by_test_id("recipients")).to_contain_text("2 recipients")
    page.get_by_label("Read from a file").set_input_files(
        {"name": "members.csv", "mimeType": "text/csv", "buffer": table}
    )
    page.get_by_label("Column with the user ids").select_option("0")
    page.get_by_role("button", name="Add the users of this column").click()
    assert page.get_by_label("User ids").input_value() == "42\n43\n43\n1\n2\n3"


def test_a_table_of_numbers_asks_for_its_column(console: Console) -> None:
    page = console.page
    file = page.get_by_label("Read from a file")
    file.set_input_files({"name": "members.csv", "mimeType": "text/csv", "buffer": b"42,80331\n43,80333\n"})
    expect(page.get_by_label("Column with the user ids").locator("option:checked")).to_contain_text("Column 1")
    page.get_by_role("button", name="Add the users of this column").click()
    assert page.get_by_label("User ids").input_value() == "42\n43"
    file.set_input_files({"name": "list.csv", "mimeType": "text/csv", "buffer": b"44,45\n46,47\n"})
    page.get_by_label("Column with the user ids").select_option("Every column: each cell is a user id")
    page.get_by_role("button", name="Add the users of this column").click()
    expect(page.get_by_test_id("recipients")).to_contain_text("6 recipients")


def test_ids_of_64_bits_are_sent_exactly(console: Console) -> None:
    page = console.page
    console.compose("9007199254740993 9223372036854775807", title="Goal", body="1:0")
    page.get_by_label("Your own user id").fill("9007199254740993")
    for button in ("Send a test", "Send to"):
        with page.expect_response(lambda response: is_send(response.request)) as answered:
            page.get_by_role("button", name=button).click()
        assert answered.value.status == 202
    test, send = [json.loads(each.post_data or "")["to_users"] for each in console.sends()]
    assert (test, send) == ([9007199254740993], [9007199254740993, 9223372036854775807])


@pytest.mark.parametrize("by", ["paste", "drop"])
def test_a_pasted_or_dropped_table_asks_for_its_column(console: Console, by: str) -> None:
    page = console.page
    page.get_by_label("User ids").evaluate(
        """(field, by) => {
            const dataTransfer = new DataTransfer();
            if (by === "paste") {
                dataTransfer.setData("text/plain", "name\\tid\\nAda\\t42\\nGrace\\t43");
                const options = {clipboardData: dataTransfer, bubbles: true, cancelable: true};
                field.dispatchEvent(new ClipboardEvent("paste", options));
            } else {
                dataTransfer.items.add(new File(["name;id\\nAda;42\\nGrace;43"], "members.csv", {type: "text/csv"}));
                field.dispatchEvent(new DragEvent("drop", {dataTransfer, bubbles: true, cancelable: true}));
            }
        }""",
        by,
    )
    page.get_by_role("button", name="Add the users of this column").click()
    assert page.get_by_label("User ids").input_value() == "42\n43"


def test_a_template_is_chosen_with_its_data_and_languages(console: Console) -> None:
    """The category has a template of one language only; the words of a send are for all others."""
    page = console.page
    page.get_by_label("Category").select_option("match_reminder")
    page.get_by_label("Title").fill("Goal")
    page.get_by_label("Text").fill("1:0")
    expect(page.get_by_role("tab")).to_have_text(["de", "en and others"])
    expect(page.get_by_text("a template of de: it is used in the place of your own words")).to_be_visible()
    page.get_by_role("tab", name="de", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="en and others")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_test_id("preview-push")).to_contain_text("1:0")
    expect(page.get_by_text("in the place of your own words")).to_have_count(0)
    page.get_by_label("Template with data").check()
    assert [each.input_value() for each in page.get_by_label("Name", exact=True).all()] == ["kick_off", "opponent"]
    page.get_by_label("Value", exact=True).last.fill("FC Riverside")
    page.get_by_role("tab", name="de", exact=True).click()
    expect(page.get_by_test_id("preview-push")).to_contain_text("FC Riverside")
    page.get_by_label("Category").select_option("news")
    page.get_by_label("Message template").select_option("match_reminder")
    assert page.get_by_label("Value", exact=True).last.input_value() == "FC Riverside"
    assert console.violations() == []


HOSTILE = """
<html><head><style>h1 { color: rgb(1, 2, 3); background: url(http://127.0.0.1:9/a.png) } @import url(http://127.0.0.1:9/b.css);</style>
<meta http-equiv="refresh" content="0; url=http://127.0.0.1:9/refresh"><base href="http://127.0.0.1:9/"></head>
<body style="background-image: url(http://127.0.0.1:9/c.png)" onload="parent.ran = 1"><h1>Goal</h1>
<p style="color: rgb(4, 5, 6); background: u\\72l(http://127.0.0.1:9/d.png)">1:0</p>
<script>parent.ran = 2</script><img src="http://127.0.0.1:9/e.png" onerror="parent.ran = 3" alt="picture">
<svg onload="parent.ran = 4"><image href="http://127.0.0.1:9/f.png" /></svg>
<a href="javascript:parent.ran = 5">javascript</a>
<a href="http://127.0.0.1:9/link" target="_top">link</a><iframe src="http://127.0.0.1:9/frame"></iframe>
<form action="http://127.0.0.1:9/form"><button formaction="javascript:parent.ran = 6">form</button></form></body></html>
"""


def test_an_email_is_shown_with_styles_and_without_effects(console: Console) -> None:
    page = console.page
    message = {"subject": "Goal", "text": "1:0", "html": HOSTILE}
    shown: dict[str, Any] = {"channel": "email", "template": None, "fields": message, "missing": [], "problem": None}
    page.route(
        "**/v1/previews", lambda route: route.fulfill(json={"complete": True, "messages": [shown], "warnings": []})
    )
    page.get_by_label("Category").select_option("newsletter")
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="Goal")).to_have_css("color", "rgb(1, 2, 3)")
    expect(frame.get_by_text("1:0")).to_have_css("color", "rgb(4, 5, 6)")
    expect(frame.get_by_role("img", name="picture")).to_have_attribute("title", "http://127.0.0.1:9/e.png")
    for name in ("javascript", "link", "form"):
        frame.get_by_text(name, exact=True).click()
    expect(frame.get_by_role("heading", name="Goal")).to_be_visible()
    assert page.evaluate("window.ran") is None
    foreign = [each for each in console.requests if each.url.startswith("http") and console.url not in each.url]
    assert [each.url for each in foreign if "csp" not in (each.failure or "")] == []
    assert len(page.context.pages) == 1
    console.errors.clear()  # They are what the browser has refused to load.


def test_a_second_test_is_sent_and_a_sign_out_forgets_the_user(console: Console) -> None:
    page = console.page
    console.compose("40-59", title="Goal", body="1:0")
    page.get_by_label("Your own user id").fill("42")
    for tests in (1, 2):
        page.get_by_role("button", name="Send a test").click()
        expect(page.get_by_test_id("tested")).to_be_visible()
        assert len({each.headers["idempotency-key"] for each in console.sends()}) == tests
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("main").get_by_role("button", name="Sign in")).to_be_visible()
    assert page.evaluate("Object.keys(sessionStorage)") == []


def test_braces_in_own_words_are_sent_as_they_are(console: Console) -> None:
    page = console.page
    notice = page.get_by_text("braces are not filled in")
    page.get_by_label("Title").fill("Goal")
    page.get_by_label("Text").fill("Well done!")
    expect(notice).to_have_count(0)
    page.get_by_label("Text").fill("Well done, {{ user.first_name }}!")
    expect(notice).to_be_visible()
