"""POST /v1/dry-runs, and POST /v1/sends with dry_run."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.send_handler import dry_run as module
from functions.send_handler.dry_run import DryRunBody, DryRunSend
from functions.send_handler.send_records import SendIdentity
from functions.send_handler.send_request import SendRequest
from masscomm.chain.dry_run import End, Forecast, Sample
from masscomm.clock import FixedClock
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain import categories
from masscomm.domain.frequency_caps import Cap
from masscomm.domain.saved_audiences import SavedAudience
from masscomm.domain.simulator import FIRST_ID, RESULTS
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.tenant_preferences import EVERY_CLUB, TenantPreferences
from masscomm.domain.time_limits import DRY_RUN_AUDIENCE_RESERVE_S, DRY_RUN_RESERVE_S
from masscomm.domain.users import User, UserSettings
from masscomm.errors import Retry
from masscomm.http import single_users
from masscomm.http.parameters import time_of_ms
from masscomm.http.scopes import ALL_SCOPES
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.known import known_categories
from masscomm.stores.frequency_caps.port import Change, PlacesKey, StoredPlaces
from masscomm.stores.request_slots.port import Kind
from tests.support.categories import put_version
from tests.support.contracts.directory import follow
from tests.support.contracts.dry_run import (
    DEVICES,
    SENDS,
    SETTINGS,
    TEMPLATES,
    USERS,
    chain_in_memory,
    check_dry_run,
    person,
)
from tests.support.harness.chain import NOW
from tests.support.harness.send_api import SendApi, dry_runs
from tests.support.harness.settled_chain import SettledChain
from tests.support.harness.slots import take_slots
from tests.support.inputs.api_gateway_events import EVERY_SCOPE
from tests.support.inputs.optional_tables import mapped
from tests.support.sms import sms_settings


@pytest.mark.guarantee("dry_run.counts_are_the_sends")
@pytest.mark.parametrize("name", SENDS)
def test_dry_run_has_the_ends_of_the_chain(name: str) -> None:
    check_dry_run(chain_in_memory(), name)


@pytest.mark.guarantee("dry_run.counts_are_the_sends")
@pytest.mark.kills(guard="dry_run.rules_of_tenant")
def test_dry_run_follows_the_rules_of_tenants() -> None:
    chain = chain_in_memory()
    own = TenantPreferences(club_id=7, channels={"push": False}, categories={}, version=NOW)
    every = TenantPreferences(club_id=EVERY_CLUB, channels={}, categories={"news": False}, version=NOW)
    for each in (own, every):
        chain.directory.tenant_preferences[each.club_id] = each.document
    assert Reason.OPTED_OUT in check_dry_run(chain, "now")


# The reasons that a dry run cannot know, and what decides them.
DECIDED_LATER = {
    Reason.PROVIDER_REJECTED: "the provider's answer",
    Reason.BOUNCED_PERMANENT: "a receipt",
    Reason.BOUNCED_TRANSIENT: "a receipt",
    Reason.COMPLAINED: "a receipt",
    Reason.CANCELLED: "a later request",
    Reason.NOT_FOLLOWING: "an unfollowing after the dry run",
    Reason.SPEND_LIMIT: "the other SMS of the day; a dry run has their price",
    Reason.NOT_NEEDED: "the end of another notification",
    Reason.REPLACED: "the end of another notification",
    Reason.UNKNOWN_CHANNEL: "nothing: the API refuses such a request",
    Reason.DEAD_LETTER: "nothing: the API refuses what would be dead-lettered",
}


@pytest.mark.guarantee("dry_run.counts_are_the_sends")
@pytest.mark.kills(guard="dry_run.refused_before_a_provider")
def test_each_end_before_a_provider_is_in_a_dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reason that is decided before a provider is called, for a user of some send, is that of the dry run, too."""
    table = categories.category_table()
    with_opt_in = replace(table.categories["match_reminder"], opt_in=frozenset({"email"}))
    with_cap = replace(table.categories["news"], caps=(Cap(limit=1, window="24h"),))
    changed = replace(table, categories={**table.categories, "match_reminder": with_opt_in, "news": with_cap})
    monkeypatch.setattr(categories, "category_table", lambda: changed)
    found = set[str]().union(*(check_dry_run(_chain_with_a_full_cap(), name) for name in SENDS))
    assert found | DECIDED_LATER.keys() == set(Reason)
    assert found.isdisjoint(DECIDED_LATER)


