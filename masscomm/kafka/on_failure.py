"""Builds records of the topic on-failure for records that a function hands over to the scheduler.

The format is that of Lambda's event source mappings, so that the scheduler reads the records of both.
Source: AWS documentation, the record format of a Kafka on-failure destination.
"""

import json
from datetime import UTC, datetime

from masscomm.kafka.event import KafkaRecord, event_of


def on_failure_value(record: KafkaRecord, condition: str, now_ms: int) -> bytes:
    """Return the value of an on-failure record with the bytes, headers and position of a record.

    Args:
        record: The record that is handed over.
        condition: Why it is handed over.
        now_ms: The present time in ms since the epoch.
    """
    document = {
        "requestContext": {"condition": condition},
        "responseContext": None,
        "version": "1.0",
        "timestamp": datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(),
        "payload": event_of(record),
    }
    return json.dumps(document).encode()
