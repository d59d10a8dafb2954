"""The erase command: refused runs, runs after a failure, and the report of remaining data."""

import json
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from masscomm.errors import Retry, Stop
from masscomm.kafka.topics import cdc_topics, chain_topics
from ops.erasure.command import check, erase
from ops.erasure.person import Person
from ops.erasure.remains import remaining_data


def a_person() -> Person:
    return Person(user_id=7, club_id=3)


@pytest.mark.guarantee("erasure.other_tenant_is_refused")
def test_user_of_another_club_is_refused() -> None:
    person = a_person()
    check(person, still_known=False, even_if_known=False)
    person.clubs = {3, 4}
    check(person, still_known=False, even_if_known=False)
    person.clubs = {4}
    with pytest.raises(Stop, match="not a user of club 3"):
        check(person, still_known=False, even_if_known=True)


def test_user_the_directory_still_has_is_refused() -> None:
    with pytest.raises(Stop, match="Delete the user in the monolith first"):
        check(a_person(), still_known=True, even_if_known=False)
    check(a_person(), still_known=True, even_if_known=True)


@pytest.mark.guarantee("erasure.unreachable_store_is_retried")
@pytest.mark.kills(guard="erasure.directory_last")
def test_failing_store_keeps_the_directory_rows_and_is_reported() -> None:
    ran = []

    def step(name: str, error: Exception | None = None) -> int:
        ran.append(name)
        if error is not None:
            raise error
        return 2

    stores = {
        "ledger": lambda _: step("ledger"),
        "archive": lambda _: step("archive", Retry("ada@example.org could not be written")),
        "messages": lambda _: step("messages"),
    }
    report = erase(a_person(), stores, ("rows", lambda _: step("rows")))
    assert ran == ["ledger", "archive", "messages"]
    assert report.erased == {"ledger": 2, "messages": 2}
    assert report.failed.keys() == {"archive", "rows"}
    assert "ada@" not in "".join(report.lines())
    assert report.answer(["until tomorrow: backups"], as_json=False)[-2:] == ["Still kept:", "until tomorrow: backups"]
    [answer] = report.answer(["until tomorrow: backups"], as_json=True)
    assert json.loads(answer) == {
        "erased": report.erased,
        "failed": report.failed,
        "still_kept": ["until tomorrow: backups"],
    }

    again = erase(a_person(), {"ledger": lambda _: 0}, ("rows", lambda _: step("rows")))
    assert (again.erased, again.failed) == ({"ledger": 0, "rows": 2}, {})


def test_every_topic_and_backup_is_named_with_its_end() -> None:
    now = datetime(2026, 11, 22, 12, tzinfo=UTC)
    lines = remaining_data([*chain_topics(), *cdc_topics("g1")], {"database backups": 14}, now)
    assert [line for line in lines if "database backups" in line] == ["until 2026-12-06 12:00 UTC: database backups"]
    assert next(line for line in lines if "topic delivery" in line).startswith("until 2026-11-25 12:00 UTC")
    assert "topic dead-letter" in next(line for line in lines if "2026-12-22" in line)
    assert "topic cdc.g1.public.users" in next(line for line in lines if line.startswith("until 2026-12-02 12:00 UTC"))
    assert "dead-letter-status" not in "".join(lines)
    assert all(one < other for one, other in pairwise(lines))