def _chain_with_a_full_cap() -> SettledChain:
    """Return a chain in which user 1 has had the one send of the category news that a day permits."""
    chain = chain_in_memory()
    key = PlacesKey(7, 1, Cap(limit=1, window="24h").key("news", "push"))
    chain.frequency_caps.write([[Change(key, StoredPlaces(), {"other#push": NOW}, 1)]], NOW)
    return chain


PLAIN = {"type": "news", "club_id": 7, "data": {"headline": "We won"}}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    api = SendApi(monkeypatch)
    directory = InMemoryDirectory()
    directory.put(*USERS, *SETTINGS, *DEVICES, *TEMPLATES)
    api.dry_runs = dry_runs(api.clock, directory, api.register)
    return api


def dry_run(
    api: SendApi,
    *,
    authorizer: dict[str, Any] | None = None,
    key: str = "",
    **fields: Any,
) -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    return api.call(json.dumps(PLAIN | fields), path="/v1/dry-runs", headers=headers, authorizer=authorizer)


FALLBACK = {"channel": "email", "if": "not_sent", "after": "10m"}


def test_fallbacks_are_counted_at_once_or_if_needed(api: SendApi) -> None:
    """Users 1 and 9 get a push, and the e-mail if that is not sent; 2 and 5 get no push, so that the e-mail goes at
    once. 3 has opted out of both, and 6 has no address.
    """
    _, body, _ = dry_run(api, to_users=[1, 2, 3, 5, 6, 9], channels=["push", FALLBACK])
    push, email = body["channels"]
    assert [push[name] for name in ("deliverable", "held", "if_needed", "suppressed")] == [2, 1, 0, 3]
    assert [email[name] for name in ("deliverable", "held", "if_needed", "suppressed")] == [2, 0, 2, 2]
    assert (email["scheduled"], body["requested"], body["reached"]) == (0, 12, 5)
    assert {each["reason"]: each["count_total"] for each in email["reasons"]} == {"opted_out": 1, "no_address": 1}


def test_each_fallback_is_counted_after_the_one_before_it(api: SendApi) -> None:
    _, body, _ = dry_run(api, to_users=[1, 2, 14], channels=["push", FALLBACK, FALLBACK | {"channel": "sms"}])
    assert [(each["deliverable"], each["if_needed"]) for each in body["channels"]] == [(2, 0), (1, 1), (0, 0)]


@pytest.mark.guarantee("dry_run.nothing_is_sent")
def test_nothing_is_sent_recorded_or_counted(api: SendApi) -> None:
    authorizer = EVERY_SCOPE | {"club_ids": "7", "recipients_a_day": "1", "principalId": "k"}
    status, body, headers = dry_run(api, to_users=[1, 2, 2], key="k", authorizer=authorizer)
    assert (status, headers["Cache-Control"]) == (200, "no-store")
    assert (body["dry_run"], body["requested"], body["duplicates"], body["estimated"]) == (True, 2, 1, False)
    assert body["counted_at"] == time_of_ms(api.clock.now_ms())
    (channel,) = body["channels"]
    assert (channel["deliverable"], channel["suppressed"]) == (1, 1)
    assert channel["reasons"] == [
        {"status": "suppressed", "reason": "opted_out", "count_total": 1, "first_at": None, "last_at": None}
    ]
    assert api.producer.produced == []
    assert api.register.sends == {}
    assert api.audit_log.entries == []
    assert api.usage.used == {}
    # The key belongs to no request yet.
    assert api.call(json.dumps(PLAIN | {"to_users": [1]}), headers={"Idempotency-Key": "k"})[0] == 202


@pytest.mark.kills(guard="scopes.dry_run")
def test_counts_need_the_scope_of_reading_sends(api: SendApi) -> None:
    status, body, _ = dry_run(api, to_users=[1], authorizer={"club_ids": "7", "scopes": "send users:read"})
    assert (status, "scope read" in body["detail"]) == (403, True)


SENDER = {"principalId": "k", "club_ids": "7", "scopes": "send read"}
READER = SENDER | {"scopes": "send read users:read"}


@pytest.mark.kills(guard="single_users.samples")
def test_samples_need_the_scope_of_reading_users(api: SendApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_users, "SMALLEST_GROUP", 1)
    api.saved_audiences.put(SavedAudience(club_id=7, name="everybody", definition={"all_users": True}, changed_at_ms=0))
    _, body, _ = dry_run(api, audience={"saved": "everybody"}, authorizer=SENDER)
    assert (body["samples"], body["channels"][0]["deliverable"] > 0) == ([], True)
    _, body, _ = dry_run(api, to_users=[1], authorizer=READER)
    assert body["samples"] == [
        {"channel": "push", "locale": "en", "user_id": 1, "fields": {"title": "News", "body": "We won: gold"}}
    ]


