"""The batch driver of the Kafka-triggered functions that produce records.

    decode each record → the use case handles them, sharing its look-ups → produce → one flush → each record's fate

A record succeeds when everything that was produced for it is acknowledged, its dead letter included. It comes again
(batchItemFailures) when it or anything it depends on said Retry, when a report was bad, or when time ran out. A
per-record processor could not do this: it would call a record done before the flush.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from aws_lambda_powertools import Logger

from masscomm.directory.port import Directory
from masscomm.domain.outcomes import RecipientOutcome, outcome
from masscomm.domain.records import AvroRecord, BuildRequested, DeliveryRequested, NotificationOutcome, RecheckRequested
from masscomm.domain.statuses import Status
from masscomm.errors import DeadLetter, Retry, Stop
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, UnknownSchema
from masscomm.kafka.dead_letter_alarm import DeadLetterAlarm
from masscomm.kafka.dead_letters import dead_letter_headers
from masscomm.kafka.denied_ids import DeniedIds
from masscomm.kafka.event import KafkaRecord, batch_response, parse
from masscomm.kafka.producer import Headers, Producer
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs, metrics, traces
from masscomm.observability.metric_names import DEAD_LETTERS, RECIPIENTS, RECORDS_FAILED, RECORDS_IN, RECORDS_OUT

# Kept back from the remaining time for the flush and the answer.
_FLUSH_RESERVE_S = 2.0
# As long as a directory may wait for change data capture.
_CONFIRM_S = 5.0


@dataclass
class Item[T]:
    """A record on its way through the batch, with what it decoded to; span: what is done about it, for its trace."""

    record: KafkaRecord
    value: T
    error: Exception | None = None
    span: traces.Span | None = None

    @property
    def trace_headers(self) -> Headers:
        """The trace headers of every record produced for this item, delayed records included."""
        return self.span.trace.headers if self.span is not None else []


@dataclass
class Batch[T]:
    """What a use case works with: the decoded items, and where to put what it makes of them.

    An item with an error is out: `active` leaves it aside, nothing more is produced for it.
    """

    items: list[Item[T]]
    codec: Codec
    producer: Producer
    remaining_s: Callable[[], float]
    _behind: tuple[int, Retry] | None = field(default=None, init=False)

    def active(self) -> list[Item[T]]:
        """The items that may still succeed."""
        return [item for item in self.items if item.error is None]

    def produce(self, item: Item[T], topic: str, key: str, record: AvroRecord, headers: Headers | None = None) -> None:
        """Produce a record on an item's behalf, of its trace; the item's fate hangs on its report.

        Errors: Retry (the registry cannot be asked), Stop (the schema is not deployed).
        """
        value = self.codec.encode(topic, type(record).__name__, record.to_avro())

        def report(error: Exception | None) -> None:
            item.error = item.error or error  # guard: batch.delivery_report
            if error is None:
                metrics.add(RECORDS_OUT)

        carried = list(headers or [])
        if traces.of_headers(carried) is None:
            carried += item.trace_headers
        self.producer.produce(topic, key.encode(), value, carried, report)

    def emit_outcomes(
        self,
        item: Item[T],
        parent: RecheckRequested | BuildRequested | DeliveryRequested,
        outcomes: Sequence[RecipientOutcome],
        *,
        step: str,
        channel: str,
        start: int,
        end: int,
        now_ms: int,
        directory: Directory,
    ) -> None:
        """Produce the outcome record of recipients in positions [start, end) of the parent; nothing where there are
        none.

        Errors: those of produce.
        """
        if outcomes:
            record = outcome(
                parent,
                outcomes,
                channel=channel,
                step=step,
                start=start,
                end=end,
                now_ms=now_ms,
                directory=directory.position(),
            )
            self.produce(item, topics.OUTCOME, record.record_id, record)
            count(record)

    def confirm(self, directory: Directory, ts_ms: int) -> None:
        """directory.confirm, while there is time to wait for it; what was waited for in vain is not waited for again.

        Errors: Retry.
        """
        if self._behind is not None and ts_ms >= self._behind[0]:
            raise self._behind[1]
        if not directory.is_confirmed(ts_ms) and self.remaining_s() < _CONFIRM_S:
            raise Retry("the invocation's time is used up before the directory could be waited for")
        try:
            directory.confirm(ts_ms)
        except Retry as error:
            self._behind = (ts_ms, error)
            raise

    def attempt(self, item: Item[T], work: Callable[[], None]) -> None:
        """Do an item's work so that whatever goes wrong concerns this item alone, but for Stop."""
        if item.error is not None:
            return
        if self.remaining_s() <= 0:
            item.error = Retry("the invocation's time is used up")
            return
        try:
            with logs.about(_ids(item.record, item)):
                work()
        except Stop:
            raise
        except Exception as error:
            item.error = error


