"""One send through preference_checker, builder, delivery and the scheduler, until each notification has ended."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from masscomm.chain.batch import UseCase
from masscomm.directory.port import Directory
from masscomm.domain.records import NotificationOutcome, SendRequested
from masscomm.domain.statuses import RANK, Status
from masscomm.kafka import topics
from masscomm.rendering.templates import TemplateCache
from tests.support.harness.chain import entry
from tests.support.harness.whole_chain import ThreeSteps

type Ends = dict[tuple[int, str], tuple[str, str | None]]


class SettledChain(ThreeSteps):
    """The functions without faults.

    Args:
        other: Another directory than the one in memory.
    """

    def __init__(self, other: Directory | None = None) -> None:
        super().__init__()
        self.read_from: Directory = other or self.directory
        self.checker = replace(self.checker, directory=self.read_from)
        templates = TemplateCache(self.read_from, self.clock)
        self.builder = replace(self.builder, directory=self.read_from, templates=templates)
        self.use_case = self.environment(self.ledger, directory=self.read_from)

    def settle(self, records: Sequence[SendRequested], topic: str) -> Ends:
        """Process the records of a send, and release delayed records at their times. Return (user, channel) → (status,
        reason) of the last status.
        """
        for offset, record in enumerate(records):
            assert self.run(self.checker, self.encoded(record, topic, offset=offset)) == []
        consumed = dict.fromkeys((topics.RECHECK, topics.BUILD, topics.DELIVERY), 0)
        use_cases: dict[str, UseCase[Any]] = {
            topics.RECHECK: self.checker,
            topics.BUILD: self.builder,
            topics.DELIVERY: self.use_case,
        }
        while True:
            for name, use_case in use_cases.items():
                new = self.produced_to(name)[consumed[name] :]
                consumed[name] += len(new)
                for offset, (lane, value) in enumerate(new):
                    assert self.run(use_case, entry(value, topic=lane, offset=offset)) == []
            if any(len(self.produced_to(name)) > count for name, count in consumed.items()):
                continue
            if not self.delay_store.items:
                return ends_of(self.outcomes())
            item = min(self.delay_store.items.values(), key=lambda each: each.due_ms)
            self.clock.advance(max(0, item.due_ms - self.clock.now_ms()) / 1000)
            self.delay_store.done(item)
            use_case = use_cases[topics.base_of(item.topic)]
            assert self.run(use_case, entry(item.value, topic=item.topic, offset=900)) == []

    def produced_to(self, topic: str) -> list[tuple[str, bytes]]:
        """Return (topic with lane, value) of the records that were produced to a topic in any lane."""
        found = ((name, value or b"") for name, _, value, _ in self.producer.produced)
        return [(name, value) for name, value in found if topics.base_of(name) == topic]


def ends_of(outcomes: Sequence[NotificationOutcome]) -> Ends:
    """Return (user, channel) → (status, reason) of the status with the highest rank."""
    found: Ends = {}
    for outcome in outcomes:
        for user_id, place in zip(outcome.user_ids, outcome.result_index, strict=True):
            result = outcome.results[place]
            known = found.get((user_id, outcome.channel))
            if known is None or RANK[Status(result.status)] > RANK[Status(known[0])]:
                found[user_id, outcome.channel] = (result.status, result.reason)
    return found
