"""Erases a person from DynamoDB: from delayed records, the delivery ledger, the register of sends and the places of
frequency caps.

The decision log contains no user ids, only digests of a record's recipients and content, and decisions by position. The
tables of broadcast queues and of idempotency keys contain no user ids either.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering, delete_items, digest_of, parts_of, query_items
from masscomm.domain.sends import digest_of_users
from masscomm.errors import Retry
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.delivery_ledger.dynamodb import SLICE, part_key
from masscomm.stores.frequency_caps.dynamodb import partition_of
from masscomm.stores.sends.dynamodb import MESSAGE
from ops.erasure.delayed_records import DelayedRecords
from ops.erasure.person import ERASED_USER, Person

_CAPS = "the places of frequency caps"


@dataclass(frozen=True, kw_only=True)
class ItemTables:
    """The DynamoDB tables with personal data. Every method raises Retry or Stop."""

    # A client of class masscomm.aws.client.DynamoDb, or boto3's client.
    client: Any = field(kw_only=False)
    # The names of the tables: the delivery ledger, the delayed records, the register of sends, the places of frequency
    # caps.
    ledger: str
    waiting: str
    sends: str
    frequency_caps: str
    # Removes a person's data from a record.
    records: DelayedRecords

    @cached_property
    def _delayed(self) -> DynamoDbDelayStore:
        return DynamoDbDelayStore(table=self.waiting, client=self.client)

    def erase_delayed(self, person: Person) -> int:
        """Replace each delayed record that contains data of the person. Return the number of replaced and removed
        records.
        """
        found = [
            (item, value)
            for item in self._delayed.scan()
            if (value := self.records.without(person, item.topic, item.value, item.headers)) != item.value
        ]
        for item, value in found:
            if value is None:
                self._delayed.done(item)
            else:
                self._delayed.change(item, value)
        return len(found)

    def erase_ledger(self, person: Person) -> int:
        """Replace the user id and the devices of published messages in the recorded slices (recipients recorded
        together) of the delivery ledger.

        Returns:
            The number of replaced slices.
        """
        erased = 0
        with answering("the delivery ledger"):
            pages = self.client.get_paginator("scan").paginate(
                TableName=self.ledger, FilterExpression="attribute_exists(decided)"
            )
            for page in pages:
                erased += sum(self._erase_slice(person, item) for item in page["Items"])
        return erased

    def erase_sends(self, person: Person) -> int:
        """Remove the digest of the recipients of each registered send to the person alone, because it reveals the user
        id. Delete the message of each send that named the person among few users, because its variables may be the
        person's values. Return the number of changed and deleted items.
        """
        erased = 0
        with answering("the register of sends"):
            pages = self.client.get_paginator("scan").paginate(
                TableName=self.sends,
                # guard: erasure.kept_message
                FilterExpression="recipients = :alone OR (contains(user_ids, :user) AND club_id = :club)",
                ExpressionAttributeValues={
                    ":alone": {"S": digest_of_users([person.user_id])},
                    ":user": {"N": str(person.user_id)},
                    ":club": {"N": str(person.club_id)},
                },
                ProjectionExpression="send_id, part",
            )
            for page in pages:
                for item in page["Items"]:
                    key = {name: item[name] for name in ("send_id", "part")}
                    if item["part"]["S"] == MESSAGE:
                        self.client.delete_item(TableName=self.sends, Key=key)
                        erased += 1
                        continue
                    with suppress(ConditionFailed), answering("the register of sends"):
                        self.client.update_item(
                            TableName=self.sends,
                            Key=key,
                            UpdateExpression="REMOVE recipients",
                            ConditionExpression="attribute_exists(recipients)",
                        )
                        erased += 1
        return erased

    def erase_caps(self, person: Person) -> int:
        """Delete the sends that count for the person's frequency caps, and the person's digests. Return the number of
        deleted items.
        """
        partition = {"recipient": {"S": partition_of(person.club_id, person.user_id)}}
        found = query_items(self.client, _CAPS, self.frequency_caps, partition)
        keys = [{name: item[name] for name in ("recipient", "cap")} for item in found]
        delete_items(self.client, _CAPS, self.frequency_caps, keys)
        return len(keys)

    def _erase_slice(self, person: Person, item: dict[str, Any]) -> bool:
        position, keys = int(item["part"]["S"].removeprefix(SLICE)), self._further_parts(item)
        texts = [item["decided"]["S"]]
        for key in keys:
            part = self.client.get_item(TableName=self.ledger, Key=key, ConsistentRead=True).get("Item")
            if part is None:
                raise Retry("a part of a ledger slice is missing: it expired, or delivery is recording it")
            texts.append(part["text"]["S"])
        document = json.loads("".join(texts))
        rows = [row for row, user_id in enumerate(document["user_ids"]) if user_id == person.user_id]
        if not rows:
            return False
        for row in rows:
            document["user_ids"][row] = ERASED_USER
            document["answers"][row] = [["erased", *answer[1:]] for answer in document["answers"][row]]
        whole = json.dumps(document, separators=(",", ":")).encode()
        first, *others = [part.decode() for part in parts_of(whole)]
        digest = digest_of(whole)
        common = {"record_id": item["record_id"], "expires_at": item["expires_at"]}
        for number, text in enumerate(others, start=1):
            key = {"part": {"S": part_key(position, digest, number)}}
            self.client.put_item(TableName=self.ledger, Item={**common, **key, "text": {"S": text}})
        after = {**item, "decided": {"S": first}}
        if others:
            after |= {"parts": {"N": str(len(others) + 1)}, "digest": {"S": digest}}
        else:
            after.pop("parts", None)
            after.pop("digest", None)
        # The condition prevents the restoration of a slice (recipients recorded together) that DynamoDB has just
        # expired.
        with suppress(ConditionFailed), answering("the delivery ledger"):
            self.client.put_item(
                TableName=self.ledger,
                Item=after,
                ConditionExpression="decided = :before",
                ExpressionAttributeValues={":before": item["decided"]},
            )
        for key in keys:
            self.client.delete_item(TableName=self.ledger, Key=key)
        return True

    @staticmethod
    def _further_parts(item: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the keys of the further items of a slice (recipients recorded together) that is too large for one
        item.
        """
        if "parts" not in item:
            return []
        position = int(item["part"]["S"].removeprefix(SLICE))
        return [
            {"record_id": item["record_id"], "part": {"S": part_key(position, item["digest"]["S"], number)}}
            for number in range(1, int(item["parts"]["N"]))
        ]
