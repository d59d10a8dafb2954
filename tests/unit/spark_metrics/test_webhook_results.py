"""Records with results of webhook messages become facts; those that cannot be counted have a problem."""

import json
from collections import defaultdict
from typing import Any

import pytest

from masscomm.domain.ids import event_message_id
from spark_metrics.counting.facts import facts
from spark_metrics.counting.problems import Problem
from spark_metrics.counting.webhook_results import WebhookResults
from tests.support.spark.archived import WRITERS, Result, result_columns, webhook_results
from tests.support.spark.session import PRODUCED_MS, ToFrame

HOUR_MS = 3_600_000
TWO = (Result(message_id="m1"), Result(message_id="m2", http_status=None, status="retried", error="no answer"))


def facts_of(frame: ToFrame, **changes: Any) -> Any:
    record = webhook_results(0, *TWO, **changes)
    (row,) = frame([record]).transform(facts, writers=WRITERS).collect()
    return row


def test_results_are_one_line_in_columns(kafka_frame: ToFrame) -> None:
    row = facts_of(kafka_frame)
    assert (row["source"], row["problem"], row["at_ms"]) == ("webhook_outcome", None, PRODUCED_MS)
    assert row["send_id"] == row["record_id"]
    listed = json.loads(row["listed"])
    assert listed["endpoints"] == ["ep_7_a"]
    assert listed["endpoint_index"] == [0, 0]
    assert listed["http_status"] == [200, None]
    assert listed["error"] == ["", "no answer"]


@pytest.mark.kills(guard="metrics.columns_of_results")
@pytest.mark.kills(guard="metrics.texts_of_results")
@pytest.mark.kills(guard="metrics.time_of_results")
def test_record_with_wrong_results_is_quarantined(kafka_frame: ToFrame) -> None:
    cases: list[tuple[dict[str, Any], Problem | None]] = [
        ({}, None),
        ({"error": ["x" * 200, ""]}, None),
        ({"at_ms": [PRODUCED_MS - HOUR_MS, PRODUCED_MS + HOUR_MS]}, None),
        ({"message_id": []}, None),
        ({"message_id": ["m1"]}, Problem.BAD_COLUMNS),
        ({"attempt": [1]}, Problem.BAD_COLUMNS),
        ({"error": []}, Problem.BAD_COLUMNS),
        ({"endpoint_index": [0, 1]}, Problem.BAD_COLUMNS),
        ({"type_index": [-1, 0]}, Problem.BAD_COLUMNS),
        ({"attempt": [0, 1]}, Problem.BAD_COUNT),
        ({"duration_ms": [5, -1]}, Problem.BAD_COUNT),
        ({"status": ["delivered", "lost"]}, Problem.UNKNOWN_MEASURE),
        ({"message_id": ["m1", ""]}, Problem.BAD_TEXT),
        ({"event_id": ["e" * 201, "e"]}, Problem.BAD_TEXT),
        ({"types": ["a\0b"]}, Problem.BAD_TEXT),
        ({"error": ["a\0b", ""]}, Problem.BAD_TEXT),
        ({"error": ["x" * 201, ""]}, Problem.BAD_TEXT),
        ({"at_ms": [PRODUCED_MS, PRODUCED_MS - HOUR_MS - 1]}, Problem.BAD_TIMESTAMP),
        ({"at_ms": [PRODUCED_MS + HOUR_MS + 1, PRODUCED_MS]}, Problem.BAD_TIMESTAMP),
        ({"timestamp": 2**63 - 1}, Problem.BAD_TIMESTAMP),
        ({"timestamp": -(2**63)}, Problem.BAD_TIMESTAMP),
        ({"record_id": "none"}, Problem.BAD_ID),
    ]
    records = [webhook_results(n, *TWO, **changes) for n, (changes, _) in enumerate(cases)]
    rows = kafka_frame(records).transform(facts, writers=WRITERS).orderBy("kafka_offset").collect()
    found = [(changes, row["problem"]) for (changes, _), row in zip(cases, rows, strict=True)]
    assert found == cases


def test_ids_that_a_record_lacks_are_derived() -> None:
    results, copied = WebhookResults(9), defaultdict[str, list[Any]](list)
    both = (Result(message_id="m1"), Result(message_id="m2", club_id=8))
    results.add(json.dumps(result_columns(*both) | {"message_id": []}))
    results.send(lambda table, rows: copied[table].extend(rows))
    found = [(row[0], row[2], row[4], row[8]) for row in copied["batch_webhook_log"]]
    assert sorted(found) == sorted(
        (endpoint, event_message_id(club, event, endpoint), club, event) for endpoint, _, club, event in found
    )
    assert len(found) == 2
