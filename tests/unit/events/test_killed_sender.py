"""webhook_sender is killed at each step of a batch, which is cut anew before it is processed again: every message is
delivered, and counted once.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from masscomm.domain.records import WebhookRequested
from masscomm.kafka import topics
from masscomm.stores.in_memory import InMemoryStore
from tests.support.harness.events import Killed, WebhookSender, occurred
from tests.support.harness.webhooks import KEY, answer, key, url_of

FAILING, BATCHED, DISABLED = key(8), key(9), key(10)
PER_RECORD = 4


class KilledSender(WebhookSender):
    """The function, whose process is killed before a request to one of its stores."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(pool=ThreadPoolExecutor(1), **settings)
        self._left: int | None = None
        stores: list[InMemoryStore] = [self.delayed, self.sent, self.given_up, self.endpoints, self.queues]
        for store in stores:
            store.request = self._request  # type: ignore[assignment, method-assign]
        # The statuses of each attempt: (endpoint, event, attempt), by the id of the record that counts them.
        self.counted: dict[str, list[tuple[str, str, int, str]]] = {}

    def _request(self, _method: str) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise Killed

    def killed(self, after: int, *requests: WebhookRequested) -> bool:
        """Process records until so many requests were made. Return whether the process was killed."""
        self._left = after
        try:
            self.send(*requests)
        except Killed:
            return True
        finally:
            self.use_case.pool.submit(int).result()  # The last request of a thread has ended.
            self._left = None
        return False

    def count(self) -> None:
        """Release the results to the metrics job, which counts a record once."""
        for record in self._outcomes():
            endpoints = [record.endpoints[place] for place in record.endpoint_index]
            result = list(zip(endpoints, record.event_id, record.attempt, record.status, strict=True))
            assert self.counted.setdefault(record.record_id, result) == result
        for delayed in self._delayed(topics.WEBHOOK_OUTCOME):
            self.delayed.done(delayed)

    def all_results(self) -> list[tuple[str, str, int, str]]:
        """Return the endpoint, event, attempt and status of each counted result."""
        return [row for rows in self.counted.values() for row in rows]


def batch(sender: WebhookSender) -> list[WebhookRequested]:
    return [
        sender.request(
            [occurred(f"e{number}", key="k") for number in range(start, start + PER_RECORD)],
            [KEY, FAILING, BATCHED, DISABLED],
        )
        for start in (0, PER_RECORD, 2 * PER_RECORD)
    ]


def scenario(after: int, *, is_released: bool, ordered: bool) -> tuple[KilledSender, bool]:
    """Return the function after a kill and the end of its batch, and whether it was killed."""
    sender = KilledSender(unrecorded=5)
    sender.endpoint(KEY, ordered_since_ms=1 if ordered else None, max_count=2 if ordered else 1)
    sender.endpoint(FAILING, max_count=1)
    sender.endpoint(BATCHED, max_count=3)
    sender.endpoint(DISABLED, enabled=False)
    sender.http.answers[url_of(FAILING)] = [answer(500), answer(200)]
    requests = batch(sender)
    is_killed = sender.killed(after, *requests)
    if is_killed:
        if is_released:
            sender.count()
            if sender.waiting():
                sender.retry()
        assert sender.send(*requests[:2]) == []
        assert sender.send(*requests) == []
    while sender.waiting():
        assert sender.retry() == []
    sender.count()
    return sender, is_killed


@pytest.mark.guarantee("events.counted_once")
@pytest.mark.kills(guard="events.records_left_out")
@pytest.mark.parametrize("is_released", [pytest.param(False, marks=pytest.mark.nightly), True])
@pytest.mark.parametrize("ordered", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_kill_at_each_step_counts_each_message_once(*, is_released: bool, ordered: bool) -> None:
    events = {f"e{number}" for number in range(3 * PER_RECORD)}
    delivered = {(endpoint.id, event) for endpoint in (KEY, FAILING, BATCHED) for event in events}
    given_up = {(DISABLED.id, event) for event in events}
    after, is_killed = 0, True
    while is_killed:
        sender, is_killed = scenario(after, is_released=is_released, ordered=ordered)
        rows = sender.all_results()
        attempts = Counter((endpoint, event, attempt) for endpoint, event, attempt, _ in rows)
        assert max(attempts.values()) == 1, after
        ends = sorted((endpoint, event, status) for endpoint, event, _, status in rows if status != "retried")
        expected = [(*each, "delivered") for each in delivered] + [(*each, "given_up") for each in given_up]
        assert ends == sorted(expected), after
        assert {each.event.event_id for each in sender.given_up.stored.values()} == events
        after += 1
    assert after > 20
