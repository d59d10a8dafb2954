"""Faults of Kafka, OpenSearch, DynamoDB and the registry while a send of the cell is in progress."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource  # type: ignore[attr-defined]

from masscomm.kafka import topics
from tests.faults.moments import (
    LEDGER,
    bigger_mget,
    dynamodb,
    path,
)
from tests.support.fault_stack.bench import CHAIN, Bench
from tests.support.fault_stack.cell import FaultOf, Send
from tests.support.fault_stack.proxy import Answer, Cut, Delay, DropAnswer, Edit, produce_to
from tests.support.until import until

AMZ_JSON = "application/x-amz-json-1.0"
_LOOK_UPS = path("/_mget", "/_search")


def acknowledgement_lost(topic: str) -> FaultOf:
    """Cut the broker's connection after it has stored the records, before its acknowledgement."""

    def fault(bench: Bench, send: Send) -> None:
        with bench.stack.kafka.fault(DropAnswer(), when=produce_to(topic), times=2) as lost:
            send()
            lost.await_hits()
            bench.settle()

    return fault


def kafka_cut(bench: Bench, send: Send) -> None:
    """Cut every connection of the functions and their pollers while they produce."""
    with bench.stack.kafka.fault(Cut(), when=produce_to("delivery"), times=1) as cut:
        send()
        cut.await_hits()
        bench.stack.kafka.cut()


def unacknowledged(topic: str) -> FaultOf:
    """No record of a topic reaches the broker for longer than the producer waits."""

    def fault(bench: Bench, send: Send) -> None:
        before = bench.failures()
        with bench.stack.kafka.fault(Cut(), when=produce_to(topic)):
            send()
            until("the records are redelivered", lambda: bench.failures() > before, every_s=0.1)

    return fault


def opensearch_answers(status: int) -> FaultOf:
    """OpenSearch rejects twelve look-ups in a row."""
    kind = {429: "rejected_execution_exception"}.get(status, "cluster_block_exception")
    body = {
        "error": {"root_cause": [{"type": kind, "reason": "fault"}], "type": kind, "reason": "fault"},
        "status": status,
    }

    def fault(bench: Bench, send: Send) -> None:
        refusal = Answer(status=status, body=json.dumps(body).encode())
        with bench.stack.opensearch.fault(refusal, when=_LOOK_UPS, times=12) as refused:
            send()
            refused.await_hits(12)

    return fault


def opensearch_away(bench: Bench, send: Send) -> None:
    """OpenSearch answers no look-up until each recipient's notification has ended."""
    with bench.stack.opensearch.fault(Cut(), when=_LOOK_UPS):
        send()
        until("each recipient has ended", lambda: all(map(bench.ended, bench.sends)), bench.timeout_s, every_s=0.1)


def opensearch_times_out(bench: Bench, send: Send) -> None:
    """OpenSearch responds to one look-up after the client's time-out."""
    with bench.stack.opensearch.fault(Delay(11), when=_LOOK_UPS, times=1) as late:
        send()
        late.await_hits()
        bench.settle()


def partial_mget(bench: Bench, send: Send) -> None:
    """Each look-up returns errors for every second user, both for the user and for the settings."""

    def edit(body: bytes) -> bytes:
        answer = json.loads(body)
        answer["docs"] = [
            {"_index": doc["_index"], "_id": doc["_id"], "error": {"type": "no_shard_available_action_exception"}}
            if number // 2 % 2
            else doc
            for number, doc in enumerate(answer["docs"])
        ]
        return json.dumps(answer).encode()

    with bench.stack.opensearch.fault(Edit(edit), when=bigger_mget, times=6) as edited:
        send()
        edited.await_hits(6)


def partial_search(bench: Bench, send: Send) -> None:
    """A shard does not respond to searches of devices, so that half of the hits are missing."""

    def edit(body: bytes) -> bytes:
        answer = json.loads(body)
        answer["_shards"] |= {"failed": 1}
        answer["hits"]["hits"] = answer["hits"]["hits"][::2]
        return json.dumps(answer).encode()

    with bench.stack.opensearch.fault(Edit(edit), when=path("/devices/_search"), times=4) as edited:
        send()
        edited.await_hits(4)


