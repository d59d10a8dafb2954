"""Pictures of every page of the console: light, dark, as wide as a phone, in German, and dark on a phone in German.

    python -m tests.support.harness.console_pictures OUT [PAGE…]

The pages show the functions in memory, with a morning's sends of one club. Look at each picture before a change of the
console is finished.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from functions.metrics_handler import handler as metrics_handler
from functions.operations_handler import handler as operations_handler
from functions.send_handler import previews
from functions.sends_api import handler as sends_api
from local.devstack.services.lambda_host import CONSOLE
from masscomm.clock import SystemClock
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.grains import Grain, floor
from masscomm.domain.kept_messages import KeptMessage, NotKept
from masscomm.domain.latencies import bin_of
from masscomm.domain.sends import Send, SendKey, Source
from masscomm.domain.users import Device, Template, User, UserSettings
from masscomm.operations.send_lists import SendLists
from masscomm.operations.waiting import Waiting
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore, StoredCount, StoredLatency, StoredWebhookCount
from masscomm.stores.metrics.port import (
    ChannelTotals,
    LogKey,
    LogRow,
    SendTotals,
    WebhookCount,
    WebhookCountKey,
    WebhookLogKey,
    WebhookLogRow,
)
from masscomm.stores.request_slots.in_memory import InMemoryRequestSlots
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.harness import rest_api
from tests.support.harness.console import FORGET, PATIENCE_MS, Console, open_console, open_page
from tests.support.harness.events_api import source_id
from tests.support.harness.operations_api import endpoint_id

LIVE = "8c1f0a52-55e1-4d0b-9d6f-0f9b4a7f2c11"
# The time is 3 May 2026.
_CHANGED_AT_MS = 1_777_803_720_000
_OPTED_OUT = {"layer": "user", "settings_version": 7, "settings_changed_at": _CHANGED_AT_MS}
ENDED = "3f5e7b0c-6d0e-4a52-9d5c-0d3c3a1f7f39"
SCHEDULED = "5b0a2f8e-7a41-4c0d-8a57-2f6f0b1f0c73"
PHONE = {"width": 390, "height": 844}
_WIDE = {"width": 1280, "height": 900}
SIGNED_OUT = "sign-in"
SHOWN_USER = 45


def _send(send_id: str, category: str, at: datetime, channels: dict[str, ChannelTotals]) -> SendTotals:
    return SendTotals(
        send_id=send_id,
        club_id=1,
        type=category,
        requested_at=at,
        chunk_count=1,
        chunks=1,
        channels=channels,
        watermark=at,
    )


def _sends(now: datetime) -> Iterator[SendTotals]:
    moving = {"sent": {"": 41_310}, "delivered": {"": 18_204}, "suppressed": {"opted_out": 3_120, "no_device": 1_944}}
    by_email = {"sent": {"": 6_020}, "bounced": {"bounced_permanent": 31}, "suppressed": {"no_address": 812}}
    yield _send(
        LIVE,
        "match_reminder",
        now - timedelta(minutes=2),
        {
            "push": ChannelTotals(98_000, 12, 71_000, {**moving, "failed": {"template_error": 7}, "held": {"": 2_400}}),
            "email": ChannelTotals(12_000, 0, 9_000, by_email),
        },
    )
    waiting = {"scheduled": {"": 1_140}, "suppressed": {"opted_out": 60}}
    yield _send(SCHEDULED, "announcement", now - timedelta(minutes=9), {"push": ChannelTotals(1_200, 0, 0, waiting)})
    ended = {"sent": {"": 1_830}, "suppressed": {"opted_out": 140, "unknown_user": 30}}
    yield _send(ENDED, "news", now - timedelta(hours=1), {"push": ChannelTotals(2_000, 0, 1_830, ended)})
    for hours, category in enumerate(("newsletter", "announcement", "news", "security_alert", "match_reminder"), 2):
        number = 400 * hours
        totals = {"email": ChannelTotals(number, 0, number, {"delivered": {"": number}})}
        yield _send(f"00000000-0000-4000-8000-{hours:012}", category, now - timedelta(hours=hours), totals)


def _counts(now: datetime) -> Iterator[StoredCount]:
    minute = now.replace(second=0, microsecond=0)
    shares = {"delivered": 40, "sent": 120, "suppressed": 14, "failed": 2, "requested": 180, "bounced": 1}
    for grain, back in [(Grain.MINUTE, back) for back in range(120)] + [(Grain.HOUR, back) for back in range(3)]:
        wave = 1 + (back * 7 % 11) / 5
        for category, weight in (("news", 1.0), ("match_reminder", 2.5), ("newsletter", 0.4)):
            for measure, share in shares.items():
                yield StoredCount(
                    granularity=grain,
                    bucket=floor(minute - back * grain.length, grain.length),
                    club_id=1,
                    type=category,
                    channel="push",
                    measure=measure,
                    count_total=int(share * wave * weight),
                )


def _reasons(now: datetime) -> Iterator[StoredCount]:
    hour = floor(now, Grain.HOUR.length)
    for measure, reason, number in (
        ("suppressed", "opted_out", 900),
        ("suppressed", "no_device", 120),
        ("failed", "provider_error", 14),
        ("bounced", "device_inactive", 60),
    ):
        for hours in range(3):
            yield StoredCount(
                granularity=Grain.HOUR,
                bucket=hour - hours * Grain.HOUR.length,
                club_id=1,
                type="news",
                channel="push",
                measure=measure,
                count_total=number,
                reason=reason,
            )


def _latencies(now: datetime) -> Iterator[StoredLatency]:
    minute = now.replace(second=0, microsecond=0)
    for grain, back in [(Grain.MINUTE, back) for back in range(120)] + [(Grain.HOUR, back) for back in range(3)]:
        for measure, latency_ms in (("sent", 380), ("delivered", 1_600)):
            for number, times in ((900, 1), (90, 2), (10, 9)):
                yield StoredLatency(
                    granularity=grain,
                    bucket=floor(minute - back * grain.length, grain.length),
                    type="news",
                    channel="push",
                    measure=measure,
                    bin=bin_of(latency_ms * times),
                    count_total=number,
                )


def _recipients(now: datetime) -> Iterator[tuple[int, LogRow]]:
    ends = [("delivered", ""), ("sent", ""), ("suppressed", "opted_out"), ("sent", ""), ("suppressed", "no_device")]
    for send_id, category, ago in ((LIVE, "match_reminder", 110), (ENDED, "news", 3_600)):
        for user_id in range(40, 60):
            status, reason = ends[user_id % len(ends)]
            at = now - timedelta(seconds=ago - user_id % 7)
            if status in ("sent", "delivered"):
                yield user_id, LogRow(LogKey(at, send_id, "push"), 1, category, "queued", "")
                yield user_id, LogRow(LogKey(at + timedelta(seconds=1), send_id, "push"), 1, category, "sent", "")
            if status != "sent":
                key = LogKey(at + timedelta(seconds=2), send_id, "push")
                decision = _OPTED_OUT | {"rule": f"category:{category} channel:push"} if reason == "opted_out" else None
                yield user_id, LogRow(key, 1, category, status, reason, decision)


def _people() -> Iterator[User | Device | UserSettings]:
    for user_id in range(40, 60):
        locale = "de" if user_id % 3 == 0 else "en"
        email = None if user_id % 7 == 0 else f"user{user_id}@club.example"
        yield User(
            user_id=user_id,
            club_id=1,
            first_name="Ada",
            last_name="Lovelace",
            email=email,
            locale=locale,
            time_zone="Europe/Berlin",
        )
        if user_id % 4:
            yield _device(user_id * 10, user_id, platform="gcm")
        if user_id % 5 == 0:
            yield UserSettings(user_id=user_id, categories={"match_reminder": False}, version=7)
    # A user with a setting of each kind.
    yield _device(SHOWN_USER * 10 + 1, SHOWN_USER, platform="apns", enabled=False)
    yield UserSettings(
        user_id=SHOWN_USER,
        categories={"match_reminder": False, "news": {"push": True}},
        channels={"email": False},
        quiet_hours={"start": "22:00", "end": "07:00"},
        version=7,
        changed_at=_CHANGED_AT_MS,
    )


def _device(device_id: int, user_id: int, *, platform: str, enabled: bool = True) -> Device:
    return Device(
        device_id=device_id,
        user_id=user_id,
        platform=platform,
        endpoint_arn=f"arn:aws:sns:eu-central-1:000000000000:endpoint/{device_id}",
        enabled=enabled,
        changed_at_ms=_CHANGED_AT_MS,
    )


def _templates() -> Iterator[Template]:
    """A template in two languages, a translation without a variable, and a template with an error."""
    yield Template(1007, 1, "matchday", "push", "de", "{{ data.opponent }}", "Anpfiff um {{ data.kick_off }}")
    yield Template(1002, 1, "matchday", "push", "en", "{{ data.opponent }}", "Kick-off at {{ data.kick_off }}")
    words = "Heute spielen wir gegen {{ data.opponent }}."
    yield Template(1003, 1, "matchday", "email", "de", "{{ data.opponent }}", words)
    body = "Hi {{ user.first_name }}, we play {{ data.opponent }} at {{ data.kick_off }}."
    yield Template(1004, 1, "matchday", "email", "en", "{{ data.opponent }} today", body)
    yield Template(1005, None, "welcome", "email", "en", "Welcome, {{ user.first_name }}", "Good to have you.")
    yield Template(1006, 1, "season_end", "push", "en", "{{ data.season", "Thank you!")


def _registered(send_id: str, **fields: Any) -> Send:
    return Send(key=SendKey(1, send_id), source=Source.REST, **fields)


def _attempts(now: datetime) -> Iterator[WebhookLogRow]:
    """Yield the attempts to send events to the endpoint of club 1."""
    for number, (status, http_status, error) in enumerate(
        [("delivered", 200, ""), ("retried", None, "no answer within 3 s"), ("given_up", 410, "")]
    ):
        yield WebhookLogRow(
            key=WebhookLogKey(now - timedelta(minutes=number), f"evt_{number}", 1 + number),
            endpoint_id=endpoint_id(1),
            club_id=1,
            type="match.finished",
            status=status,
            duration_ms=12 + 1_000 * number,
            event_id=f"match-{number}",
            http_status=http_status,
            error=error,
        )


def _attempt_counts(now: datetime) -> Iterator[StoredWebhookCount]:
    hour = now.replace(minute=0, second=0, microsecond=0)
    for status, count in (("delivered", 4_711), ("retried", 12), ("given_up", 1)):
        key = WebhookCountKey(hour, 1, "match.finished", status)
        yield StoredWebhookCount(Grain.HOUR, endpoint_id(1), WebhookCount(key, count, 20 * count))


def build(monkeypatch: pytest.MonkeyPatch) -> InMemoryMetricsStore:
    """Build the functions in memory, with a morning's sends. Returns their metrics store."""
    rest_api.build(monkeypatch)
    now = datetime.now(UTC)
    store = InMemoryMetricsStore(
        [*_counts(now), *_reasons(now)],
        sends={each.send_id: each for each in _sends(now)},
        watermark=now - timedelta(seconds=70),
        batch_id=7,
        finished_at=now,
        recipients=list(_recipients(now)),
        stored_latencies=list(_latencies(now)),
        revised_minutes=[(now.replace(second=0, microsecond=0) - timedelta(minutes=21), 1, now)],
        webhook_rows=list(_attempts(now)),
        stored_webhooks=list(_attempt_counts(now)),
    )
    register = InMemorySends()
    tomorrow = now.replace(hour=9, minute=30, second=0, microsecond=0) + timedelta(days=1)
    send_at_ms = round(tomorrow.timestamp() * 1000)
    matchday = KeptMessage(
        type="match_reminder",
        channels=("push", "email"),
        template="matchday",
        data={"opponent": "FC Riverside", "kick_off": "19:30"},
    )
    tickets = KeptMessage(
        type="news", channels=("push",), data={"title": "New season tickets", "body": "They are on sale from today."}
    )
    register.register(
        [
            _registered(LIVE, reference="Derby: one hour before kick-off", message=matchday, per_minute=50_000),
            _registered(ENDED, reference="New season tickets", message=tickets),
            _registered(SCHEDULED, send_at_ms=send_at_ms, reference="Open day", not_kept=NotKept.TOO_LARGE),
        ]
    )
    clock, grace = SystemClock(), timedelta(seconds=5)
    waiting = Waiting(clock, InMemoryRequestSlots(), open_polls=100)
    counted = metrics_handler.use_cases(store, clock, grace, waiting)
    monkeypatch.setattr(metrics_handler, "bootstrap", lambda: counted)
    audit_log = operations_handler.audit_route().audit_log
    operations = operations_handler.bootstrap()
    overview = replace(operations.overview, lists=SendLists(store, register), clock=clock)
    operations = replace(operations, overview=overview)
    monkeypatch.setattr(operations_handler, "bootstrap", lambda: operations)
    cases = sends_api.use_cases(store, clock, grace, waiting, register, InMemoryDelayStore(), audit_log)
    monkeypatch.setattr(sends_api, "bootstrap", lambda: cases)
    directory = previews.dry_runs().directory
    assert isinstance(directory, InMemoryDirectory)
    directory.put(*_people(), *_templates())
    return store


