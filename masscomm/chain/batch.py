"""Processes the batch of a Kafka-triggered Lambda function that produces records.

decode each record → the function's use case handles all of them with shared look-ups → produce → one flush → one result
per record

A record succeeds if Kafka has acknowledged every record produced for it, its dead letter included. A record is returned
in batchItemFailures and consumed again after a Retry error, after a failed delivery report, or if the time ran out. A
processor that handles one record at a time could not do this: it would report success before the flush.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from aws_lambda_powertools import Logger

from masscomm.chain.result_writer import ResultWriter
from masscomm.chain.unlisted_errors import UnlistedErrors, is_unlisted
from masscomm.chain.whole_batches import BatchFailed, UsedUp, WholeBatches
from masscomm.clock import Clock, SystemClock
from masscomm.domain.records import AvroRecord
from masscomm.domain.send_results import SendResult
from masscomm.domain.time_limits import FLUSH_RESERVE_S
from masscomm.errors import DeadLetter, Retry, Stop
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, UnknownSchema
from masscomm.kafka.dead_letter_alarm import DeadLetterAlarm
from masscomm.kafka.dead_letters import ContainedDeadLetter, dead_letter_headers
from masscomm.kafka.denied_ids import DeniedIds
from masscomm.kafka.event import KafkaRecord, batch_response, parse
from masscomm.kafka.on_failure import HandedOver, LastResponse, hand_over, on_failure_value
from masscomm.kafka.producer import Headers, Producer
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs, metrics, traces
from masscomm.observability.metric_names import (
    DEAD_LETTERS,
    RECORDS_FAILED,
    RECORDS_IN,
    RECORDS_OUT,
    STAGE_LATENCY,
    STAGES,
)


@dataclass
class Item[T]:
    """One record of the batch with its decoded value and the trace span of its processing."""

    record: KafkaRecord
    value: T
    error: Exception | None = None
    span: traces.Span | None = None

    @property
    def log_keys(self) -> Mapping[str, Any]:
        """Return the keys of log lines about the record."""
        return _ids(self.record, self)

    @property
    def trace_headers(self) -> Headers:
        """Return the trace headers of every record produced for this item, delayed records included."""
        return self.span.trace.headers if self.span is not None else []


@dataclass
class Batch[T]:
    """The decoded items of an invocation, and the producer for the records derived from them.

    An item whose error is set has failed: `active` omits it, and no further record is produced for it.
    """

    items: list[Item[T]]
    codec: Codec
    producer: Producer
    remaining_s: Callable[[], float]
    # The results of small sends in the outcome records produced since the last flush.
    results: list[SendResult] = field(default_factory=list)

    def active(self) -> list[Item[T]]:
        return [item for item in self.items if item.error is None]

    def produce(self, item: Item[T], topic: str, key: str, record: AvroRecord, headers: Headers | None = None) -> None:
        """Produce a record for an item, in its trace. The item fails if the delivery report is an error.

        Raises:
            Retry: The schema registry is unavailable.
            Stop: The schema is not deployed.
        """
        self.produce_for([item], topic, key, record, headers)

    def produce_for(
        self, items: Sequence[Item[T]], topic: str, key: str, record: AvroRecord, headers: Headers | None = None
    ) -> None:
        """Produce a record for several items, in the trace of the first one. Each of them fails if the delivery report
        is an error.

        Raises Retry or Stop, as `produce`.
        """
        value = self.codec.encode(topic, type(record).__name__, record.to_avro())

        def report(error: Exception | None) -> None:
            for item in items:
                item.error = item.error or error  # guard: batch.delivery_report
            if error is None:
                metrics.add(RECORDS_OUT)

        carried = list(headers or [])
        if traces.of_headers(carried) is None:
            carried += items[0].trace_headers
        self.producer.produce(topic, key.encode(), value, carried, report)

    def attempt(self, item: Item[T], work: Callable[[], None]) -> None:
        """Run the work for one item. An error fails only this item, except Stop, which is raised."""
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
    """The part of a function that is specific to it: it decodes a record and handles a batch."""

    def decode(self, record: KafkaRecord, codec: Codec) -> T:
        """Return the decoded value of a record. Raises DeadLetter or Retry."""
        ...

    def handle(self, batch: Batch[T]) -> None:
        """Process batch.active(). Work that can fail for one item alone runs in batch.attempt.

        Raises:
            Retry: All items that have not failed yet are redelivered. A DeadLetter error belongs to a single item.
        """
        ...

    def dead_lettered(self, batch: Batch[T], item: Item[T], why: DeadLetter) -> None:
        """Produce the outcome records (status and reason of each recipient) of a decoded record that is
        dead-lettered.
        """
        ...


@dataclass
class _Result[T]:
    """The result of one record: done, handed over, dead-lettered, or retried if what was produced has an error."""

    record: KafkaRecord
    # The item of the record; None if the record could not be decoded, and `error` has the reason.
    item: Item[T] | None = None
    dead_letter: DeadLetter | None = None
    # The unknown schema for which the record waits; the scheduler has it then.
    handed_over: UnknownSchema | None = None
    error: Exception | None = None
    # The error that no repetition changes, for which a dead-lettered record has not all of its outcomes.
    outcomes_refused: DeadLetter | None = None

    @property
    def first_error(self) -> Exception | None:
        """Return the error before the record is dead-lettered; None if it has none."""
        return self.error if self.item is None else self.item.error

    def settle(self) -> None:
        """Copy the item's error into the result, after the last delivery report.

        A dead-lettered record whose outcomes are refused is not redelivered: it would hold its partition for ever.
        """
        error = None if self.item is None else self.item.error
        if self.dead_letter is not None and isinstance(error, DeadLetter):  # guard: dead_letters.refused_outcomes
            self.outcomes_refused = error
        else:
            self.error = self.error or error


@dataclass(frozen=True, kw_only=True)
class BatchDriver:
    """Runs a use case on each batch. Each function environment has one instance; without a dead-letter alarm, each
    dead letter is only logged.

    Args:
        denied_ids: Decides whether a record waits whose schema id the registry does not know.
        unlisted: Decides when a record with an unlisted error is dead-lettered, for a function whose attempts have no
            end; None: the attempts end.
        on_demand: Whether the event source mapping is in on-demand mode, which retries a batch whole.
        whole_batches: Keeps the attempts of that mode; None: they have no end.
        on_failure: Takes the records whose attempts are used up in that mode; None: `producer` does.
        results: Stores the results of small sends; None: they are not stored.
        prepare: Reads what the records of a batch need. If it raises Retry, they wait.
    """

    function: str
    codec: Codec
    producer: Producer
    logger: Logger = field(default_factory=lambda: logs.logger("masscomm"))
    alarm: DeadLetterAlarm | None = None
    denied_ids: DeniedIds = field(default_factory=DeniedIds)
    unlisted: UnlistedErrors | None = None
    on_demand: bool = False
    whole_batches: WholeBatches | None = None
    on_failure: Producer | None = None
    results: ResultWriter | None = None
    prepare: Callable[[], object] | None = None
    clock: Clock = field(default_factory=SystemClock)

    def run[T](self, event: Mapping[str, Any], context: LambdaContext, use_case: UseCase[T]) -> dict[str, Any]:
        """Return the partial batch response to an aws:kafka event. After a Stop error, all records are redelivered.

        Raises:
            ValueError: The event is not an aws:kafka event.
            BatchFailed, Stop: In on-demand mode, in the place of a response with failed records.
        """
        records = parse(event)
        metrics.add(RECORDS_IN, len(records))
        try:
            if self.on_demand and self.whole_batches is not None and records:
                self.whole_batches.process(
                    records,
                    lambda some: self._run(some, context, use_case),
                    lambda used_up: self._hand_over_used_up(used_up, context),
                    lambda: _remaining_s(context),
                )
                return batch_response(())
            failed = self._run(records, context, use_case)
        except Stop as error:
            return redeliver_all(records, error, self.logger, on_demand=self.on_demand)
        if self.on_demand and failed:  # guard: whole_batches.raised
            raise BatchFailed(len(failed), len(records))
        return batch_response(failed)

    def _run[T](
        self, records: Sequence[KafkaRecord], context: LambdaContext, use_case: UseCase[T]
    ) -> Sequence[KafkaRecord]:
        """Process records; return those that failed. Raises Stop."""
        batch: Batch[T] = Batch(
            items=[],
            codec=self.codec,
            producer=self.producer,
            remaining_s=lambda: _remaining_s(context),
        )
        try:
            if self.prepare is not None:
                self.prepare()
        except Retry as error:  # guard: batch.unprepared
            refused: list[_Result[T]] = [_Result(record, error=error) for record in records]
            self._report(refused)
            return records
        results = [self._decode(batch, record, use_case, context) for record in records]
        batch.items += [result.item for result in results if result.item is not None]
        try:
            use_case.handle(batch)
        except Stop:
            raise
        except Exception as error:
            self._handle_each(batch, use_case, error)
        self._flush(batch, context)
        self._end_unlisted(results)
        dead_lettered = [
            result
            for result in results
            if self._dead_letter_item(batch, result, use_case) or self._dead_letter_undecoded(result)
        ]
        if dead_lettered:
            self._flush(batch, context)
        for result in results:
            result.settle()
        self._report(results)
        return [result.record for result in results if result.error is not None]

    def _handle_each[T](self, batch: Batch[T], use_case: UseCase[T], error: Exception) -> None:
        """Handle each record alone after a fault in the code, so that a record that causes it fails alone. All records
        fail after another error, and if Lambda divides the batch, since its attempts end.
        """
        items = batch.active()
        # guard: unlisted.handled_alone
        if (self.unlisted is None and not self.on_demand) or not is_unlisted(error) or len(items) == 1:
            _fail_all(batch, error)
            return
        for item in items:
            batch.attempt(item, partial(use_case.handle, replace(batch, items=[item])))

    def _end_unlisted[T](self, results: Sequence[_Result[T]]) -> None:
        """Give the records whose unlisted error has lasted an error with which they are dead-lettered."""
        if self.unlisted is None:
            return
        failed = {each.record.source_position: each for each in results if is_unlisted(each.first_error)}
        for position in self.unlisted.expired(failed, record_count=len(results)):
            result = failed[position]
            why = DeadLetter("unlisted", f"an error that is in no table has lasted: {result.first_error!r}"[:500])
            if result.item is not None:
                result.item.error = why
            else:
                result.error = why

    def _report[T](self, results: Sequence[_Result[T]]) -> None:
        """Count and log the results, and end the trace spans."""
        # A dead letter that Kafka has not acknowledged is not counted: its record is redelivered, and counted then.
        reasons = [each.dead_letter.reason for each in results if each.dead_letter is not None and each.error is None]
        metrics.add(RECORDS_FAILED, sum(result.error is not None for result in results))
        metrics.add(DEAD_LETTERS, len(reasons))
        if self.function in STAGES:
            now_ms, latency = self.clock.now_ms(), STAGE_LATENCY[STAGES[self.function]]
            for result in results:
                if result.error is None and result.dead_letter is None:
                    # The producer's clock may be ahead.
                    metrics.add(latency, max(0, now_ms - result.record.timestamp_ms))
        if self.alarm is not None:
            self.alarm.count(reasons)
        for result in results:
            if result.outcomes_refused is not None:
                with logs.about(_ids(result.record, result.item)):
                    self.logger.error("dead letter without its outcomes", error=str(result.outcomes_refused))
            if result.error is not None:
                self._log(result, result.error)
            _end_span(result)

    def _decode[T](
        self, batch: Batch[T], record: KafkaRecord, use_case: UseCase[T], context: LambdaContext
    ) -> _Result[T]:
        """Decode a record. A record that cannot be decoded is dead-lettered or retried; the others are processed."""
        # Decoding stops when the time is used up: while the registry does not respond, each record costs a time-out.
        if batch.remaining_s() <= 0:
            return _Result(record, error=Retry("the invocation's time is used up"))
        try:
            with logs.about(_ids(record)):
                item = Item(record, use_case.decode(record, self.codec))
            item.span = self._begin_span(item, context)
            return _Result(record, item)
        except DeadLetter as error:
            result: _Result[T] = _Result(record)
            # guard: registry.denied_id_waits
            if isinstance(error, UnknownSchema) and self.denied_ids.is_retried(
                error.schema_id, timestamp_ms=record.timestamp_ms
            ):
                self._hand_over(result, error)
            else:
                self._dead_letter(result, error)  # guard: dead_letters.undecodable_record
            return result
        except Stop:
            raise
        except Exception as error:
            return _Result(record, error=error)

    def _begin_span[T](self, item: Item[T], context: LambdaContext) -> traces.Span | None:
        """Begin the span of a record's processing. Its parent is the span that produced the record; without one it
        begins the trace of the record's send.

        Return None for a record without a send and a trace, such as a row change: its trace would have a single span.
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

    def _flush[T](self, batch: Batch[T], context: LambdaContext) -> None:
        """Wait for Kafka and, concurrently, for the results of small sends."""
        finish = self.results.begin(batch.results) if self.results is not None else None
        batch.results.clear()
        self.producer.flush(_flush_s(context))
        if finish is not None:
            finish()

    def _hand_over[T](self, result: _Result[T], why: UnknownSchema) -> None:
        """Produce a record to the topic on-failure, so that it waits for its schema and the records after it do not.
        If Kafka does not acknowledge it there, the record is redelivered.
        """
        record = result.record
        result.handed_over = why
        with logs.about(_ids(record)):
            self.logger.info("the record waits for its schema", error=str(why))

        def report(error: Exception | None) -> None:
            result.error = error

        value = on_failure_value(record, "UnknownSchema", self.clock.now_ms())
        self.producer.produce(topics.ON_FAILURE, record.key, value, [], report)

    def _hand_over_used_up(self, used_up: Sequence[UsedUp], context: LambdaContext) -> Sequence[KafkaRecord]:
        """Hand records over to the scheduler. Return those that could not be handed over."""
        for each in used_up:
            with logs.about(_ids(each.record)):
                self.logger.error("the attempts of a record are used up", invocations=each.invocations)
        handed_over = [HandedOver(each.record, LastResponse(each.invocations, each.crashed)) for each in used_up]
        return hand_over(self.on_failure or self.producer, handed_over, self.clock.now_ms(), lambda: _flush_s(context))

    def _dead_letter_undecoded[T](self, result: _Result[T]) -> bool:
        """Dead-letter a record without an item whose unlisted error has lasted, or that the topic on-failure refuses,
        such as one with a megabyte of headers; return whether it is one.
        """
        if result.item is not None or result.dead_letter is not None or not isinstance(result.error, DeadLetter):
            return False
        why, result.error = result.handed_over or result.error, None
        self._dead_letter(result, why)
        return True

    def _dead_letter[T](self, result: _Result[T], why: DeadLetter) -> None:
        """Produce a record, or the one that it contains, to the dead-letter topic. If Kafka does not acknowledge it
        there, the consumed record is redelivered.
        """
        item = result.item
        record = why.record if isinstance(why, ContainedDeadLetter) else result.record
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
        """Dead-letter the record of an item that has a DeadLetter error; return whether the item has one.

        The item is replaced by one without an error, which collects the delivery reports of its outcome records.
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


def _remaining_s(context: LambdaContext) -> float:
    return context.get_remaining_time_in_millis() / 1000 - FLUSH_RESERVE_S


def _flush_s(context: LambdaContext) -> float:
    return max(0.1, context.get_remaining_time_in_millis() / 1000 - FLUSH_RESERVE_S / 2)


def redeliver_all(
    records: Iterable[KafkaRecord], error: Stop, logger: Logger, *, on_demand: bool = False
) -> dict[str, Any]:
    """Return the response of a misconfigured function: all records are redelivered until an operator has acted.

    If the function raised an error instead, Lambda would count a failed attempt for every record. In on-demand mode it
    reads no response and counts no attempts, so the error is raised.
    """
    logger.critical(
        "misconfigured: all records are redelivered until an operator acts", error=str(error), exc_info=error
    )
    if on_demand:
        raise error
    return batch_response(records)


def _ids[T](record: KafkaRecord, item: Item[T] | None = None) -> dict[str, Any]:
    """Return the ids that every log line about a record contains."""
    ids = {"position": record.source_position}
    if item is not None:
        ids |= logs.ids_of(item.value)
        if item.span is not None:
            ids["trace_id"] = item.span.trace.trace_id
    return ids


def _end_span[T](result: _Result[T]) -> None:
    """End the span of a record with the record's error; the span of a dead-lettered record has the reason."""
    if result.item is None or result.item.span is None:
        return
    error = None if result.error is None else str(result.error) or repr(result.error)
    if error is None and result.dead_letter is not None:
        error = f"dead letter: {result.dead_letter.reason}: {result.dead_letter}"
    traces.end(result.item.span, error)


def _fail_all[T](batch: Batch[T], error: Exception) -> None:
    for item in batch.active():
        item.error = error if not isinstance(error, DeadLetter) else Retry(f"{error.reason}: {error}")
