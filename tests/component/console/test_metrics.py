"""The console's metrics page in a real Chromium, over the functions in memory behind the local gateway."""

import csv
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from functions.metrics_handler import handler as metrics_handler
from tests.support.harness.console import Console, open_console, open_page

pytestmark = pytest.mark.nightly
# The ends that each notification has once, and what providers report of sent ones.
ONCE, REPORTED = ("sent", "suppressed", "cancelled", "expired", "failed"), ("delivered", "bounced")


@pytest.fixture
def console(url: str) -> Iterator[Console]:
    with open_console(url, "admin") as opened:
        # The span would move on when a minute ends during a test.
        opened.page.clock.set_fixed_time(datetime.now(UTC))
        open_page(opened.page, f"{url}/#/metrics")
        expect(opened.page.get_by_test_id("total")).not_to_have_text("0")
        yield opened


def total(page: Page) -> int:
    return int(page.get_by_test_id("total").inner_text().replace(",", ""))


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(urlsplit(page.url).fragment).query)


def buckets(page: Page) -> list[list[str]]:
    """Open the table beside the chart. Returns its rows of texts."""
    table = page.get_by_test_id("buckets")
    if not table.is_visible():
        page.get_by_text("The same as a table").click()
    expect(table.locator("tbody tr").first).to_be_visible()
    return [row.locator("th, td").all_inner_texts() for row in table.locator("tbody tr").all()]


def drag(page: Page, start: float, end: float) -> None:
    """Drag over the chart from one share of its width to another."""
    box = page.locator("canvas").first.bounding_box()
    assert box is not None
    height = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start * box["width"], height)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], height, steps=4)
    page.mouse.up()


def test_the_csv_has_all_counts_of_the_chart(console: Console, tmp_path: Path) -> None:
    page = console.page
    with page.expect_download() as downloaded:
        page.get_by_role("button", name="Download CSV").click()
    file = tmp_path / "metrics.csv"
    downloaded.value.save_as(file)
    with file.open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert {row["measure"] for row in rows} <= {*ONCE, *REPORTED}
    assert sum(int(row["count_total"]) for row in rows if row["measure"] in ONCE) == total(page) > 0


def test_a_drag_over_the_chart_is_one_zoom_in_the_address(console: Console) -> None:
    """Another person sees the same part under this address, at any time."""
    page = console.page
    whole = total(page)
    changes = page.evaluate("history.length")
    drag(page, 0.4, 0.6)
    page.wait_for_url("**from=**")
    part, period = total(page), page.get_by_test_id("period").inner_text()
    assert 0 < part < whole
    assert query(page).keys() >= {"start", "end", "from", "until"}
    assert page.evaluate("history.length") == changes
    shared = page.url
    page.goto("about:blank")
    page.goto(shared)
    expect(page.get_by_test_id("period")).to_have_text(period)
    expect(page.get_by_test_id("total")).to_have_text(f"{part:,}")


def test_the_wheel_over_the_chart_scrolls_the_page(console: Console) -> None:
    page = console.page
    page.locator("canvas").first.hover()
    page.mouse.wheel(0, 300)
    page.wait_for_function("window.scrollY > 0")
    assert "from" not in query(page)


def test_the_keyboard_zooms_and_reads_the_buckets(console: Console) -> None:
    page = console.page
    whole = total(page)
    page.get_by_role("img", name="Notifications by time and status").focus()
    page.keyboard.press("+")
    page.wait_for_url("**from=**")
    assert 0 < total(page) < whole
    page.get_by_text("The same as a table").focus()
    page.keyboard.press("Enter")
    rows = buckets(page)
    assert sum(int(count.replace(",", "")) for row in rows for count in row[1 : len(ONCE) + 1]) == total(page)
    assert len(rows) == 30
    part = query(page)["from"]
    page.get_by_role("img", name="Notifications by time and status").press("ArrowRight")
    expect(page.get_by_test_id("total")).to_be_visible()
    page.wait_for_function("part => !location.href.includes(encodeURIComponent(part))", arg=part[0])
    page.get_by_role("button", name="Whole span").press("Enter")
    expect(page.get_by_test_id("total")).to_have_text(f"{whole:,}")
    assert "from" not in query(page)
    assert console.violations() == []


def test_the_span_before_is_compared(console: Console) -> None:
    page = console.page
    compared = page.get_by_role("listitem").filter(has_text="Span before")
    expect(compared).to_have_count(0)
    with page.expect_response(lambda response: "/v1/metrics?" in response.url) as answered:
        page.get_by_label("Compare with the span before").check()
    assert answered.value.ok
    expect(compared).to_be_visible()
    before = int(compared.locator("strong").inner_text().replace(",", ""))
    store: Any = metrics_handler.bootstrap().metrics_route.store
    ended = sum(row.count_total for row in store.stored if row.measure in ONCE)
    # The two hours that are stored begin a minute apart from the two spans of an hour.
    assert 0 < before < ended - total(page) + 1
    assert query(page)["compare"] == ["1"]