@dataclass(frozen=True)
class Picture:
    """A page, and what is done on it before its picture."""

    name: str
    path: str
    do: Callable[[Page], None]


def _overview(page: Page) -> None:
    expect(page.get_by_test_id("health")).to_be_visible()


def _changed_overview(page: Page, **changes: Any) -> None:
    """Open the page with a response of which some parts are others."""

    def answer(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, json={**response.json(), **changes})

    page.route("**/v1/overview*", answer)
    page.reload()
    _overview(page)


def _no_counts(page: Page) -> None:
    """The metrics database and Kafka's health do not answer."""
    _changed_overview(page, counts_known=False, today=None, sends=[], watermark=None, unavailable=["today", "alarms"])


def _first_steps(page: Page) -> None:
    """An empty installation."""
    _changed_overview(page, sends=[], dead_letters=0, alarms=None, webhooks=[], watermark=None)
    expect(page.get_by_test_id("first-steps")).to_be_visible()


def _compose(page: Page) -> None:
    page.get_by_label("Category").select_option("match_reminder")
    page.get_by_label("Title").fill("Kick-off in one hour")
    page.get_by_label("Text").fill("Reds against Blues, 18:00. The gates are open.")
    page.get_by_label("User ids").fill("40-59 42 42")
    page.get_by_label("E-mail", exact=True).check()
    page.get_by_label("Push", exact=True).check()
    for channel in ("E-mail", "Push"):
        expect(page.get_by_test_id("forecast")).to_contain_text(f"{channel} ·")
    expect(page.get_by_test_id("preview-push")).to_be_visible()


