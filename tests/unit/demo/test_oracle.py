"""The oracle judges the results of the demo and of the fault matrix, so its own rules are tested case by case."""

from datetime import datetime
from typing import Any

import pytest

from examples.monolith.seed import BIG_CLUB, generate
from local.devstack.demo.oracle import Ask, Person, World, expect, wants

CLUB = 1
SILENT = {"push": False}


def person(**values: Any) -> Person:
    return Person(**({"club_id": CLUB, "has_email": True, "active_devices": 1} | values))


@pytest.mark.parametrize(
    ("channels", "categories", "wanted"),
    [
        ({}, {}, True),
        ({"push": True}, {}, True),
        ({"push": False}, {}, False),
        ({"email": False}, {}, True),
        ({}, {"news": False}, False),
        ({}, {"news": {"push": False}}, False),
        ({}, {"news": {"email": False}}, True),
        ({}, {"newsletter": False}, True),
        # Precedence of rules: category with channel, then category, then channel.
        ({"push": False}, {"news": True}, True),
        ({"push": True}, {"news": False}, False),
        ({"push": False}, {"news": {"push": True}}, True),
        ({"push": False}, {"news": {"email": True}}, False),
    ],
)
def test_most_specific_setting_wins(channels: dict[str, bool], categories: dict[str, Any], wanted: bool) -> None:
    assert wants(person(channels=channels, categories=categories), "news", "push") is wanted


@pytest.mark.parametrize(
    ("who", "fate"),
    [
        (None, "unknown_user"),
        (person(club_id=2, channels={"push": False}), "unknown_user"),
        (person(channels={"push": False}, active_devices=0), "opted_out"),
        (person(active_devices=0), "no_device"),
        (person(has_email=False), "sent"),
    ],
)
def test_push_result_follows_from_the_users_data(who: Person | None, fate: str) -> None:
    world = World({} if who is None else {7: who})

    found = expect(world, Ask(club_id=CLUB, type="news", to_users=[7]))

    assert found.fates == {(7, "push"): fate}
    assert found.sent == (fate == "sent")
    assert found.suppressed == ({} if fate == "sent" else {fate: 1})


def test_an_email_needs_an_address() -> None:
    world = World({1: person(has_email=False), 2: person(active_devices=0)})

    found = expect(world, Ask(club_id=CLUB, type="newsletter", to_users=[1, 2]))

    assert found.fates == {(1, "email"): "no_address", (2, "email"): "sent"}


def test_mandatory_category_overrides_an_opt_out_only() -> None:
    """A mandatory category bypasses opt-outs, but a recipient without a device is still suppressed."""
    world = World({1: person(channels=SILENT), 2: person(channels=SILENT, active_devices=0)})

    found = expect(world, Ask(club_id=CLUB, type="one_time_password", to_users=[1, 2]))

    assert found.fates == {(1, "push"): "sent", (2, "push"): "no_device"}


def test_a_user_named_twice_is_one_notification_on_each_channel() -> None:
    world = World({1: person(active_devices=3)})

    found = expect(world, Ask(club_id=CLUB, type="security_alert", to_users=[1, 1]))

    assert found.requested == 2
    assert found.provider_calls == 4  # the user has three devices and one e-mail address
    assert found.by_channel() == {
        "push": {"requested": 1, "sent": 1, "queued": 1},
        "email": {"requested": 1, "sent": 1, "queued": 1},
    }


DEFAULT_QUIET_HOURS = {"start": "22:00", "end": "07:00"}


