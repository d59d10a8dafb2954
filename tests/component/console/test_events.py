"""The console's page of events in a real Chromium, over the functions in memory behind the local gateway."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.harness.console import Console, open_console, open_page
from tests.support.harness.events_api import source_id
from tests.support.harness.operations_api import endpoint_id

pytestmark = pytest.mark.nightly
SECTIONS = ("types", "endpoints", "subscriptions", "sources")
QUEUE = "arn:aws:sqs:eu-central-1:123456789012:masscomm-events"


@pytest.fixture
def console(url_of_one_send: str) -> Iterator[Console]:
    with open_console(url_of_one_send, "admin") as opened:
        yield opened


@pytest.fixture
def developed(url_of_one_send: str) -> Iterator[Console]:
    with open_console(url_of_one_send, "developer") as opened:
        yield opened


def section(console: Console, name: str) -> None:
    open_page(console.page, f"{console.url}/#/events/{name}")


def audited(console: Console, action: str) -> None:
    open_page(console.page, f"{console.url}/#/operations/audit")
    expect(console.page.get_by_role("row").filter(has_text=action)).to_be_visible()


def test_a_webhook_endpoint_is_created_and_shown_once(console: Console) -> None:
    page = console.page
    section(console, "endpoints")
    page.get_by_label("URL").fill("https://10.0.0.1/hook")
    page.get_by_role("button", name="Create an endpoint").click()
    expect(page.get_by_text("must name a public server")).to_be_visible()
    page.get_by_label("URL").fill("https://hooks.example.org/shop")
    page.get_by_label("Description").fill("shop")
    page.get_by_label("send.completed").check()
    page.get_by_role("button", name="Create an endpoint").click()
    secret = page.get_by_role("status").locator("code").inner_text()
    assert secret.startswith("whsec_")
    row = page.get_by_role("row").filter(has_text="shop")
    expect(row).to_contain_text("send.completed")
    expect(row).to_contain_text("Enabled")
    row.get_by_role("button", name="New secret").click()
    page.keyboard.press("Enter")  # The question has the focus.
    expect(page.get_by_role("status").locator("code")).not_to_have_text(secret)
    page.reload()
    expect(row).to_be_visible()
    assert "whsec_" not in page.content()
    row.get_by_role("button", name="Disable").click()
    expect(row).to_contain_text("Disabled")
    row.get_by_role("button", name="Enable").click()
    expect(row).to_contain_text("Enabled")
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("alert").get_by_role("button", name="Back").click()
    expect(row).to_be_visible()
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("alert").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status")).to_contain_text("is deleted")
    expect(row).to_have_count(0)


def test_credentials_of_a_webhook_are_set_and_not_shown(console: Console) -> None:
    page = console.page
    section(console, "endpoints")
    page.get_by_role("button", name="Authentication").click()
    expect(page.get_by_role("heading", name="Authentication")).to_be_focused()
    page.get_by_label("Type").select_option("OAuth 2.0 client credentials")
    page.get_by_label("Address of the token server").fill("https://10.0.0.1/token")
    page.get_by_label("Client id", exact=True).fill("shop")
    page.get_by_label("Client secret").fill("s3cr3t-value")
    page.get_by_role("button", name="Set the credentials").click()
    expect(page.get_by_text("must name a public server")).to_be_visible()
    assert console.violations() == []
    page.get_by_label("Address of the token server").fill("https://login.example.org/token")
    page.get_by_role("button", name="Set the credentials").click()
    expect(page.get_by_role("status")).to_contain_text("are set")
    row = page.get_by_role("row").filter(has_text="OAuth 2.0 client credentials")
    row.get_by_role("button", name="Authentication").click()
    expect(page.get_by_label("Client id", exact=True)).to_have_value("shop")
    expect(page.get_by_label("Client secret")).to_have_value("")
    page.get_by_label("Type").select_option("Signature only")
    page.get_by_role("button", name="Set the credentials").click()
    expect(page.get_by_role("status")).to_contain_text("has no credentials")
    expect(row).to_have_count(0)


def test_a_failed_webhook_is_sent_again(console: Console) -> None:
    page = console.page
    section(console, "endpoints")
    page.get_by_role("button", name="Send a test event").click()
    expect(page.get_by_role("heading", name="Deliveries")).to_be_focused()
    expect(page.get_by_role("status").filter(has_text="The test event is sent within a minute.")).to_be_visible()
    row = page.get_by_role("row").filter(has_text="send.completed")
    expect(row).to_contain_text("Failed")
    row.get_by_text("8 · 503").click()
    expect(row).to_contain_text("no answer within 15 s")
    assert console.violations() == []
    row.get_by_role("button", name="Send again").click()
    expect(page.get_by_role("status").filter(has_text="The event is sent again within a minute.")).to_be_visible()
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_role("button", name="Create an endpoint")).to_be_visible()
    audited(console, "webhook.resent")


def test_dead_letters_of_a_webhook_are_sent_again(console: Console) -> None:
    page = console.page
    section(console, "endpoints")
    page.get_by_role("button", name=f"Deliveries {endpoint_id(1)}").click()
    letters = page.get_by_role("region", name="Dead letters")
    row = letters.get_by_role("row").filter(has_text="match-4711-finished")
    expect(row).to_contain_text("all attempts failed")
    row.get_by_text("Data").click()
    expect(row.locator("pre")).to_contain_text('"goals"')
    assert console.violations() == []
    page.get_by_role("button", name="Delete the shown ones").click()
    page.get_by_role("alert").get_by_role("button", name="Back").click()
    row.get_by_role("button", name="Send again").click()
    expect(page.get_by_role("status").filter(has_text="1 dead letter is sent again")).to_be_visible()
    expect(row).to_have_count(0)
    audited(console, "webhook.replayed")


def test_attempts_for_events_are_counted_and_filtered(url: str) -> None:
    with open_console(url, "admin") as console:
        page = console.page
        section(console, "endpoints")
        page.get_by_role("button", name=f"Deliveries {endpoint_id(1)}").click()
        expect(page.get_by_text("Delivered 4,711 · Repeated later 12 · Given up 1")).to_be_visible()
        log = page.get_by_role("region", name="Attempts for events")
        expect(log.get_by_role("row").filter(has_text="match-1")).to_contain_text("no answer within 3 s")
        assert console.violations() == []
        page.get_by_label("Status").select_option("given_up")
        expect(log.get_by_role("row").filter(has_text="match-1")).to_have_count(0)
        expect(log.get_by_role("row").filter(has_text="match-2")).to_contain_text("410")
        page.get_by_label("Event type", exact=True).fill("match.started")
        page.get_by_label("Event type", exact=True).press("Enter")
        expect(log).to_contain_text("No attempt matches.")


def test_a_developer_sees_one_tenant_and_sends_nothing(developed: Console) -> None:
    page = developed.page
    open_page(page, f"{developed.url}/#/operations/keys")
    links = page.get_by_role("navigation", name="Main").get_by_role("link")
    expect(links.filter(has_text="Events")).to_have_count(1)
    for name in ("Compose", "User", "Operations"):
        expect(links.filter(has_text=name)).to_have_count(0)
    section(developed, "subscriptions")
    expect(page.get_by_label("Tenant", exact=True).locator("option")).to_have_text(["1"])
    page.get_by_label("Subscriptions of").select_option("Rules that notify users")
    expect(page.get_by_text("Only people who may send can create them.")).to_be_visible()
    expect(page.get_by_role("button", name="Create the rule")).to_have_count(0)


def test_event_types_have_their_schemas(developed: Console) -> None:
    section(developed, "types")
    row = developed.page.get_by_role("row").filter(has_text="match.finished")
    expect(row).to_contain_text("A match has finished")
    row.get_by_text("Schema", exact=True).click()
    expect(row.locator("pre").filter(has_text="required")).to_be_visible()


def test_a_queue_gets_a_role_and_an_external_id(developed: Console) -> None:
    page = developed.page
    section(developed, "endpoints")
    page.get_by_label("URL").fill(QUEUE)
    page.get_by_label("Role").fill("arn:aws:iam::123456789012:role/other")
    page.get_by_role("button", name="Create an endpoint").click()
    expect(page.get_by_label("Role")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Role").fill("arn:aws:iam::123456789012:role/masscomm-events")
    page.get_by_role("button", name="Create an endpoint").click()
    row = page.get_by_role("row").filter(has_text=QUEUE)
    expect(row).to_contain_text("role/masscomm-events")
    expect(row).to_contain_text("External id")


def test_an_endpoint_is_subscribed_and_matched(developed: Console) -> None:
    page = developed.page
    section(developed, "subscriptions")
    page.get_by_label("Event types", exact=True).fill("match.finished")
    page.get_by_label("Units (optional)", exact=True).fill("100")
    page.get_by_label("Condition (optional)").fill("cup")
    expect(page.get_by_text("This is not a JSON object.")).to_be_visible()
    expect(page.get_by_role("button", name="Subscribe")).to_be_disabled()
    page.get_by_label("Condition (optional)").fill('{"kind": ["cup"]}')
    page.get_by_role("button", name="Subscribe").click()
    expect(page.get_by_role("status").filter(has_text="It applies to events from now on.")).to_be_visible()
    row = page.get_by_role("row").filter(has_text='{"kind":["cup"]}')
    expect(row).to_contain_text("match.finished")
    page.get_by_label("Unit of the event (optional)").fill("100/7")
    page.get_by_label("Data (JSON)").fill('{"goals": []}')
    page.get_by_role("button", name="Show the matches").click()
    matches = page.get_by_test_id("matches")
    expect(matches).to_contain_text("https://hooks.example.org/")
    expect(matches.get_by_role("listitem")).to_have_count(1)
    page.get_by_label("Data (JSON)").fill('{"goals": [], "kind": "cup"}')
    expect(matches).to_have_count(0)
    page.get_by_role("button", name="Show the matches").click()
    expect(matches.get_by_role("listitem")).to_have_count(2)
    page.get_by_label("Data (JSON)").fill("{}")
    page.get_by_role("button", name="Show the matches").click()
    expect(page.get_by_role("alert")).to_contain_text("data")
    assert developed.violations() == []
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("alert").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status").filter(has_text="is deleted")).to_be_visible()
    expect(row).to_have_count(0)


def test_a_rule_notifies_users(console: Console) -> None:
    page = console.page
    section(console, "subscriptions")
    page.get_by_label("Subscriptions of").select_option("Rules that notify users")
    page.get_by_label("Event types", exact=True).fill("match.finished")
    page.get_by_label("Category").select_option("announcement")
    page.get_by_label("Path of the user ids").fill("fans")
    page.get_by_label("Variables").fill("goals: score.goals")
    page.get_by_role("button", name="Create the rule").click()
    row = page.get_by_role("row").filter(has_text="match.finished")
    expect(row).to_contain_text('"users_path":"fans"')
    page.get_by_label("Data (JSON)").fill('{"goals": []}')
    page.get_by_role("button", name="Show the matches").click()
    expect(page.get_by_test_id("matches")).to_contain_text("Rule: announcement")
    assert console.violations() == []


def test_a_source_is_created_changed_and_deleted(developed: Console) -> None:
    page = developed.page
    section(developed, "sources")
    expect(page.get_by_role("row").filter(has_text=source_id())).to_contain_text("Stripe")
    page.get_by_role("button", name="New source").click()
    expect(page.get_by_role("heading", name="New source")).to_be_focused()
    page.get_by_label("Description").fill("The shop")
    page.get_by_label("Signature", exact=True).select_option("GitHub")
    page.get_by_label("Secret").fill("a-secret-of-the-shop")
    page.get_by_label("Event type", exact=True).fill("Order Paid")
    page.get_by_role("button", name="Create the source").click()
    expect(page.get_by_label("Event type", exact=True)).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Event type", exact=True).fill("order.paid")
    page.get_by_role("button", name="Create the source").click()
    expect(page.get_by_role("heading", name="The shop")).to_be_visible()
    expect(page.get_by_text("https://in.masscomm.example/v1/in/src_1_")).to_be_visible()
    expect(page.get_by_label("Secret")).to_have_value("")
    assert "a-secret-of-the-shop" not in page.content()
    assert developed.violations() == []
    page.get_by_label("Data (optional)").fill("data.object")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").filter(has_text="is saved")).to_be_visible()
    page.get_by_role("button", name="Back").click()
    row = page.get_by_role("row").filter(has_text="The shop")
    row.get_by_text("Mapping", exact=True).click()
    expect(row.locator("pre")).to_contain_text('"data.object"')
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("alert").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_has_no_serious_violation(console: Console, name: str) -> None:
    section(console, name)
    expect(console.page.get_by_role("table").first).to_be_visible()
    assert console.violations() == []