def _audience(page: Page) -> None:
    _compose(page)
    page.get_by_label("An audience of the tenant").check()
    page.get_by_label("Value", exact=True).fill("de")
    page.get_by_role("button", name="Add a condition").click()
    page.get_by_label("Field").last.select_option("time_zone")
    page.get_by_label("Value", exact=True).last.fill("Europe/Berlin")
    expect(page.get_by_test_id("forecast")).to_contain_text("6 notifications")


def _review(page: Page) -> None:
    _compose(page)
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_test_id("forecast-sums")).to_be_visible()


def _refused(page: Page) -> None:
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_text("This is needed.").first).to_be_visible()
    expect(page.get_by_test_id("preview-push")).to_be_visible()


def _sent(page: Page) -> None:
    message = page.get_by_role("region", name="Message")
    expect(message.get_by_test_id("preview-push")).to_contain_text("FC Riverside")
    message.scroll_into_view_if_needed()


def _timeline(page: Page) -> None:
    page.get_by_role("button", name="40", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("listitem").filter(has_text="Delivered")).to_be_visible()


def _cancel(page: Page) -> None:
    page.get_by_role("button", name="Cancel this send").click()


def _move(page: Page) -> None:
    page.get_by_role("button", name="Change the time").click()
    expect(page.get_by_role("dialog")).to_be_visible()