class UseCase[T](Protocol):
    """A function's own part: what a record means, and what becomes of a batch of them."""

    def decode(self, record: KafkaRecord, codec: Codec) -> T:
        """Errors: DeadLetter, Retry."""
        ...

    def handle(self, batch: Batch[T]) -> None:
        """Work on batch.active(), through batch.attempt where a fault may concern one item.

        Errors: Retry for everything still active; DeadLetter is an item's own.
        """
        ...

    def dead_lettered(self, batch: Batch[T], item: Item[T], why: DeadLetter) -> None:
        """Produce the outcomes of a record that could be read and goes to dead-letter all the same."""
        ...


@dataclass(frozen=True, kw_only=True)
class BatchDriver:
    """One for each function, kept for all its invocations; without an alarm dead letters are logged one by one only.

    denied_ids: how long records of schemas that the registry denies come again.
    """

    function: str
    codec: Codec
    producer: Producer
    logger: Logger = field(default_factory=lambda: logs.logger("masscomm"))
    alarm: DeadLetterAlarm | None = None
    denied_ids: DeniedIds = field(default_factory=DeniedIds)

    def run[T](self, event: Mapping[str, Any], context: LambdaContext, use_case: UseCase[T]) -> dict[str, Any]:
        """The partial batch response to an aws:kafka event; where we are misconfigured, everything comes again.

        Errors: ValueError (not such an event).
        """
        records = parse(event)
        metrics.add(RECORDS_IN, len(records))
        try:
            return self._run(records, context, use_case)
        except Stop as error:
            return stopped(records, error, self.logger)

    def _run[T](self, records: Sequence[KafkaRecord], context: LambdaContext, use_case: UseCase[T]) -> dict[str, Any]:
        failed: list[tuple[KafkaRecord, Exception]] = []
        dead: list[tuple[KafkaRecord, DeadLetter]] = []
        batch: Batch[T] = Batch(
            items=[],
            codec=self.codec,
            producer=self.producer,
            remaining_s=lambda: context.get_remaining_time_in_millis() / 1000 - _FLUSH_RESERVE_S,
        )
        self._decode(batch, records, use_case, failed, dead, context)
        items = batch.items
        try:
            use_case.handle(batch)
        except Stop:
            raise
        except Exception as error:
            _fail_all(batch, error)
        self._flush(context)
        stand_ins = self._put_items_aside(batch, use_case, failed, dead)
        if stand_ins:
            self._flush(context)
        failed += _errors(item for item in items if not isinstance(item.error, DeadLetter))
        failed += _errors(stand_ins)
        again = _in_order(records, failed)
        # One that was not acknowledged on its topic comes again, and is counted then.
        put_aside = [why.reason for record, why in dead if record not in again]
        metrics.add(RECORDS_FAILED, len(again))
        metrics.add(DEAD_LETTERS, len(put_aside))
        if self.alarm is not None:
            self.alarm.count(put_aside)
        by_place = {item.record.position: item for item in items}
        self._log(failed, by_place)
        _end_spans(items, failed)
        return batch_response(again)

    def _decode[T](
        self,
        batch: Batch[T],
        records: Sequence[KafkaRecord],
        use_case: UseCase[T],
        failed: list[tuple[KafkaRecord, Exception]],
        dead: list[tuple[KafkaRecord, DeadLetter]],
        context: LambdaContext,
    ) -> None:
        """Fill the batch; a record that does not decode goes aside or comes again, and stops none of the others."""
        for record in records:
            if batch.remaining_s() <= 0:  # a registry that does not answer costs its time-out for each record
                failed.append((record, Retry("the invocation's time is used up")))
                continue
            try:
                with logs.about(_ids(record)):
                    item = Item(record, use_case.decode(record, self.codec))
                item.span = self._begun(item, context)
                batch.items.append(item)
            except DeadLetter as error:
                # guard: registry.denied_id_is_retried
                if isinstance(error, UnknownSchema) and self.denied_ids.is_asked_again(
                    error.schema_id, timestamp_ms=record.timestamp_ms
                ):
                    failed.append((record, Retry(f"{error}; it is asked again for {self.denied_ids.retry_s:.0f} s")))
                    continue
                dead.append((record, error))
                self._put_aside(record, error, failed)  # guard: dead_letters.undecodable_record
            except Stop:
                raise
            except Exception as error:
                failed.append((record, error))

    def _begun[T](self, item: Item[T], context: LambdaContext) -> traces.Span | None:
        """The span of what is done now: under the one that made the record, or the first of its send's trace.

        None for what is of no send and no trace: a change of a row would be a trace of one span.
        """
        ids = logs.ids_of(item.value)
        above = traces.of_headers(item.record.headers)
        if above is None and "send_id" in ids:
            above = traces.begun_by(ids["send_id"])
        if above is None:
            return None
        request_id = getattr(context, "aws_request_id", None)
        return traces.begin(self.function, above, **ids, position=item.record.position, request_id=request_id)

    def _flush(self, context: LambdaContext) -> None:
        self.producer.flush(max(0.1, context.get_remaining_time_in_millis() / 1000 - _FLUSH_RESERVE_S / 2))

    def _put_aside[T](
        self,
        record: KafkaRecord,
        why: DeadLetter,
        failed: list[tuple[KafkaRecord, Exception]],
        item: Item[T] | None = None,
    ) -> None:
        """To the dead-letter topic; a record that is not acknowledged there comes again instead of vanishing."""
        with logs.about(_ids(record, item)):
            self.logger.warning("dead letter", reason=why.reason, error=str(why))

        def report(error: Exception | None) -> None:
            if error is not None:
                failed.append((record, error))

        headers = dead_letter_headers(record, why, self.function)
        if item is not None and item.span is not None:
            headers = list(traces.replaced(headers, item.span.trace))
        self.producer.produce(topics.DEAD_LETTER, record.key, record.value, headers, report)

    def _put_items_aside[T](
        self,
        batch: Batch[T],
        use_case: UseCase[T],
        failed: list[tuple[KafkaRecord, Exception]],
        dead: list[tuple[KafkaRecord, DeadLetter]],
    ) -> list[Item[T]]:
        """Dead-letter the items that asked for it; answers the stand-ins on which their outcomes' reports land."""
        stand_ins = []
        for item in batch.items:
            if isinstance(item.error, DeadLetter):
                dead.append((item.record, item.error))
                self._put_aside(item.record, item.error, failed, item)
                stand_in = Item(item.record, item.value, span=item.span)
                why = item.error
                # guard: dead_letters.outcomes
                batch.attempt(stand_in, partial(use_case.dead_lettered, batch, stand_in, why))
                stand_ins.append(stand_in)
        return stand_ins

    def _log[T](self, failed: Sequence[tuple[KafkaRecord, Exception]], items: Mapping[str, Item[T]]) -> None:
        for record, error in failed:
            expected = isinstance(error, Retry)
            with logs.about(_ids(record, items.get(record.position))):
                self.logger.warning(
                    "record comes again",
                    error=str(error) if expected else repr(error),
                    exc_info=None if expected else error,
                )


