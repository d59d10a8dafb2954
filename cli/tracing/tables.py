"""Finds steps of a send in DynamoDB tables: the decision log, the delivery ledger, the delay store."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from cli.installation import Installation
from cli.tracing.records import Read
from cli.tracing.steps import Asked, Kind, Step
from masscomm.domain.call_results import RecipientResult
from masscomm.domain.preferences import Decision
from masscomm.domain.time_limits import DECISIONS_KEPT_S
from masscomm.errors import DeadLetter
from masscomm.kafka.avro import Codec
from masscomm.kafka.payloads import payload_of
from masscomm.stores.decision_log.dynamodb import whole
from masscomm.stores.decision_log.port import unpack_decisions
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.delivery_ledger.dynamodb import slices_of

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def steps(installation: Installation, asked: Asked, found: Iterable[Read], codec: Codec) -> list[Step]:
    """Return the steps in the tables for these records. Raises botocore's errors if DynamoDB does not respond."""
    client = installation.dynamodb()
    steps = list(_waiting(installation, client, asked, codec))
    seen: set[str] = set()
    for read in found:
        record_id = read.value.get("record_id")
        if record_id is None or record_id in seen:
            continue
        seen.add(record_id)
        if read.schema == "DeliveryRequested":
            steps += _ledger(client, installation.table("delivery_ledger"), record_id, asked)
        elif read.schema in ("SendRequested", "RecheckRequested", "BuildRequested"):
            steps += _decisions(client, installation.table("decisions"), read, record_id, asked)
    return steps


def _ledger(client: "DynamoDBClient", table: str, record_id: str, asked: Asked) -> Iterator[Step]:
    pages = client.get_paginator("query").paginate(
        TableName=table,
        KeyConditionExpression="record_id = :record",
        ExpressionAttributeValues={":record": {"S": record_id}},
    )
    for item, entries in slices_of(item for page in pages for item in page["Items"]):
        results = [entry for entry in entries if asked.user_id is None or entry.user_id == asked.user_id]
        if results:
            yield Step(
                at_ms=int(item["recorded_ms"]["N"]),
                kind=Kind.LEDGER,
                where=f"{table}/{record_id}/{item['part']['S']}",
                function="delivery",
                description=_results(results),
                details={"record_id": record_id, "owner": item["owner"]["S"]},
            )


def _results(entries: list[RecipientResult]) -> str:
    counts = Counter(_became(entry.decision) for entry in entries)
    text = ", ".join(f"{label} {count}" for label, count in counts.items())
    if len(entries) > 1:
        return f"recorded: {text}"
    (entry,) = entries
    calls = ", ".join(f"{call.target} → {call.message_id or call.error}" for call in entry.call_results)
    return f"recorded: {text.rpartition(' ')[0]}{f': {calls}' if calls else ''}"


def _became(decision: Decision) -> str:
    return f"{decision.status} ({decision.reason})" if decision.reason else str(decision.status)


def _decisions(client: "DynamoDBClient", table: str, read: Read, record_id: str, asked: Asked) -> Iterator[Step]:
    item = client.get_item(TableName=table, Key={"record_id": {"S": record_id}}).get("Item")
    if item is None:
        return
    users = list(read.value.get("user_ids") or dict.fromkeys(read.value["to_users"]))
    first: dict[int, int] = {}
    for place, user_id in enumerate(read.value.get("to_users", ())):
        first.setdefault(user_id, place)
    positions = list(read.value.get("positions") or first.values())
    try:
        decided = unpack_decisions(whole(client, table, item), positions=positions, user_ids=users)
    except DeadLetter:
        return
    lines = []
    for channel, why in decided.by_channel.items():
        if asked.channel in (None, channel):
            mine = [
                decision
                for position, decision in why.items()
                if asked.user_id is None or users[positions.index(position)] == asked.user_id
            ]
            counts = Counter(
                f"{decision.status}{f' ({decision.reason})' if decision.reason else ''}" for decision in mine
            )
            lines += [f"{channel}: {label} {count}" for label, count in counts.items()]
    yield Step(
        at_ms=(int(item["expires_at"]["N"]) - DECISIONS_KEPT_S) * 1000,
        kind=Kind.DECISION,
        where=f"{table}/{record_id}",
        function="builder" if read.schema == "BuildRequested" else "preference_checker",
        description=f"decided first: {', '.join(lines) or 'goes on'}",
        details={"record_id": record_id, "to_the_second": True},
    )


def _waiting(installation: Installation, client: "DynamoDBClient", asked: Asked, codec: Codec) -> Iterator[Step]:
    table = installation.table("waiting")
    for item in DynamoDbDelayStore(table=table, client=client).scan():
        value = payload_of(item.topic, item.value, codec).value
        if value is not None and asked.concerns(value):
            yield Step(
                at_ms=item.due_ms,
                kind=Kind.WAITING,
                where=f"{table}/{item.id}",
                function="scheduler",
                description=f"waits until then ({item.delay_reason}), goes to {item.topic}",
                details={"record_id": item.id, "due_ms": item.due_ms},
            )