def _move_refused(page: Page) -> None:
    """The API refuses the time."""
    _move(page)
    page.get_by_label("Time", exact=True).fill("2099-01-01T09:30")
    page.get_by_role("button", name="Save the new time").click()
    # The polls of the pages before wait in the gateway's threads.
    expect(page.get_by_text("must lie ahead")).to_be_visible(timeout=PATIENCE_MS)


def _letter(page: Page) -> None:
    page.get_by_role("button", name="Show 0@17").click()
    expect(page.get_by_role("button", name="Replay")).to_be_visible()


def _secret(page: Page) -> None:
    """An endpoint is created, and another one is about to be deleted."""
    page.get_by_label("URL").fill("https://shop.example.org/hooks/masscomm")
    page.get_by_label("send.completed").check()
    page.get_by_role("button", name="Create an endpoint").click()
    expect(page.get_by_role("status").locator("code")).to_be_visible()
    page.get_by_role("button", name="Delete").last.click()
    expect(page.get_by_role("alert")).to_be_visible()


def _deliveries(page: Page) -> None:
    page.get_by_role("button", name=f"Deliveries {endpoint_id()}").click()
    page.get_by_text("8 · 503").click()
    page.get_by_role("region", name="Dead letters").get_by_role("row").filter(has_text="match-4711").wait_for()