def opensearch_outage(bench: Bench, send: Send) -> None:
    """OpenSearch is down until the attempts of the mapping are exhausted."""
    before = bench.ends(topics.ON_FAILURE)
    with bench.stack.opensearch.down():
        send()
        until("the mapping's attempts are exhausted", lambda: bench.ends(topics.ON_FAILURE) != before, 180, every_s=0.2)


def handed_over_without_payload(bench: Bench, send: Send) -> None:
    """OpenSearch is down and on-failure records exceed the topic's limit, so the scheduler reads the source records."""
    with _limited(bench, topics.ON_FAILURE, 2_000):
        opensearch_outage(bench, send)


@contextmanager
def _limited(bench: Bench, name: str, size: int) -> Iterator[None]:
    """Lower the record size limit of a topic until the block ends."""
    [usual] = [topic.max_message_bytes for topic in topics.chain_topics() if topic.name == name]

    def limit(value: int) -> None:
        entry = ConfigEntry("max.message.bytes", str(value), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
        [done] = bench.admin.client().incremental_alter_configs([resource]).values()
        done.result()

    limit(size)
    try:
        yield
    finally:
        limit(usual)


def dynamodb_throttles(bench: Bench, send: Send) -> None:
    """DynamoDB throttles the writes of leases and slices for a while."""
    body = {
        "__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
        "message": "The level of configured provisioned throughput for the table was exceeded.",
    }
    refusal = Answer(status=400, body=json.dumps(body).encode(), kind=AMZ_JSON)
    with bench.stack.dynamodb.fault(refusal, when=dynamodb(LEDGER, "UpdateItem", "PutItem"), times=10) as refused:
        send()
        refused.await_hits(10)


def dynamodb_answers_lost(bench: Bench, send: Send) -> None:
    """The responses to a lease and two slices are lost: the retries find their own writes."""
    with ExitStack() as faults:
        lost = [
            faults.enter_context(
                bench.stack.dynamodb.fault(DropAnswer(), when=dynamodb(LEDGER, operation), times=times)
            )
            for operation, times in (("UpdateItem", 1), ("PutItem", 2))
        ]
        send()
        for each in lost:
            each.await_hits(each.times or 1)


def dynamodb_down(bench: Bench, send: Send) -> None:
    """DynamoDB accepts no connection from before the first lease until the sixth attempt."""
    with bench.stack.dynamodb.fault(Cut(), when=dynamodb(LEDGER, "UpdateItem", "PutItem")) as cut:
        send()
        cut.await_hits(6)


def dynamodb_down_while_publishing(bench: Bench, send: Send) -> None:
    """DynamoDB is down for a while, so that a published slice cannot be recorded."""
    with bench.stack.dynamodb.fault(Cut(), when=dynamodb(LEDGER, "PutItem")) as cut:
        send()
        cut.await_hits(6)


def results_not_stored(bench: Bench, send: Send) -> None:
    """No result of a small send can be stored. Its recipients get their messages; it is answered with its counts, of
    which there are none until the metrics job runs again. A send after the fault is answered with its results.
    """
    bench.stack.stack.kill("spark")
    try:
        with bench.stack.dynamodb.fault(Cut(), when=dynamodb("sends", "BatchWriteItem")) as cut:
            send()
            cut.await_hits()
            bench.settle()
        [uncounted] = bench.sends
        bench.await_counted(bench.emit(bench.shared[:20]))
        status = bench.api.status(uncounted.send_id)
        assert status is not None
        assert (status.sent, status.suppressed, status.failed) == (0, {}, 0), status
    finally:
        bench.stack.stack.restart("spark")


def dynamodb_down_while_deciding(bench: Bench, send: Send) -> None:
    """The decision log is down for a while."""
    with bench.stack.dynamodb.fault(Cut(), when=dynamodb("decisions", "PutItem")) as cut:
        send()
        cut.await_hits(6)


def registry_down_warm(bench: Bench, send: Send) -> None:
    """Functions with cached schemas do not call the registry."""
    bench.emit(bench.shared[:50], chunk=25)  # This send caches the schemas of the lane that the next send uses.
    bench.settle()
    with bench.stack.registry.down():
        send()
        bench.settle()


def registry_down_cold(bench: Bench, send: Send) -> None:
    """The registry is down, so that new processes cannot read any schema."""
    with bench.stack.registry.fault(Cut()) as cut:
        for function in CHAIN:
            bench.kill(function)
        send()
        cut.await_hits(3)
