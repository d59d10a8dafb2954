"""The batch driver of the Kafka-triggered functions that produce records.

    decode each record → the use case handles them with shared look-ups → produce → one flush → one result a record

A record succeeds when Kafka acknowledged every record produced for it, its dead letter included. It is redelivered
(batchItemFailures) after a Retry, a failed delivery report, or when time ran out. A per-record processor could not do
this: it would call a record done before the flush.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from aws_lambda_powertools import Logger

from masscomm.directory.port import Directory
from masscomm.domain.records import AvroRecord
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
from masscomm.observability.metric_names import DEAD_LETTERS, RECORDS_FAILED, RECORDS_IN, RECORDS_OUT

# Part of the remaining time that is reserved for the flush and the response.
_FLUSH_RESERVE_S = 2.0
# As long as a directory may wait for change data capture.
_CONFIRM_S = 5.0


@dataclass
class Item[T]:
    """A record of the batch with its decoded value; span: of its processing, in its trace."""

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
    """The decoded items of an invocation, and the producer for the records derived from them.

    An item with an error has failed: `active` skips it, and nothing more is produced for it.
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
        """Produce a record for an item, in its trace; the item fails if the delivery report is an error.

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

    def confirm(self, directory: Directory, ts_ms: int) -> None:
        """Call directory.confirm if time remains; a time that was not confirmed once is not waited for a second time.

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
        """Do an item's work; an error fails this item alone, except Stop, which is raised."""
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
    """A function's own part: decode a record, handle a batch."""

    def decode(self, record: KafkaRecord, codec: Codec) -> T:
        """Errors: DeadLetter, Retry."""
        ...

    def handle(self, batch: Batch[T]) -> None:
        """Process batch.active(), through batch.attempt where an error may concern one item.

        Errors: Retry for everything still active; DeadLetter is an item's own.
        """
        ...

    def dead_lettered(self, batch: Batch[T], item: Item[T], why: DeadLetter) -> None:
        """Produce the outcomes of a decoded record that is dead-lettered."""
        ...


@dataclass
class _Result[T]:
    """The result of a record: done, or dead-lettered, or retried where it has an error, the dead letter's included."""

    record: KafkaRecord
    # None where it was not decoded. Its error, by then, is the result's.
    item: Item[T] | None = None
    dead_letter: DeadLetter | None = None
    error: Exception | None = None

    def settle(self) -> None:
        """Take the item's error, after the last delivery report."""
        if self.item is not None:
            self.error = self.error or self.item.error


