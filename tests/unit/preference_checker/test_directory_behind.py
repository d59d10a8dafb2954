"""Users missing from a directory that is behind are delayed in a record of their own, even after crashes."""

from collections import Counter
from dataclasses import replace
from uuid import uuid5

import pytest
from aws_lambda_powertools import Logger

from functions.preference_checker.check_preferences import CheckPreferences
from functions.scheduler.release_due_records import ReleaseDueRecords
from masscomm.chain.chunks import chunk_of
from masscomm.decisions.parts import split_parts
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.ids import NAMESPACE, derived_id, released_id
from masscomm.domain.users import DirectoryPosition, User, UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.outcome_progress import InMemoryOutcomeProgress
from masscomm.stores.decision_log.in_memory import InMemoryDecisionLog
from masscomm.stores.delayed_records.port import DelayedRecord
from masscomm.stores.digests.in_memory import InMemoryDigests
from masscomm.stores.frequency_caps.in_memory import InMemoryFrequencyCaps
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.fakes.crashes import Fuse, FusedDelayStore, KilledError
from tests.support.harness.chain import NOW, Chain, entry, results_of, send

BEHIND = DirectoryPosition(lsn=1, ts_ms=NOW - 1)
DAY = 86_400_000


class FusedStore(FusedDelayStore):
    """A delay store whose process may also be killed at a removal."""

    def done(self, item: DelayedRecord) -> None:
        self.fuse.step()
        super().done(item)