@pytest.mark.guarantee("single_users.named")
@pytest.mark.kills(guard="single_users.named")
@pytest.mark.parametrize(
    ("recipients", "field"),
    [
        ({"audience": {"all_users": True, "except_users": [1]}}, "audience.except_users"),
    ],
)
def test_dry_run_of_named_users_needs_users_read(api: SendApi, recipients: dict[str, Any], field: str) -> None:
    status, body, _ = dry_run(api, **recipients, authorizer=SENDER)
    assert (status, [each["field"] for each in body["errors"]]) == (403, [field])
    assert body["parameters"] == {"field": field, "scope": "users:read"}
    assert dry_run(api, **recipients, authorizer=READER)[0] == 200


@pytest.mark.guarantee("single_users.small_group")
@pytest.mark.kills(guard="single_users.small_group")
def test_dry_run_of_a_few_users_needs_users_read(api: SendApi, monkeypatch: pytest.MonkeyPatch) -> None:
    everybody: dict[str, Any] = {"audience": {"all_users": True}}
    for recipients in (
        everybody,
        {"to_users": [1]},
        {"to_users": [1, 2]},
        # The others are simulator recipients or unknown, so that the numbers show what becomes of one.
        {"to_users": [1, *range(FIRST_ID, FIRST_ID + 20)]},
        {"to_users": [1, *range(900, 920)]},
        {"to_users": [1] * 20},
    ):
        status, body, _ = dry_run(api, **recipients, authorizer=SENDER)
        assert (status, body["code"], "requested" in body) == (403, "users_few", False)
        assert dry_run(api, **recipients, authorizer=READER)[0] == 200
    monkeypatch.setattr(single_users, "SMALLEST_GROUP", 2)
    for recipients in (everybody, {"to_users": [1, 2]}, {"to_users": [1, 2, FIRST_ID, 900]}):
        assert dry_run(api, **recipients, authorizer=SENDER)[0] == 200


def test_dry_run_of_simulator_recipients_needs_no_users_read(api: SendApi) -> None:
    test_key = SENDER | {"mode": "test"}
    assert dry_run(api, to_users=[FIRST_ID], authorizer=SENDER)[0] == 200
    assert dry_run(api, audience={"all_users": True}, authorizer=test_key)[0] == 200


def test_send_without_named_users_needs_users_read(api: SendApi) -> None:
    """The size of its audience is shown, so two sends would show what the user is."""
    fields = {"audience": {"all_users": True, "except_users": [1]}}
    assert api.call(json.dumps(PLAIN | fields), authorizer=SENDER)[0] == 403
    assert api.producer.produced == []
    assert api.call(json.dumps(PLAIN | fields), authorizer=READER)[0] == 202


def test_third_dry_run_of_a_caller_at_the_same_time_is_429(api: SendApi) -> None:
    take_slots(api.slots, Kind.DRY_RUN, "operator", api.clock)
    status, body, headers = dry_run(api, to_users=[1])
    assert (status, body["code"], "Retry-After" in headers) == (429, "requests_running", True)
    assert api.call(json.dumps(PLAIN | {"to_users": [1]}))[0] == 202


def test_names_of_one_locale_share_a_sample() -> None:
    forecast = Forecast()
    for locale in ("de_CH", "de-CH", "de-Latn-CH", "de"):
        forecast.add_sample(Sample("push", locale, 1, {"title": "News"}))
    assert [sample.locale for sample in forecast.samples] == ["de_CH", "de"]


def test_dry_run_warns_of_shortened_pushes(stored_categories: InMemoryCategories) -> None:
    """Both users have an Android device, and the body is longer than a push."""
    put_version(stored_categories, "news", {"channels": ["push"], "shorten": True}, 0)
    known_categories().read()
    long = {"title": "Hello", "body": "Grüezi " * 1_000}
    body = answer_of(large(2, 0), type="news", template="own", data=long, to_users=[1, 2])
    assert body["channels"][0]["deliverable"] == 2
    assert [(each["code"], each.get("parameters")) for each in body["warnings"]] == [
        ("pushes_shortened", {"pushes": 2, "platform": "android"})
    ]


def test_other_tenants_users_are_unknown(api: SendApi) -> None:
    _, body, _ = dry_run(api, to_users=[4, 999])
    assert body["samples"] == []
    (reason,) = body["channels"][0]["reasons"]
    assert (reason["reason"], reason["count_total"]) == ("unknown_user", 2)