@dataclass(frozen=True, kw_only=True)
class BatchDriver:
    """One for each function environment; without an alarm, each dead letter is only logged.

    denied_ids: how long records with schema ids that the registry denies are redelivered.
    """

    function: str
    codec: Codec
    producer: Producer
    logger: Logger = field(default_factory=lambda: logs.logger("masscomm"))
    alarm: DeadLetterAlarm | None = None
    denied_ids: DeniedIds = field(default_factory=DeniedIds)

    def run[T](self, event: Mapping[str, Any], context: LambdaContext, use_case: UseCase[T]) -> dict[str, Any]:
        """Return the partial batch response to an aws:kafka event; after a Stop, all records are redelivered.

        Errors: ValueError (not such an event).
        """
        records = parse(event)
        metrics.add(RECORDS_IN, len(records))
        try:
            return self._run(records, context, use_case)
        except Stop as error:
            return redeliver_all(records, error, self.logger)

    def _run[T](self, records: Sequence[KafkaRecord], context: LambdaContext, use_case: UseCase[T]) -> dict[str, Any]:
        batch: Batch[T] = Batch(
            items=[],
            codec=self.codec,
            producer=self.producer,
            remaining_s=lambda: context.get_remaining_time_in_millis() / 1000 - _FLUSH_RESERVE_S,
        )
        results = [self._decode(batch, record, use_case, context) for record in records]
        batch.items += [result.item for result in results if result.item is not None]
        try:
            use_case.handle(batch)
        except Stop:
            raise
        except Exception as error:
            _fail_all(batch, error)
        self._flush(context)
        dead_lettered = [result for result in results if self._dead_letter_item(batch, result, use_case)]
        if dead_lettered:
            self._flush(context)
        for result in results:
            result.settle()
        self._report(results)
        return batch_response(result.record for result in results if result.error is not None)

    def _report[T](self, results: Sequence[_Result[T]]) -> None:
        """Count and log the results, and end the spans."""
        # A dead letter that Kafka did not acknowledge is redelivered, and counted then.
        reasons = [each.dead_letter.reason for each in results if each.dead_letter is not None and each.error is None]
        metrics.add(RECORDS_FAILED, sum(result.error is not None for result in results))
        metrics.add(DEAD_LETTERS, len(reasons))
        if self.alarm is not None:
            self.alarm.count(reasons)
        for result in results:
            if result.error is not None:
                self._log(result, result.error)
            _end_span(result)

    def _decode[T](
        self, batch: Batch[T], record: KafkaRecord, use_case: UseCase[T], context: LambdaContext
    ) -> _Result[T]:
        """Decode a record; one that does not decode is dead-lettered or retried, the others are processed."""
        if batch.remaining_s() <= 0:  # each record costs a time-out while the registry does not respond
            return _Result(record, error=Retry("the invocation's time is used up"))
        try:
            with logs.about(_ids(record)):
                item = Item(record, use_case.decode(record, self.codec))
            item.span = self._begin_span(item, context)
            return _Result(record, item)
        except DeadLetter as error:
            # guard: registry.denied_id_is_retried
            if isinstance(error, UnknownSchema) and self.denied_ids.is_retried(
                error.schema_id, timestamp_ms=record.timestamp_ms
            ):
                return _Result(record, error=Retry(f"{error}; retried for {self.denied_ids.retry_s:.0f} s"))
            result: _Result[T] = _Result(record)
            self._dead_letter(result, error)  # guard: dead_letters.undecodable_record
            return result
        except Stop:
            raise
        except Exception as error:
            return _Result(record, error=error)

    def _begin_span[T](self, item: Item[T], context: LambdaContext) -> traces.Span | None:
        """Begin the span of a record's processing, below the span that produced it or as the first of its send's trace.

        None for a record without send and trace: a row change would be a trace of one span.
        """
        ids = logs.ids_of(item.value)
        parent_trace = traces.of_headers(item.record.headers)
        if parent_trace is None and "send_id" in ids:
            parent_trace = traces.begun_by(ids["send_id"])
        if parent_trace is None:
            return None
        request_id = getattr(context, "aws_request_id", None)
        return traces.begin(
            self.function, parent_trace, **ids, position=item.record.source_position, request_id=request_id
        )

    def _flush(self, context: LambdaContext) -> None:
        self.producer.flush(max(0.1, context.get_remaining_time_in_millis() / 1000 - _FLUSH_RESERVE_S / 2))

    def _dead_letter[T](self, result: _Result[T], why: DeadLetter) -> None:
        """Produce a record to the dead-letter topic; if Kafka does not acknowledge it there, it is redelivered."""
        record, item = result.record, result.item
        result.dead_letter = why
        with logs.about(_ids(record, item)):
            self.logger.warning("dead letter", reason=why.reason, error=str(why))

        def report(error: Exception | None) -> None:
            result.error = result.error or error

        headers = dead_letter_headers(record, why, self.function)
        if item is not None and item.span is not None:
            headers = list(traces.replaced(headers, item.span.trace))
        self.producer.produce(topics.DEAD_LETTER, record.key, record.value, headers, report)

    def _dead_letter_item[T](self, batch: Batch[T], result: _Result[T], use_case: UseCase[T]) -> bool:
        """Dead-letter a record whose item has a DeadLetter error; returns whether it has.

        The item is replaced by one without an error, which collects the delivery reports of its outcomes.
        """
        item = result.item
        if item is None or not isinstance(item.error, DeadLetter):
            return False
        why = item.error
        self._dead_letter(result, why)
        result.item = stand_in = Item(item.record, item.value, span=item.span)
        batch.attempt(stand_in, partial(use_case.dead_lettered, batch, stand_in, why))  # guard: dead_letters.outcomes
        return True

    def _log[T](self, result: _Result[T], error: Exception) -> None:
        expected = isinstance(error, Retry)
        with logs.about(_ids(result.record, result.item)):
            self.logger.warning(
                "record is redelivered",
                error=str(error) if expected else repr(error),
                exc_info=None if expected else error,
            )


def redeliver_all(records: Iterable[KafkaRecord], error: Stop, logger: Logger) -> dict[str, Any]:
    """Return the response of a misconfigured function: all records are redelivered until an operator has acted.

    Raising an error instead would count against every record as if the record crashed the function.
    """
    logger.critical(
        "misconfigured: all records are redelivered until an operator acts", error=str(error), exc_info=error
    )
    return batch_response(records)


def _ids[T](record: KafkaRecord, item: Item[T] | None = None) -> dict[str, Any]:
    """The ids on every log line about a record."""
    ids = {"position": record.source_position}
    if item is not None:
        ids |= logs.ids_of(item.value)
        if item.span is not None:
            ids["trace_id"] = item.span.trace.trace_id
    return ids


def _end_span[T](result: _Result[T]) -> None:
    """End the span of a record with its error; a dead letter's span has its reason."""
    if result.item is None or result.item.span is None:
        return
    error = None if result.error is None else str(result.error) or repr(result.error)
    if error is None and result.dead_letter is not None:
        error = f"dead letter: {result.dead_letter.reason}: {result.dead_letter}"
    traces.end(result.item.span, error)


def _fail_all[T](batch: Batch[T], error: Exception) -> None:
    for item in batch.active():
        item.error = error if not isinstance(error, DeadLetter) else Retry(f"{error.reason}: {error}")
