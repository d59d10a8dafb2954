"""A deleted row of settings ends the changes that it had: none of them applies again."""

from typing import Any

import pytest

from masscomm.domain.preference_changes import INDEX, PreferenceChanges, Wish
from masscomm.domain.users import UserSettings
from tests.support.harness.cdc_consumer import Consumer
from tests.support.inputs.debezium_records import row

NOW = 1_700_000_000_000
ROW: dict[str, Any] = {"user_id": 1, "channels": None, "categories": None, "quiet_hours": None}
IN, OUT = Wish("newsletter", None, True), Wish("newsletter", None, False)


def change(consumer: Consumer, wish: Wish) -> int:
    """Change preferences as preferences_handler does. Returns the version of the change."""
    settings = consumer.directory().user_settings([1]).get(1)
    known = consumer.cluster.documents.get((INDEX, "1"))
    before = PreferenceChanges(user_id=1, club_id=7) if known is None else PreferenceChanges.read(known[1])
    after = before.after([wish], settings, NOW)
    consumer.cluster.documents[INDEX, "1"] = 1, after.document
    return after.version


def settings_of(consumer: Consumer) -> UserSettings:
    return consumer.directory().user_settings([1])[1]


def save(consumer: Consumer, op: str, lsn: int, **columns: Any) -> None:
    after = ROW | columns
    consumer.run(row("user_settings", op, lsn, None if op == "d" else after, after, key="user_id"))


@pytest.mark.kills(guard="preferences.deleted_row")
@pytest.mark.parametrize("wish", [IN, OUT])
def test_applied_change_of_a_deleted_row_does_not_return(wish: Wish) -> None:
    consumer = Consumer()
    version = change(consumer, wish)
    assert settings_of(consumer).categories == {"newsletter": wish.wanted}
    chosen_again = {"categories": f'{{"newsletter": {str(not wish.wanted).lower()}}}', "preference_version": version}
    save(consumer, "c", 10, **chosen_again)
    save(consumer, "d", 20, **chosen_again)
    assert settings_of(consumer).categories == {}
    assert settings_of(consumer).is_absent
    change(consumer, Wish(None, "push", False))
    document = consumer.cluster.documents[INDEX, "1"][1]
    assert [each["category"] for each in document["changes"]] == [None], "the monolith does not get it again, either"


@pytest.mark.kills(guard="preferences.version_of_deleted_settings")
def test_opt_in_from_before_a_deleted_row_does_not_apply() -> None:
    """The monolith does not say which changes its rows have."""
    consumer = Consumer()
    change(consumer, IN)
    save(consumer, "c", 10, categories='{"newsletter": false}')
    save(consumer, "d", 20)
    assert settings_of(consumer).categories == {}
    change(consumer, IN)
    assert settings_of(consumer).categories == {"newsletter": True}, "a choice after the deletion"


def test_opt_out_that_no_row_had_survives_the_deletion() -> None:
    consumer = Consumer()
    save(consumer, "c", 10)
    change(consumer, OUT)
    save(consumer, "d", 20)
    assert settings_of(consumer).categories == {"newsletter": False}


def test_row_with_an_unreadable_version_can_be_deleted() -> None:
    consumer = Consumer()
    save(consumer, "d", 20, preference_version="seven")
    assert consumer.producer.produced == []
    assert settings_of(consumer).is_absent
