"""A send to an audience from its request to the decisions about its users."""

import json
from collections import Counter
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from functions.audience_expander.expand_audience import ExpandAudience
from masscomm.domain.sends import SendControl, SendKey
from masscomm.domain.users import User, UserSettings
from masscomm.kafka import topics
from masscomm.observability import logs
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.key_usage.in_memory import InMemoryKeyUsage
from tests.support.harness.audience_expander import recurring_sends
from tests.support.harness.chain import NOW, entry, results_of
from tests.support.harness.preference_checker import Checker
from tests.support.harness.send_api import SendApi

SIZE = 4
# Three chunks are recorded in the first share, and one of them is produced.
FIRST_SHARE = 4


class Sends:
    """send_handler, audience_expander and preference_checker with one directory and one register."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
        self.api, self.checker = SendApi(monkeypatch), Checker()
        self.checker.use_case = replace(self.checker.use_case, sends=self.api.register)
        self.api.use_cases = replace(self.api.use_cases, requests=replace(self.api.use_cases.requests, chunk_size=SIZE))
        self.checker.put_users(range(1, 11))
        self.checker.directory.put(User(user_id=50, club_id=8))
        self.expander = ExpandAudience(
            directory=self.checker.directory,
            usage=InMemoryKeyUsage(),
            delay_store=InMemoryDelayStore(),
            recurring=recurring_sends(self.api.clock),
            sends=self.api.register,
            clock=self.api.clock,
            logger=logs.logger("audience_expander"),
            share_chunks=FIRST_SHARE,
        )
        body = {"type": "news", "club_id": 7, "audience": {"all_users": True}, "channels": ["push"], **fields}
        status, accepted, _ = self.api.call(json.dumps(body))
        assert status == 202
        self.key = SendKey(7, accepted["send_id"])

    def expand(self, *, shares: int | None = None) -> int:
        """Expand the audience, or a number of its shares. Return the number of requested notifications."""
        for offset in count():
            values = self.api.values(topics.AUDIENCE)
            if offset == len(values) or offset == shares:
                break
            assert self.api.run(self.expander, entry(values[offset], topic=topics.AUDIENCE, offset=offset)) == []
        ended = self.api.register.sends[self.key.send_id].expansion
        return 0 if ended is None else ended.requested

    def control(self, **values: Any) -> None:
        self.api.register.control(SendControl(send=self.key, **values))

    def check(self) -> Counter[tuple[str, str | None]]:
        """Decide about all users. Return the numbers of final outcomes."""
        chunks = [
            entry(value, topic=topics.SEND_API, offset=offset)
            for offset, value in enumerate(self.api.values(topics.SEND_API))
        ]
        assert self.checker.run(self.checker.use_case, *chunks) == []
        return Counter(results_of(self.checker.outcomes()).values())

    def allowed(self) -> int:
        return sum(len(build.user_ids) for build in self.checker.builds())


@pytest.fixture
def sends(monkeypatch: pytest.MonkeyPatch) -> Sends:
    return Sends(monkeypatch)


def test_every_user_of_the_club_is_decided_about_once(sends: Sends) -> None:
    assert sends.expand() == 10
    assert (sends.check(), sends.allowed()) == ({}, 10)


def test_users_that_opt_out_or_leave_meanwhile_are_suppressed(sends: Sends) -> None:
    assert sends.expand() == 10
    sends.checker.directory.put(UserSettings(user_id=3, categories={"news": False}))
    sends.checker.directory.remove(User(user_id=9, club_id=7))
    sends.checker.directory.put(User(user_id=11, club_id=7))
    found = sends.check()
    assert found == {("suppressed", "opted_out"): 1, ("suppressed", "unknown_user"): 1}
    assert sum(found.values()) + sends.allowed() == 10


@pytest.mark.parametrize("is_first", [True, False])
def test_cancelled_send_is_expanded_and_cancelled(sends: Sends, *, is_first: bool) -> None:
    """Whether it is cancelled before or after the expansion, each notification is counted as cancelled."""
    requested = 0 if is_first else sends.expand()
    sends.control(cancelled_at_ms=NOW)
    requested = requested or sends.expand()
    assert (sends.check(), sends.allowed()) == ({("cancelled", "cancelled"): requested}, 0)


def test_send_that_is_cancelled_between_shares_is_cancelled(sends: Sends) -> None:
    requested = sends.expand(shares=1)
    assert len(sends.api.values(topics.SEND_API)) == 1
    sends.control(cancelled_at_ms=NOW)
    assert sends.expand() == requested == 10
    assert (sends.check(), sends.allowed()) == ({("cancelled", "cancelled"): 10}, 0)


def test_send_that_is_paused_between_shares_is_held(sends: Sends) -> None:
    sends.expand(shares=1)
    sends.control(paused_at_ms=NOW)
    assert sends.expand() == 10
    assert (sends.check(), sends.allowed()) == ({}, 0)
    assert len(sends.checker.delay_store.items) == 3


def test_send_that_expires_between_shares_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    expires_at = "2023-11-14T22:14:20Z"  # a minute after NOW
    sends = Sends(monkeypatch, expires_at=expires_at)
    sends.expand(shares=1)
    sends.api.clock.advance(61)
    sends.checker.clock.advance(61)
    assert sends.expand() == 10
    assert (sends.check(), sends.allowed()) == ({("expired", "expired"): 10}, 0)


def test_paused_send_is_expanded_and_held(sends: Sends) -> None:
    sends.control(paused_at_ms=NOW)
    assert sends.expand() == 10
    assert (sends.check(), sends.allowed()) == ({}, 0)
    assert len(sends.checker.delay_store.items) == 3