class FusedLog(InMemoryDecisionLog):
    """A decision log whose process may be killed after any write."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self._fuse = fuse

    def put_if_absent(self, record_id: str, packed: bytes) -> bytes:
        self._fuse.step()
        recorded = super().put_if_absent(record_id, packed)
        self._fuse.step()
        return recorded


class DelayingChecker(Chain):
    """Checker and scheduler; the directory is behind and has the users 1 to 3."""

    def __init__(self, kill_at: int = 0) -> None:
        super().__init__()
        self.fuse = Fuse(kill_at)
        self.store = FusedStore(self.fuse)
        self.log = FusedLog(self.fuse)
        self.producer.fail = self.fuse.step
        self.directory = InMemoryDirectory()
        for user_id in (1, 2, 3):
            self.put_user(user_id)
        self.directory.put(UserSettings(user_id=3, channels={"push": False}))
        self.directory.caught_up = BEHIND

    def put_user(self, user_id: int) -> None:
        self.directory.put(User(user_id=user_id, club_id=7), UserSettings(user_id=user_id))

    def catch_up(self) -> None:
        self.directory.caught_up = DirectoryPosition(lsn=2, ts_ms=NOW)

    def environment(self) -> CheckPreferences:
        return CheckPreferences(
            outcome_progress=InMemoryOutcomeProgress(),
            directory=self.directory,
            clock=self.clock,
            delay_store=self.store,
            decision_log=self.log,
            frequency_caps=InMemoryFrequencyCaps(),
            digests=InMemoryDigests(),
            sends=InMemorySends(),
        )

    def released(self) -> list[dict[str, object]]:
        self.clock.advance(60)
        before = len(self.producer.produced)
        ReleaseDueRecords(
            store=self.store, sends=InMemorySends(), producer=self.producer, clock=self.clock, logger=Logger()
        ).sweep(lambda: 60)
        new = self.producer.produced[before:]
        return [
            entry(value, topic=topic, offset=100)
            for topic, _, value, _ in new
            if topics.base_of(topic) == topics.RECHECK
        ]


@pytest.mark.guarantee("cdc_behind.unknown_users_are_delayed")
def test_only_unknown_users_wait_for_the_directory() -> None:
    checker = DelayingChecker()
    assert checker.run(checker.environment(), checker.encoded(send([1, 99, 3, 98]), topics.SEND_API)) == []
    assert [build.user_ids for build in checker.builds()] == [[1]]
    assert results_of(checker.outcomes()) == {(3, "push"): ("suppressed", "opted_out")}
    (item,) = checker.store.items.values()
    assert (item.topic, item.delay_reason) == ("recheck.small", "directory")
    checker.put_user(99)
    checker.catch_up()
    checker.forget()
    (recheck,) = checker.released()
    (part,) = checker.rechecks()
    assert (part.positions, part.user_ids, part.waits, part.why) == ([1, 3], [99, 98], 1, "directory")
    checker.forget()
    assert checker.run(checker.environment(), recheck) == []
    assert [build.user_ids for build in checker.builds()] == [[99]]
    assert results_of(checker.outcomes()) == {(98, "push"): ("suppressed", "unknown_user")}


def test_delay_doubles_until_the_record_expires() -> None:
    checker = DelayingChecker()
    entries = [checker.encoded(send([99], expires_at=NOW + 15 * 60_000), topics.SEND_API)]
    waits = []
    while entries:
        assert checker.run(checker.environment(), *entries) == []
        if not checker.store.items:
            break
        (item,) = checker.store.items.values()
        waits.append(item.due_ms - checker.clock.now_ms())
        checker.clock.advance(waits[-1] / 1000 - 60)
        entries = checker.released()
    assert all(30_000 * 2**n <= wait <= 60_000 * 2**n for n, wait in enumerate(waits[:-1]))
    assert results_of(checker.outcomes()) == {(99, "push"): ("expired", "expired")}
    assert checker.clock.now_ms() == NOW + 15 * 60_000


def test_send_scheduled_ahead_is_retried_for_the_full_lifetime() -> None:
    checker = DelayingChecker()
    checker.run(checker.environment(), checker.encoded(send([1, 99], send_at=NOW + 7 * DAY), topics.SEND_API))
    checker.clock.advance(7 * DAY / 1000)
    assert checker.run(checker.environment(), *checker.released()) == []
    (item,) = checker.store.items.values()
    assert item.delay_reason == "directory"
    (build,) = checker.builds()
    assert (build.user_ids, build.since_ms) == ([1], NOW + 7 * DAY)


def test_unreachable_delay_store_doubles_no_recipient() -> None:
    checker = DelayingChecker()
    record = checker.encoded(send([1, 99]), topics.SEND_API)
    checker.store.failing = Retry("DynamoDB is down")
    assert checker.run(checker.environment(), record) == [0]
    assert checker.producer.produced == []
    checker.store.failing = None
    checker.catch_up()
    checker.put_user(99)
    assert checker.run(checker.environment(), record) == []
    assert [build.user_ids for build in checker.builds()] == [[1]]
    checker.forget()
    assert checker.run(checker.environment(), *checker.released()) == []
    assert [build.user_ids for build in checker.builds()] == [[99]]


def _all_builds(checker: DelayingChecker, *entries: dict[str, object]) -> dict[str, tuple[int, ...]]:
    """Process these records and all records derived from them. Returns the users by id of the build record."""
    todo = list(entries)
    while todo or checker.store.items:
        todo += checker.released() if not todo else []
        assert checker.run(checker.environment(), *todo[:1]) == []
        del todo[:1]
    return {build.record_id: tuple(build.user_ids) for build in checker.builds()}


@pytest.mark.guarantee("delayed.part_keeps_its_id")
@pytest.mark.kills(guard="ids.delayed_part")
def test_absent_then_partly_absent_users_are_passed_on_once() -> None:
    """The first delivery delays both users and is killed; at the second delivery the directory has one of them."""
    checker = DelayingChecker()
    record = checker.encoded(send([98, 99]), topics.SEND_API)
    checker.fuse.left = 2
    with pytest.raises(KilledError):
        checker.run(checker.environment(), record)
    assert len(checker.store.items) == 1
    checker.put_user(98)
    assert checker.run(checker.environment(), record) == []
    first_waits, again_waits = checker.store.items.values()
    whole, part = (checker.codec.decode("RecheckRequested", item.value) for item in (first_waits, again_waits))
    assert (whole["user_ids"], part["user_ids"]) == ([98, 99], [99])
    assert checker.run(checker.environment(), *checker.released()) == []
    checker.put_user(99)
    checker.catch_up()
    assert sorted(_all_builds(checker).values()) == [(98,), (99,)]


@pytest.mark.parametrize("waits", [0, 1, 5])
def test_ids_do_not_depend_on_the_number_of_delays(waits: int) -> None:
    checker = DelayingChecker()
    (chunk,) = split_parts(
        chunk_of(send([1, 99, 98]), KafkaRecord(topic="send.api", partition=0, offset=0, timestamp_ms=NOW))
    )
    asked = replace(chunk, waits=waits)
    assert checker.run(checker.environment(), checker.encoded(asked, topics.RECHECK)) == []
    (item,) = checker.store.items.values()
    part = checker.codec.decode("RecheckRequested", item.value)
    assert part["record_id"] == released_id(asked.record_id, "directory", 0, 3)
    assert part["waits"] == waits + 1


def test_record_delayed_by_the_previous_code_continues_once() -> None:
    """A record that an earlier version delayed keeps its id, which contains the number of delays."""
    checker = DelayingChecker()
    (chunk,) = split_parts(
        chunk_of(send([99, 98]), KafkaRecord(topic="send.api", partition=0, offset=0, timestamp_ms=NOW))
    )
    old_id = "3b0c2b55-5d2c-5f2f-9d0e-1f0c6f5f8f11"
    old = replace(chunk, record_id=old_id, why="directory", waits=3)
    value = checker.codec.encode(topics.RECHECK, "RecheckRequested", old.to_avro())
    checker.store.put(
        DelayedRecord(id=old_id, due_ms=NOW, topic=topics.RECHECK, value=value, delay_reason="directory"), NOW
    )
    checker.put_user(98)
    checker.put_user(99)
    checker.catch_up()
    (released,) = checker.released()
    builds = _all_builds(checker, released, released)
    assert builds == {derived_id(old_id, "build", "push", 0, 2): (99, 98)}


def test_delayed_part_keeps_the_id_of_earlier_versions() -> None:
    """A redelivery must not store a part again under another id than an earlier version did."""
    previous = str(uuid5(NAMESPACE, "parent/released.directory/1/0-500"))
    assert released_id("parent", "directory", 0, 500) == previous


@pytest.mark.parametrize("send_at", [None, NOW + 3_600_000])
def test_users_of_one_chunk_id_are_delayed_separately(send_at: int | None) -> None:
    """If a producer uses a chunk index twice, both delayed records are kept."""
    checker = DelayingChecker()
    for user_id in (98, 99):
        record = checker.encoded(send([user_id], send_at=send_at), topics.SEND_API)
        assert checker.run(checker.environment(), record) == []
    delayed = [
        checker.codec.decode("RecheckRequested", item.value)["user_ids"] for item in checker.store.items.values()
    ]
    assert sorted(delayed) == [[98], [99]]


@pytest.mark.guarantee("cdc_behind.crash_loses_no_recipient")
@pytest.mark.parametrize("users", [[1, 99, 3], [99], [99, 98], [1, 2]])
@pytest.mark.parametrize("kill_at", range(1, 16))
@pytest.mark.parametrize("catches_up", ["at once", "after the first release"])
def test_kill_at_any_step_ends_each_user_once(users: list[int], kill_at: int, catches_up: str) -> None:
    checker = DelayingChecker(kill_at)
    todo = [checker.encoded(send(users), topics.SEND_API)]
    releases = 0
    while todo or checker.store.items:
        try:
            if todo:
                if checker.run(checker.environment(), todo[0]) == []:
                    todo.pop(0)
            else:
                releases += 1
                todo += checker.released()
        except KilledError:
            pass
        if catches_up == "at once" or releases > 1:
            checker.put_user(99)
            checker.catch_up()
    builds = {build.record_id: tuple(build.user_ids) for build in checker.builds()}
    assert len({(build.record_id, tuple(build.user_ids)) for build in checker.builds()}) == len(builds)
    outcomes = {outcome.record_id: outcome for outcome in checker.outcomes()}.values()
    ends = Counter(user_id for ids in builds.values() for user_id in ids)
    ends.update(user_id for user_id, _ in results_of(outcomes))
    assert ends == dict.fromkeys(users, 1)
    assert {user_id for user_id, _ in results_of(outcomes)} <= {3, 98}
