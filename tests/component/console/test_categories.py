"""The console's page of categories in a real Chromium, over the functions in memory behind the local gateway."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.harness.console import Console, open_console, open_page


@pytest.fixture
def console(url_of_one_send: str) -> Iterator[Console]:
    with open_console(url_of_one_send, "admin") as opened:
        yield opened


def add(console: Console, name: str) -> None:
    """Open the form, and save a category by push."""
    page = console.page
    open_page(page, f"{console.url}/#/categories")
    page.get_by_role("button", name="New category").click()
    page.get_by_label("Category", exact=True).fill(name)
    page.get_by_role("group", name="Channels").get_by_label("Push").check()
    page.get_by_label("Titles").fill("de: Kartenverkauf\nen: Tickets")
    page.get_by_role("button", name="Save").click()


def test_a_category_is_put_and_listed(console: Console) -> None:
    page = console.page
    add(console, "ticket_sale")
    expect(page.get_by_role("status")).to_contain_text("ticket_sale is saved: valid from 21 Nov 2026, 12:01:00")
    row = page.get_by_role("row").filter(has_text="ticket_sale")
    for text in ("Push", "Kartenverkauf", "Tickets", "since 21 Nov 2026, 12:01:00"):
        expect(row).to_contain_text(text)
    expect(page.get_by_role("row").filter(has_text="newsletter")).to_contain_text("from the installation's file")


@pytest.mark.nightly
def test_changed_category_keeps_its_other_fields(console: Console) -> None:
    page = console.page
    add(console, "ticket_sale")
    row = page.get_by_role("row").filter(has_text="ticket_sale")
    row.get_by_role("button", name="Change").click()
    expect(page.get_by_role("heading", name="Change ticket_sale")).to_be_focused()
    page.get_by_role("group", name="Only after an opt-in").get_by_label("E-mail").check()
    page.get_by_role("button", name="Add a tenant").click()
    club = page.get_by_role("group", name="A tenant that differs")
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    club.get_by_label("Tenant").fill("7")
    club.get_by_label("Own channels").check()
    club.get_by_label("E-mail").check()
    assert console.violations() == []
    page.get_by_role("button", name="Save").click()
    opt_in = "only after an opt-in: E-mail"
    for text in (f"Push; {opt_in}", f"Tenant 7: Push, E-mail; {opt_in}", "Tickets"):
        expect(row).to_contain_text(text)
    row.get_by_role("link", name="ticket_sale").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("ticket_sale")
    versions = page.get_by_role("row").filter(has_text="Push")
    expect(versions).to_have_count(2)
    expect(versions.nth(1)).not_to_contain_text("opt-in")


@pytest.mark.nightly
def test_refused_category_stays_in_the_form(console: Console) -> None:
    page = console.page
    add(console, "News")
    expect(page.get_by_role("alert")).to_contain_text("is another spelling of the category news")
    expect(page.get_by_label("Category", exact=True)).to_have_value("News")


@pytest.mark.nightly
def test_change_after_another_one_is_refused_and_kept(console: Console) -> None:
    page = console.page
    changed = {"detail": "Another request has changed it.", "code": "changed_since_read", "parameters": {}}
    open_page(page, f"{console.url}/#/categories")
    page.get_by_role("row").filter(has_text="newsletter").get_by_role("button", name="Change").click()
    page.get_by_role("group", name="Only after an opt-in").get_by_label("E-mail").check()
    page.route("**/v1/categories/newsletter", lambda route: route.fulfill(status=412, json=changed))
    with page.expect_request("**/v1/categories/newsletter") as sent:
        page.get_by_role("button", name="Save").click()
    assert re.fullmatch('"[0-9a-f]{32}"', sent.value.headers["if-match"])
    expect(page.get_by_role("alert")).to_contain_text("Close the form, open it again, and repeat your change")
    expect(page.get_by_role("group", name="Only after an opt-in").get_by_label("E-mail")).to_be_checked()


@pytest.mark.nightly
def test_retired_category_is_not_offered_for_a_send(console: Console) -> None:
    page = console.page
    choices = page.get_by_label("Category").locator("option")
    add(console, "ticket_sale")
    row = page.get_by_role("row").filter(has_text="ticket_sale")
    expect(row).to_be_visible()
    open_page(page, f"{console.url}/#/compose")
    expect(choices.filter(has_text="ticket_sale")).to_have_count(1)
    open_page(page, f"{console.url}/#/categories")
    row.get_by_role("button", name="Retire").click()
    page.get_by_role("alert").get_by_role("button", name="Retire").click()
    expect(row).to_contain_text("Retired")
    open_page(page, f"{console.url}/#/compose")
    expect(choices.filter(has_text="news").first).to_be_attached()
    expect(choices.filter(has_text="ticket_sale")).to_have_count(0)
    open_page(page, f"{console.url}/#/categories")
    row.get_by_role("button", name="Use again").click()
    expect(row).not_to_contain_text("Retired")


@pytest.mark.nightly
def test_viewer_sees_categories_without_a_form(url_of_one_send: str) -> None:
    with open_console(url_of_one_send, "viewer") as console:
        page = console.page
        open_page(page, f"{console.url}/#/categories")
        expect(page.get_by_role("link", name="news", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name="New category")).to_have_count(0)
        expect(page.get_by_role("button", name="Change")).to_have_count(0)
        assert console.violations() == []


@pytest.mark.nightly
def test_default_category_is_changed_and_not_retired(console: Console) -> None:
    page = console.page
    open_page(page, f"{console.url}/#/categories")
    row = page.get_by_role("row").filter(has_text="Any other category")
    expect(row.get_by_role("button")).to_have_count(1)
    row.get_by_role("button", name="Change").click()
    page.get_by_label("Frequency caps").fill("20/day")
    page.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("at most 20/day")


def test_rules_of_a_tenant_are_saved(console: Console) -> None:
    page = console.page
    open_page(page, f"{console.url}/#/categories")
    form = page.locator("form").filter(has_text="Rules of a tenant")
    form.get_by_label("Rules", exact=True).fill("push=off\nnews.email=no")
    expect(form.get_by_role("button", name="Set the rules")).to_be_disabled()
    expect(form).to_contain_text("contradicts an earlier one: news.email=no")
    form.get_by_label("Rules", exact=True).fill("push=off\nnews.email=on")
    form.get_by_role("button", name="Set the rules").click()
    expect(form.get_by_role("status")).to_have_text("The rules are saved.")
    page.reload()
    expect(form.get_by_label("Rules", exact=True)).to_have_value("push=off\nnews.email=on")
    assert console.violations() == []