def test_dry_run_is_refused_as_the_send_would_be(api: SendApi) -> None:
    """Every invalid field is named, and the rules of scopes, tenants and test keys apply."""
    status, body, _ = dry_run(api, to_users=["a"], dry_run="yes", send_at="2020-01-01T00:00:00Z", more=1)
    assert status == 400
    assert {each["field"] for each in body["errors"]} == {"to_users[0]", "dry_run", "send_at", "more"}
    assert dry_run(api, to_users=[1], send_at="2020-01-01T00:00:00Z")[0] == 400
    assert dry_run(api, to_users=[1], authorizer=EVERY_SCOPE | {"club_ids": "8"})[0] == 403
    assert dry_run(api, to_users=[1], authorizer=EVERY_SCOPE | {"club_ids": "7", "mode": "test"})[0] == 403
    own = {"title": "t", "body": "b"}
    assert dry_run(api, to_users=[1], data=own, authorizer=READER)[0] == 403


def test_a_send_that_asks_for_a_dry_run_is_refused(api: SendApi) -> None:
    """A dry run has a route of its own."""
    send = PLAIN | {"to_users": [1], "dry_run": True}
    refused = [api.call(json.dumps(send))[:2]]
    refused.append(api.call(json.dumps(send), path="/v1/dry-runs")[:2])
    batch = api.call(json.dumps({"sends": [send]}), path="/v1/sends/batch", headers={"Idempotency-Key": "k"})[1]
    refused += [(each["status"], each["problem"]) for each in batch["results"]]
    assert [(status, body["errors"][0]["field"]) for status, body in refused] == [(400, "dry_run")] * 3
    assert api.producer.produced == []


def test_an_audience_is_counted_without_an_expansion(api: SendApi) -> None:
    audience = {"where": {"field": "locale", "is": "de"}}
    status, body, _ = dry_run(api, audience=audience)
    assert (status, body["requested"], body["estimated"], body["warnings"]) == (200, 1, False, [])
    assert body["channels"][0]["deliverable"] == 1
    assert api.producer.produced == []


@pytest.mark.kills(guard="simulator.dry_run")
def test_an_audience_of_a_test_key_is_the_simulator_recipients(api: SendApi) -> None:
    _, body, _ = dry_run(api, audience={"all_users": True}, authorizer=EVERY_SCOPE | {"club_ids": "7", "mode": "test"})
    assert (body["requested"], body["samples"]) == (len(RESULTS), [])
    assert body["channels"][0]["failed"] == sum(status is Status.FAILED for status, _ in RESULTS.values())


def test_a_directory_that_does_not_answer_is_a_503(api: SendApi, monkeypatch: pytest.MonkeyPatch) -> None:
    directory: Any = api.dry_runs.directory
    monkeypatch.setattr(directory, "failing", Retry("down"))
    assert dry_run(api, to_users=[1])[0] == 503


def large(total: int, opted_out: int) -> DryRunSend:
    """A club of `total` users with a device, of whom `opted_out` have opted out."""
    clock, directory = FixedClock(), InMemoryDirectory()
    directory.put(*TEMPLATES)
    for user_id in range(1, total + 1):
        device = DEVICES[0]._replace(device_id=user_id, user_id=user_id)
        directory.put(User(user_id=user_id, club_id=7, attributes={"plan": "gold"}), device)
        if user_id <= opted_out:
            directory.put(UserSettings(user_id=user_id, channels={"push": False}))
    return dry_runs(clock, directory)


def answer_of(use_case: DryRunSend, remaining_s: Callable[[], float] = lambda: 29.0, **fields: Any) -> DryRunBody:
    send = SendRequest.model_validate(PLAIN | fields)
    identity = SendIdentity(send_id="s", requested_at_ms=FixedClock().now_ms(), chunk_size=5_000)
    return use_case.answer(send, identity, remaining_s, is_test=False, scopes=ALL_SCOPES)


def test_users_of_several_channels_are_reached_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """User 1 has opted out of push and has an address, user 2 has a device and an address, user 3 a device alone."""
    monkeypatch.setattr(module, "EXACT_RECIPIENTS", 1_000)
    use_case = large(4, 1)
    literal: dict[str, Any] = {"type": "announcement", "data": {"title": "Goal", "body": "1:0"}}
    directory: Any = use_case.directory
    directory.put(*(User(user_id=user, club_id=7, email=f"user{user}@club.example") for user in (1, 2)))
    directory.put(UserSettings(user_id=4, channels={"push": False}))
    body = answer_of(use_case, **literal, to_users=[1, 2, 3, 4], channels=["push", "email"])
    assert [channel["deliverable"] for channel in body["channels"]] == [2, 2]
    assert body["reached"] == 3
    assert answer_of(use_case, **literal, audience={"where": {"field": "locale", "is": "xx"}})["reached"] == 0


