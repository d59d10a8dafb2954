"""Release what is due: on its topic first, forgotten then."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import batched, chain
from typing import Any

from aws_lambda_powertools import Logger

from masscomm.clock import Clock
from masscomm.errors import MasscommError
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Producer
from masscomm.observability import logs, metrics, traces
from masscomm.observability.metric_names import BACKLOG, NOT_RELEASED, OLDEST_DUE, RELEASED, UNREADABLE
from masscomm.stores.delayed_records import DELAY_REASON_HEADER, DelayedRecord, DelayStore, UnreadableRecord, releasable

# Claimed, produced and flushed together: few round trips, and little to do again where a sweep dies.
_AT_ONCE = 50
# Kept back from the remaining time for a flush and for telling the store.
_RESERVE_S = 20.0
_FLUSH_S = 15.0


@dataclass(frozen=True, kw_only=True)
class Swept:
    """One sweep: records released, not acknowledged by Kafka, claimed by another sweep; complete: all that was due.

    unreadable: copies that stay where they are until somebody acts or they expire.
    """

    released: int = 0
    failed: int = 0
    claimed_by_others: int = 0
    unreadable: int = 0
    complete: bool = True


@dataclass(frozen=True, kw_only=True)
class ReleaseDue:
    """The use case; one for each function environment. codec: to say in a log line whose record it is about."""

    store: DelayStore
    producer: Producer
    clock: Clock
    logger: Logger
    codec: Codec | None = None

    def sweep(self, remaining_s: Callable[[], float]) -> Swept:
        """Release everything due by now, critical records of all minutes first.

        A sweep that ends early, or two at once, do no harm. Errors: Retry, Stop.
        """
        released = failed = others = left = unreadable = 0
        complete = True
        began_ms = oldest_ms = self.clock.now_ms()
        # guard: delay_store.critical_first
        lanes = (batched(self.store.due(began_ms, critical=lane), _AT_ONCE, strict=False) for lane in (True, False))
        for found in chain.from_iterable(lanes):
            group = [item for item in found if isinstance(item, DelayedRecord)]
            unreadable += self._log_unreadable(found)
            oldest_ms = min([oldest_ms, *(item.due_ms for item in group)])
            if remaining_s() < _RESERVE_S:
                complete, left = False, len(group)
                break
            # guard: delay_store.one_sweep
            mine = [item for item in group if self._may_go(item) and self.store.claim(item, self.clock.now_ms())]
            done = self._produce(mine)
            for item in done:
                self.store.done(item)
            released += len(done)
            failed += len(mine) - len(done)
            others += len(group) - len(mine)
        metrics.add(RELEASED, released)
        metrics.add(NOT_RELEASED, failed)
        metrics.add(BACKLOG, failed + others + left)
        metrics.add(OLDEST_DUE, (began_ms - oldest_ms) / 1000)
        metrics.add(UNREADABLE, unreadable)
        swept = Swept(
            released=released, failed=failed, claimed_by_others=others, unreadable=unreadable, complete=complete
        )
        self.logger.info("swept", **asdict(swept))
        return swept

    def _log_unreadable(self, found: Iterable[DelayedRecord | UnreadableRecord]) -> int:
        """How many of them cannot be read."""
        unreadable = [item for item in found if isinstance(item, UnreadableRecord)]
        for item in unreadable:
            bucket, key = item.key
            self.logger.error("a delayed record cannot be read", due_bucket=bucket, id=key, error=item.error)
        return len(unreadable)

    def _may_go(self, item: DelayedRecord) -> bool:
        """The last look before a topic is written to, whoever put the item there."""
        if item.topic in releasable():
            return True
        with logs.about(self._ids(item)):
            self.logger.error("nothing is released to this topic", topic=item.topic)
        return False

    def _ids(self, item: DelayedRecord) -> dict[str, Any]:
        """Whose it is, as far as it can be read."""
        schema = next((topic.schema for topic in topics.chain_topics() if topic.name == item.topic), None)
        ids: dict[str, Any] = {"record_id": item.id}
        if self.codec is not None and schema is not None:
            with suppress(MasscommError):  # it goes on, or waits, whether it can be read here or not
                value = self.codec.decode(schema, item.value)
                ids |= {name: value[name] for name in logs.IDS if value.get(name) is not None}
        return ids

    def _produce(self, items: list[DelayedRecord]) -> list[DelayedRecord]:
        """Return the items that Kafka acknowledged; the others are released again when their claim has lapsed."""
        done: list[DelayedRecord] = []

        def reporting(item: DelayedRecord, span: traces.Span | None) -> Callable[[Exception | None], None]:
            def report(error: Exception | None) -> None:
                if span is not None:
                    traces.end(span, None if error is None else str(error))
                if error is None:
                    done.append(item)
                else:
                    with logs.about(self._ids(item)):
                        self.logger.warning("not released", topic=item.topic, error=str(error))

            return report

        for item in items:
            above = traces.of_headers(item.headers)
            span = None if above is None else traces.begin("scheduler", above, record_id=item.id, why=item.delay_reason)
            carried = item.headers if span is None else traces.replaced(item.headers, span.trace)
            headers = [*carried, (DELAY_REASON_HEADER, item.delay_reason.encode())]
            self.producer.produce(item.topic, item.id.encode(), item.value, headers, reporting(item, span))
        self.producer.flush(_FLUSH_S)
        return done
