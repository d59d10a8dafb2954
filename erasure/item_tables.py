"""The person in DynamoDB: delayed records, and the delivery ledger.

The decision log names nobody: a digest over all of a record's recipients, and decisions by position. Neither does the
table of broadcast queues.
"""

import itertools
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from erasure.delayed_records import DelayedRecords
from erasure.person import ERASED_USER, Person
from masscomm.dynamodb import ConditionFailed, answering
from masscomm.waiting_dynamodb import DynamoDbWaitingStore


class ItemTables:
    """client: masscomm.aws_client.DynamoDb or boto3's. Errors of every method: Retry, Stop."""

    def __init__(
        self,
        client: Any,
        *,
        ledger: str,
        waiting: str,
        records: DelayedRecords,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._waiting = waiting
        self._delayed = DynamoDbWaitingStore(table=waiting, client=client)
        self._records = records
        self._now_ms = now_ms

    def erase_delayed(self, person: Person) -> int:
        """Put each delayed record that has data of the person's back without it."""
        # All of them first: copies of earlier versions may share the parts that are deleted below.
        found = [
            (item, value)
            for item in self._delayed.everything()
            if (value := self._records.without(person, item.topic, item.value)) != item.value
        ]
        for item, value in found:
            # Another time is another place in the store: at no moment is the record in none, and what is released from
            # both has one id.
            self._delayed.put(replace(item, value=value, due_ms=item.due_ms + 1, place=None), self._now_ms())
            self._delayed.done(item)
            self._delete_earlier_parts(item.id)
        return len(found)

    def _delete_earlier_parts(self, item_id: str) -> None:
        """Delete the parts of a large record as earlier versions stored them, which `done` leaves to expire."""
        for number in itertools.count(1):
            with answering("a part of a delayed record"):
                answer = self._client.delete_item(
                    TableName=self._waiting,
                    Key={"due_bucket": {"S": f"part#{item_id}"}, "id": {"S": f"{number:04d}"}},
                    ReturnValues="ALL_OLD",
                )
            if not answer.get("Attributes"):
                return

    def erase_ledger(self, person: Person) -> int:
        """Replace the user id, and the devices that a message was published to, in recorded slices."""
        erased = 0
        with answering("the delivery ledger"):
            pages = self._client.get_paginator("scan").paginate(
                TableName=self._ledger, ProjectionExpression="record_id, part, decided"
            )
            for page in pages:
                erased += sum(self._erase_slice(person, item) for item in page["Items"] if "decided" in item)
        return erased

    def _erase_slice(self, person: Person, item: dict[str, Any]) -> bool:
        before = item["decided"]["S"]
        document = json.loads(before)
        rows = [row for row, user_id in enumerate(document["user_ids"]) if user_id == person.user_id]
        if not rows:
            return False
        for row in rows:
            document["user_ids"][row] = ERASED_USER
            document["answers"][row] = [["erased", *answer[1:]] for answer in document["answers"][row]]
        try:
            self._client.update_item(
                TableName=self._ledger,
                Key={"record_id": item["record_id"], "part": item["part"]},
                UpdateExpression="SET decided = :after",
                # Written once and expired by DynamoDB: what is gone meanwhile must not come back.
                ConditionExpression="decided = :before",
                ExpressionAttributeValues={
                    ":after": {"S": json.dumps(document, separators=(",", ":"))},
                    ":before": {"S": before},
                },
            )
        except ConditionFailed:
            return False
        return True