def test_incomplete_and_revised_buckets_are_marked(console: Console) -> None:
    """The store's watermark is more than a minute old, and one minute is revised."""
    page = console.page
    expect(page.get_by_text("Revised by late records: 1 bucket")).to_be_visible()
    rows = buckets(page)
    assert len([row for row in rows if "revised" in row[0]]) == 1
    pending = ["Not complete yet" in row[0] for row in rows]
    assert pending == sorted(pending, reverse=True), "the latest ones"
    assert 0 < sum(pending) < len(pending)
    store: Any = metrics_handler.bootstrap().metrics_route.store
    # The figures stay the same, so the browser repeats its body of before, with another watermark in its headers.
    store.watermark -= timedelta(hours=2)
    page.reload()
    expect(page.get_by_test_id("total")).not_to_have_text("0")
    assert all("Not complete yet" in row[0] for row in buckets(page))


def test_each_category_has_its_rate_and_share_of_failures(console: Console) -> None:
    """The numbers are those of the part that the chart shows; a name shows its counts alone."""
    page = console.page
    table = page.get_by_role("table").filter(has=page.get_by_role("columnheader", name="Rate")).first
    row = table.get_by_role("row").filter(has=page.get_by_role("button", name="newsletter"))
    name, ended, rate, *shares = row.get_by_role("cell").all_inner_texts()
    assert name == "newsletter"
    assert 0 < int(ended.replace(",", "")) < total(page)
    assert float(rate.removesuffix(" / s")) == pytest.approx(int(ended.replace(",", "")) / 3_600, abs=0.1)
    assert all(share.endswith("%") for share in shares)
    row.get_by_role("button", name="newsletter").click()
    expect(page.get_by_test_id("total")).to_have_text(ended)
    page.get_by_role("img", name="Notifications by time and status").press("+")
    page.wait_for_url("**from=**")
    expect(row.get_by_role("cell").nth(1)).to_have_text(f"{total(page):,}")
    assert total(page) < int(ended.replace(",", ""))


def test_the_trending_categories_are_listed(console: Console) -> None:
    rows = console.page.get_by_role("region").get_by_role("cell", name="match_reminder")
    expect(rows).to_be_visible()
    names = console.page.locator("table").last.locator("tbody tr td:first-child").all_inner_texts()
    assert names == ["match_reminder", "news", "newsletter"]


def test_reasons_are_shown_with_their_shares(console: Console) -> None:
    rows = console.page.get_by_test_id("reasons").locator("tbody tr")
    expect(rows).to_have_count(4)
    first = rows.first.get_by_role("cell").all_inner_texts()
    # One hour or two: the span of an hour begins within one.
    assert int(first[2].replace(",", "")) in (900, 1_800)
    assert first[3] == f"{900 / 1_094:.1%}"


def test_latencies_are_shown_of_all_tenants_alone(console: Console) -> None:
    page = console.page
    latency = page.get_by_test_id("latency")
    sent = latency.get_by_role("row", name="Push").filter(has_text="Sent").first
    # 900 of 1,000 notifications took 380 ms, 90 twice and 10 nine times as long; a bin is within 5 %.
    expect(sent).to_be_visible()
    found = [float(text.removesuffix("ms")) for text in sent.get_by_role("cell").all_inner_texts()[3:]]
    assert found == pytest.approx([380, 760, 760], rel=0.05)
    latency.get_by_text("By time").click()
    expect(latency.get_by_role("table").last.get_by_role("row").nth(1)).to_contain_text("Push")
    page.get_by_label("Tenant (empty: all)").fill("1")
    expect(latency).to_have_count(0)


def test_a_refused_filter_shows_no_counts_of_another(console: Console) -> None:
    page = console.page
    page.route(
        "**/v1/metrics?*club_id=2*",
        lambda route: route.fulfill(status=403, content_type="application/json", body=json.dumps({"detail": "no"})),
    )
    page.get_by_label("Tenant (empty: all)").fill("2")
    expect(page.get_by_role("alert")).to_contain_text("do not permit")
    expect(page.get_by_test_id("total")).to_have_text("0")
    page.get_by_label("Tenant (empty: all)").fill("1")
    expect(page.get_by_test_id("total")).not_to_have_text("0")


def test_a_link_to_the_page_shows_it_as_at_first(console: Console) -> None:
    page = console.page
    page.get_by_label("Category", exact=True).select_option("newsletter")
    page.wait_for_url("**type=newsletter**")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Metrics").click()
    expect(page.get_by_label("Category", exact=True)).to_have_value("")
    assert "type" not in query(page)


def test_a_span_offers_the_grains_that_fit_a_response(console: Console) -> None:
    page = console.page
    page.get_by_label("Span", exact=True).select_option("lastMonth")
    assert page.get_by_label("Per", exact=True).locator("option").all_inner_texts() == ["Hour", "Day"]
    page.get_by_label("Per", exact=True).select_option("hour")
    expect(page.get_by_test_id("total")).to_be_visible()
