from collections import Counter
from dataclasses import replace
from itertools import islice

from examples.monolith.seed import BIG_CLUB, CLUBS, SMALL_CLUB_USERS, generate, user_ids
from examples.monolith.templates import TEMPLATES


def test_same_seed_generates_the_same_users() -> None:
    assert list(generate(300, seed=7)) == list(generate(300, seed=7))
    assert list(generate(300, seed=7)) != list(generate(300, seed=8))


def test_larger_seed_only_adds_users() -> None:
    small = {user.id: user for user in generate(200, seed=7)}
    big = {user.id: user for user in generate(500, seed=7)}

    assert small.items() <= big.items()
    assert len(big) == 500 + (len(CLUBS) - 1) * SMALL_CLUB_USERS


def test_ids_are_unique_and_derived_from_their_owner() -> None:
    people = list(generate(300, seed=7))

    assert len({user.id for user in people}) == len(people)
    assert [user.id for user in people if user.club_id == BIG_CLUB] == list(user_ids(BIG_CLUB, 300))
    devices = [device for user in people for device in user.devices]
    assert len({device.id for device in devices}) == len({device.token for device in devices}) == len(devices)


def test_generated_users_cover_all_kinds() -> None:
    people = list(islice(generate(2_000, seed=7), 2_000))

    devices = Counter(len(user.devices) for user in people)
    assert devices[0] > 150
    assert devices[1] > devices[2] > devices[3] > 50
    assert {device.platform for user in people for device in user.devices} == {"gcm", "apns"}
    assert any(not device.active for user in people for device in user.devices)
    assert sum(user.settings is None for user in people) > 300
    assert sum(user.email is None for user in people) > 150
    assert sum(user.settings is not None and user.settings.channels.get("push") is False for user in people) > 150
    assert sum(user.settings is not None and user.settings.categories.get("news") is False for user in people) > 50
    assert len({user.locale for user in people}) > 4
    assert len({user.time_zone for user in people}) > 3


def test_quiet_hours_option_changes_only_quiet_hours() -> None:
    usual, quiet = list(generate(300, seed=7)), list(generate(300, seed=7, quiet_hours=0.2))

    assert all(user.settings is None or user.settings.quiet_hours is None for user in usual)
    assert sum(user.settings is not None and user.settings.quiet_hours is not None for user in quiet) > 30
    assert [replace(user, settings=None) for user in quiet] == [replace(user, settings=None) for user in usual]


def test_each_category_has_a_template_in_the_fallback_locale() -> None:
    english = {(template.type, template.channel) for template in TEMPLATES if template.locale == "en"}

    assert english == {(template.type, template.channel) for template in TEMPLATES}
    assert {kind for kind, _ in english} == {
        "news",
        "news_digest",
        "match_reminder",
        "newsletter",
        "webhook_disabled",
        "one_time_password",
        "security_alert",
    }