def _matches(page: Page) -> None:
    page.get_by_label("Unit of the event (optional)").fill("100/7")
    page.get_by_label("Data (JSON)").fill('{"goals": [2, 1]}')
    page.get_by_role("button", name="Show the matches").click()
    expect(page.get_by_test_id("matches").get_by_role("listitem").first).to_be_visible()


def _rules(page: Page) -> None:
    page.get_by_label("Subscriptions of").select_option("Rules that notify users")
    expect(page.get_by_label("Category").locator("option")).not_to_have_count(0)


def _category(page: Page) -> None:
    """A category is about to be changed for a tenant, too."""
    page.get_by_role("button", name="Change newsletter").click()
    page.get_by_role("button", name="Add a tenant").click()
    page.get_by_label("Own channels").check()


def _source(page: Page) -> None:
    page.get_by_role("button", name=f"Open {source_id()}").click()
    expect(page.get_by_test_id("refusals")).to_be_visible()


def _nothing(page: Page) -> None:
    page.get_by_role("heading", level=1).wait_for()


def _settled(page: Page) -> None:
    page.wait_for_load_state("networkidle")


def _table(page: Page) -> None:
    expect(page.get_by_role("table").first).to_be_visible()


def _template(page: Page) -> None:
    page.get_by_label("opponent", exact=True).fill("Riverside")
    expect(page.get_by_test_id("preview-push")).to_contain_text("Riverside")


def _user(page: Page) -> None:
    for table in ("settings", "timeline"):
        expect(page.get_by_test_id(table)).to_be_visible()


def _cell(page: Page) -> None:
    expect(page.get_by_role("cell").first).to_be_visible()


def _fails(page: Page) -> None:
    """Every request of the API fails from now on."""
    page.route("**/v1/**", lambda route: route.fulfill(status=503, json={"detail": "The metrics database is away."}))
    page.reload()
    expect(page.get_by_role("alert").first).to_be_visible()


def _offline(page: Page) -> None:
    _table(page)
    page.context.set_offline(True)
    expect(page.get_by_text("offline").first).to_be_visible()


def in_german(page: Page) -> None:
    """Choose German on a page. An open dialog covers the field."""
    page.get_by_label("Language", exact=True).select_option("de", force=True)
    expect(page.locator("html")).to_have_attribute("lang", "de")