def test_large_sends_are_estimated_from_the_same_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXACT_RECIPIENTS", 1_000)
    use_case, users = large(3_000, 900), list(range(1, 3_001))
    body = answer_of(use_case, to_users=users)
    (channel,) = body["channels"]
    assert (body["requested"], body["estimated"], channel["requested"]) == (3_000, True, 3_000)
    assert channel["deliverable"] + channel["suppressed"] == 3_000
    assert body["reached"] == channel["deliverable"]
    assert abs(channel["suppressed"] - 900) < 120  # three standard deviations of a sample of 1,000
    assert body["warnings"] == [
        {
            "field": "to_users",
            "message": "the counts are estimated from 1000 of 3000 recipients",
            "code": "counts_estimated",
            "parameters": {"examined": 1000, "total": 3000},
        }
    ]
    assert answer_of(use_case, to_users=users[::-1])["channels"] == body["channels"]
    assert answer_of(use_case, audience={"all_users": True})["channels"] == body["channels"]
    assert answer_of(use_case, to_users=users[:1_000])["estimated"] is False


def test_a_dry_run_without_time_is_estimated() -> None:
    """The look-ups stop in time; what was read until then is scaled."""
    body = answer_of(large(2_000, 0), lambda: DRY_RUN_RESERVE_S, to_users=list(range(1, 2_001)))
    assert (body["estimated"], body["channels"][0]["deliverable"]) == (True, 2_000)
    assert body["warnings"] == [
        {
            "field": "to_users",
            "message": "the counts are estimated from 500 of 2000 recipients",
            "code": "counts_estimated",
            "parameters": {"examined": 500, "total": 2000},
        }
    ]
    use_case = large(5_000, 0)
    body = answer_of(use_case, lambda: DRY_RUN_AUDIENCE_RESERVE_S - 1, audience={"all_users": True})
    assert (body["requested"], body["estimated"], body["channels"][0]["deliverable"]) == (2_000, True, 2_000)
    assert body["warnings"][0]["field"] == "audience"


@pytest.mark.parametrize("total", [3, 7, 100, 1_001])
def test_scaled_counts_have_the_sum_of_all_recipients(total: int) -> None:
    counts = {End(Status.SENT): 1, End(Status.HELD): 1, End(Status.FAILED, Reason.NO_TEMPLATE): 1}
    assert sum(module._scaled(counts, total).values()) == total
    assert module._scaled({}, total) == {}


def test_dry_run_of_followers_counts_their_opt_outs(api: SendApi) -> None:
    with mapped("memberships"):
        directory = api.dry_runs.directory
        assert isinstance(directory, InMemoryDirectory)
        rows = (follow(user_id, muted=user_id == 3) for user_id in (1, 3, 4))
        directory.rows |= {("memberships", id_): row for id_, row in rows}
        status, body, _ = dry_run(api, audience={"follows": "team:42"}, channels=["push"])
        assert (status, body["requested"]) == (200, 2)
        (channel,) = body["channels"]
        assert (channel["deliverable"], channel["suppressed"]) == (1, 1)
        assert [each["reason"] for each in channel["reasons"]] == ["opted_out"]


def test_sms_are_counted_by_country_with_their_price(api: SendApi) -> None:
    numbers = {1: "+4915123456781", 5: "+43 664 1234567", 15: "+41 79 123 45 67", 19: "+4915123456782"}
    directory = InMemoryDirectory()
    directory.put(*(person(user_id, phone=number) for user_id, number in numbers.items()))
    api.dry_runs = dry_runs(api.clock, directory, api.register)
    data = {"title": "-", "body": "a" * 161}
    with sms_settings():
        _, body, _ = dry_run(api, type="match_reminder", channels=["sms"], to_users=list(numbers), data=data)
    assert body["sms"] == {
        "segments": 6,
        "usd": 0.4,
        "prices_as_of": "2026-11-01",
        "countries": [
            {"country": "AT", "messages": 1, "segments": 2, "usd": 0.2},
            {"country": "DE", "messages": 2, "segments": 4, "usd": 0.2},
        ],
        "refused": [{"country": "CH", "messages": 1}],
    }


def test_send_without_sms_has_no_price(api: SendApi) -> None:
    _, body, _ = dry_run(api, to_users=[1])
    assert body["sms"] is None