def count(record: NotificationOutcome) -> None:
    """Count an outcome record's recipients by status."""
    for result in record.results:
        metrics.add(RECIPIENTS[Status(result.status)], result.count)


def stopped(records: Iterable[KafkaRecord], error: Stop, logger: Logger) -> dict[str, Any]:
    """The answer of a function that is misconfigured: all of them again, until an operator has acted.

    An error instead would say the same of every record as of one that crashes its function.
    """
    logger.critical("misconfigured: nothing goes on until somebody acts", error=str(error), exc_info=error)
    return batch_response(records)


def _ids[T](record: KafkaRecord, item: Item[T] | None = None) -> dict[str, Any]:
    """What every line about a record says."""
    ids = {"position": record.position}
    if item is not None:
        ids |= logs.ids_of(item.value)
        if item.span is not None:
            ids["trace_id"] = item.span.trace.trace_id
    return ids


def _end_spans[T](items: Iterable[Item[T]], failed: Iterable[tuple[KafkaRecord, Exception]]) -> None:
    """Each record's, with what became of it; a dead letter's says its reason."""
    again = {record.position: str(error) or repr(error) for record, error in failed}
    for item in items:
        if item.span is not None:
            error = again.get(item.record.position)
            if error is None and isinstance(item.error, DeadLetter):
                error = f"dead letter: {item.error.reason}: {item.error}"
            traces.end(item.span, error)


def _errors[T](items: Iterable[Item[T]]) -> list[tuple[KafkaRecord, Exception]]:
    return [(item.record, item.error) for item in items if item.error is not None]


def _fail_all[T](batch: Batch[T], error: Exception) -> None:
    for item in batch.active():
        item.error = error if not isinstance(error, DeadLetter) else Retry(f"{error.reason}: {error}")


def _in_order(records: Sequence[KafkaRecord], failed: Sequence[tuple[KafkaRecord, Exception]]) -> list[KafkaRecord]:
    """Each failed record once, in the event's order."""
    places = {(record.topic, record.partition, record.offset) for record, _ in failed}
    return [record for record in records if (record.topic, record.partition, record.offset) in places]
