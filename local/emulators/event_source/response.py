"""Parses the partial batch response of a function.

Source: AWS documentation, "Configuring error handling controls for Kafka event sources" (partial batch responses).
"""

import json
from collections.abc import Sequence

from local.emulators.event_source.record import SourceRecord
from local.emulators.event_source.spec import PartialFailures


class MalformedResponseError(Exception):
    """The response is invalid, so the whole batch counts as failed."""


def failed_records(payload: bytes, records: Sequence[SourceRecord], reading: PartialFailures) -> list[SourceRecord]:
    """Return the failed records in the order of the batch; none if all succeeded.

    An empty response, null, an empty object, and a missing, null or empty batchItemFailures mean that the batch
    succeeded.

    Raises:
        MalformedResponseError: The response is not JSON or not an object, or an identifier has another form or names a
            record that is not in the batch.
    """
    lowest: dict[str, int] = {}
    named: set[tuple[str, int]] = set()
    known = {(str(record.partition), record.offset) for record in records}
    for item in _items(payload):
        identifier = item.get("itemIdentifier") if isinstance(item, dict) else None
        if not isinstance(identifier, dict):
            raise MalformedResponseError(f"not an item identifier: {item!r}")
        partition, offset = identifier.get("partition"), identifier.get("offset")
        if not isinstance(partition, str) or not isinstance(offset, int) or (partition, offset) not in known:
            raise MalformedResponseError(f"not a record of this batch: {identifier!r}")
        named.add((partition, offset))
        lowest[partition] = min(offset, lowest.get(partition, offset))
    if reading is PartialFailures.FROM_LOWEST:
        return [
            record
            for record in records
            if (start := lowest.get(str(record.partition))) is not None and record.offset >= start
        ]
    return [record for record in records if (str(record.partition), record.offset) in named]


def _items(payload: bytes) -> list[object]:
    if not payload.strip():
        return []
    try:
        response = json.loads(payload)
    except ValueError as error:
        raise MalformedResponseError(f"not JSON: {payload[:100]!r}") from error
    if response is None or response == "":
        return []
    if not isinstance(response, dict):
        raise MalformedResponseError(f"not an object: {payload[:100]!r}")
    items = response.get("batchItemFailures")
    if items is None:
        return []
    if not isinstance(items, list):
        raise MalformedResponseError(f"batchItemFailures is not a list: {payload[:100]!r}")
    return items