PICTURES = (
    Picture(SIGNED_OUT, "", _nothing),
    Picture("overview", "#/", _overview),
    Picture("overview-club", "#/?club=2", _overview),
    Picture("overview-no-counts", "#/", _no_counts),
    Picture("overview-first", "#/", _first_steps),
    Picture("compose", "#/compose", _compose),
    Picture("compose-audience", "#/compose", _audience),
    Picture("compose-errors", "#/compose", _refused),
    Picture("review", "#/compose", _review),
    Picture("sends", "#/sends", _table),
    Picture("sends-empty", "#/sends?club=2", _nothing),
    Picture("sends-error", "#/sends", _fails),
    Picture("sends-offline", "#/sends", _offline),
    Picture("send", f"#/sends/{LIVE}", _sent),
    Picture("send-words", f"#/sends/{ENDED}", _table),
    Picture("send-timeline", f"#/sends/{LIVE}", _timeline),
    Picture("send-cancel", f"#/sends/{LIVE}", _cancel),
    Picture("send-scheduled", f"#/sends/{SCHEDULED}", _table),
    Picture("send-move", f"#/sends/{SCHEDULED}", _move),
    Picture("send-move-refused", f"#/sends/{SCHEDULED}", _move_refused),
    Picture("send-unknown", "#/sends/unknown", _nothing),
    Picture("audiences", "#/audiences", _nothing),
    Picture("templates", "#/templates", _table),
    Picture("template", "#/templates/matchday", _template),
    Picture("categories", "#/categories", _category),
    Picture("metrics", "#/metrics?compare=1", _cell),
    Picture("metrics-empty", "#/metrics?club=2", _nothing),
    Picture("user", f"#/users/{SHOWN_USER}", _user),
    Picture("user-empty", "#/users", _nothing),
    Picture("events-types", "#/events/types", _table),
    Picture("events-subscriptions", "#/events/subscriptions", _matches),
    Picture("events-rules", "#/events/subscriptions", _rules),
    Picture("events-sources", "#/events/sources", _table),
    Picture("events-source", "#/events/sources", _source),
    *(Picture(f"operations-{name}", f"#/operations/{name}", _table) for name in ("health", "suppressions", "keys")),
    *(Picture(f"operations-{name}", f"#/operations/{name}", _settled) for name in ("alarms", "devices")),
    Picture("operations-audit", "#/operations/audit", _table),
    Picture("events-endpoints", "#/events/endpoints", _secret),
    Picture("events-deliveries", "#/events/endpoints", _deliveries),
    Picture("operations-letters", "#/operations/letters", _letter),
)


def take(
    console: Console, out: Path, *, suffix: str, size: dict[str, int], german: bool, names: tuple[str, ...]
) -> None:
    for picture in PICTURES:
        if names and picture.name not in names:
            continue
        page = console.page.context.new_page() if picture.name == SIGNED_OUT else console.page
        page.set_viewport_size({"width": size["width"], "height": size["height"]})
        page.goto("about:blank")
        open_page(page, f"{console.url}/{picture.path}")
        picture.do(page)
        if german:
            in_german(page)
        # The animations of the browser's own parts end before a picture is taken.
        whole = page.get_by_role("dialog").count() == 0
        page.screenshot(path=out / f"{picture.name}{suffix}.png", full_page=whole, animations="disabled")
        page.unroute_all()
        page.context.set_offline(False)


def main(out: Path, *names: str) -> None:
    """Write the pictures to a folder."""
    out.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as monkeypatch:
        build(monkeypatch)
        with rest_api.serving(CONSOLE) as url:
            for suffix, dark, size, german in (
                ("", False, _WIDE, False),
                ("-dark", True, _WIDE, False),
                ("-phone", False, PHONE, False),
                ("-de", False, _WIDE, True),
                ("-phone-dark-de", True, PHONE, True),
            ):
                with open_console(url, "admin", dark=dark) as console:
                    console.page.context.add_init_script(FORGET)
                    take(console, out, suffix=suffix, size=size, german=german, names=names)
                    console.errors.clear()  # Some pictures show an API that fails.


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