@pytest.mark.parametrize(
    ("hours", "time_zone", "at", "held"),
    [
        (None, "UTC", "23:00", False),
        (DEFAULT_QUIET_HOURS, "UTC", "21:59", False),
        (DEFAULT_QUIET_HOURS, "UTC", "22:00", True),
        (DEFAULT_QUIET_HOURS, "UTC", "06:59", True),
        (DEFAULT_QUIET_HOURS, "UTC", "07:00", False),
        (DEFAULT_QUIET_HOURS, "Asia/Tokyo", "13:00", True),
        ({"start": "12:00", "end": "13:30"}, "UTC", "13:29", True),
        ({"start": "12:00", "end": "13:30"}, "UTC", "13:30", False),
    ],
)
def test_allowed_recipient_is_held_in_quiet_hours(
    hours: dict[str, str] | None, time_zone: str, at: str, held: bool
) -> None:
    world = World({1: person(quiet_hours=hours, time_zone=time_zone), 2: person(quiet_hours=hours, channels=SILENT)})
    moment = datetime.fromisoformat(f"2026-11-21T{at}:00+00:00")

    found = expect(world, Ask(club_id=CLUB, type="news", to_users=[1, 2]), moment)

    assert found.held == ({(1, "push")} if held else set())
    assert found.fates == {(1, "push"): "sent", (2, "push"): "opted_out"}
    assert found.by_channel()["push"]["held"] == held
    assert not expect(world, Ask(club_id=CLUB, type="one_time_password", to_users=[1, 2]), moment).held


def test_requested_channels_override_the_categorys() -> None:
    found = expect(World({1: person()}), Ask(club_id=CLUB, type="news", to_users=[1], channels=["email", "email"]))

    assert list(found.fates) == [(1, "email")]


def test_recipient_without_device_is_queued_but_not_sent() -> None:
    world = World({1: person(), 2: person(active_devices=0), 3: person(channels={"push": False})})

    found = expect(world, Ask(club_id=CLUB, type="news", to_users=[1, 2, 3, 4]))

    assert found.by_channel() == {"push": {"requested": 4, "queued": 2, "sent": 1, "suppressed": 3}}


def test_fallback_is_sent_if_the_first_channel_is_not() -> None:
    world = World({1: person(), 2: person(active_devices=0), 3: person(channels=SILENT)})
    channels = ["push", "email"]

    found = expect(world, Ask(club_id=CLUB, type="news", to_users=[1, 2, 3, 4], channels=channels, falls_back=True))

    assert [found.fates[user, "email"] for user in (1, 2, 3, 4)] == ["not_needed", "sent", "sent", "unknown_user"]
    # The preference checker knows the opt-out, and that of a device only delivery does.
    assert found.waiting == {(1, "email"), (2, "email")}
    assert found.by_channel()["email"] == {"requested": 4, "scheduled": 2, "queued": 2, "sent": 2, "suppressed": 2}


@pytest.mark.parametrize(
    ("category", "is_stopped", "fates"),
    [
        ("announcement", False, ["sent", "no_address", "opted_out"]),
        ("announcement", True, ["opted_out", "opted_out", "opted_out"]),
        ("one_time_password", False, ["sent", "no_address", "sent"]),
        ("one_time_password", True, ["address_suppressed", "no_address", "address_suppressed"]),
    ],
)
def test_stop_suppresses_mandatory_sms_too(category: str, is_stopped: bool, fates: list[str]) -> None:
    users = (person(has_phone=True), person(), person(has_phone=True, channels={"sms": False}))
    ask = Ask(club_id=CLUB, type=category, to_users=[0, 1, 2], channels=["sms"], is_stopped=is_stopped)

    found = expect(World(dict(enumerate(users))), ask)

    assert [found.fates[user, "sms"] for user in range(3)] == fates
    reached_builder = sum(fate in ("sent", "address_suppressed") for fate in fates)
    assert found.by_channel()["sms"]["queued"] == reached_builder


def test_seed_contains_a_user_for_each_result() -> None:
    world = World.of_seed(generate(1_000, seed=7))

    push = expect(world, Ask(club_id=BIG_CLUB, type="news", to_users=[*world.members(BIG_CLUB), *world.members(2), -1]))
    mail = expect(world, Ask(club_id=BIG_CLUB, type="newsletter", to_users=world.members(BIG_CLUB)))

    assert set(push.suppressed) == {"opted_out", "no_device", "unknown_user"}
    assert set(mail.suppressed) == {"opted_out", "no_address"}
    assert push.sent > 500
    assert push.provider_calls > push.sent
