"""Erases the events that concern a person: messages that wait for an attempt, and dead letters.

An event concerns the person whose user id its data has at the path that its type declares.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.domain.events import EventType, value_at
from masscomm.domain.own_events import OWN_EVENTS
from masscomm.domain.webhooks import EndpointKey
from masscomm.stores.webhook_dead_letters.dynamodb import DynamoDbWebhookDeadLetters
from ops.erasure.person import Person


@dataclass(frozen=True)
class PersonalEvents:
    # Event type → the path in data of the id of the user whom the event concerns.
    paths: Mapping[str, str]

    @classmethod
    def of_types(cls, types: Iterable[EventType]) -> "PersonalEvents":
        every = (*OWN_EVENTS.values(), *types)
        return cls({each.name: each.user_path for each in every if each.user_path is not None})

    def concern(self, person: Person, event: Mapping[str, Any]) -> bool:
        """Return whether an event, with the members of its record, concerns the person. Raises ValueError."""
        path = self.paths.get(event["type"])
        # guard: erasure.other_tenants_event
        if path is None or event["club_id"] != person.club_id:
            return False
        found = value_at(json.loads(event["data"]), path)
        if isinstance(found, str):
            return found == str(person.user_id)
        # Python takes a boolean for an integer.
        return not isinstance(found, bool) and found == person.user_id

    def without(self, person: Person, record: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a WebhookRequested without the messages that concern the person; None if it has no other. Its id
        stays, so that a repeated release is one record.
        """
        kept = [place for place, event in enumerate(record["events"]) if not self.concern(person, event)]
        if len(kept) == len(record["events"]):
            return dict(record)
        person.clubs.add(person.club_id)
        places = {place: index for index, place in enumerate(kept)}
        messages = [number for number, place in enumerate(record["event_index"]) if place in places]
        if not messages:
            return None
        columns = {
            **{name: [record[name][place] for place in kept] for name in ("events", "offsets", "produced_at")},
            "event_index": [places[record["event_index"][number]] for number in messages],
            "endpoint_index": [record["endpoint_index"][number] for number in messages],
        }
        if record.get("field_index"):
            columns["field_index"] = [record["field_index"][number] for number in messages]
        return {**record, **columns}


@dataclass(frozen=True, kw_only=True)
class EventTables:
    """The tables of webhooks with personal data. Methods raise Retry or Stop."""

    # A client of class masscomm.aws.client.DynamoDb, or boto3's client.
    client: Any
    # The names of the tables.
    dead_letters: str
    endpoints: str
    events: PersonalEvents

    def erase_dead_letters(self, person: Person) -> int:
        """Delete the dead letters whose events concern the person. Return their number."""
        store = DynamoDbWebhookDeadLetters(table=self.dead_letters, client=self.client)
        erased = 0
        with answering("webhook dead letters"):
            pages = self.client.get_paginator("scan").paginate(
                TableName=self.dead_letters,
                FilterExpression="attribute_exists(#event)",
                ExpressionAttributeNames={"#event": "event"},
            )
            for page in pages:
                for item in page["Items"]:
                    if self.events.concern(person, json.loads(item["event"]["S"])):
                        store.delete(EndpointKey.of_text(item["endpoint"]["S"]), [item["id"]["S"]])
                        erased += 1
        return erased

    def erase_contacts(self, person: Person) -> int:
        """Remove the person from the endpoints of the tenant whose contact the person is. Return their number."""
        erased = 0
        values = {":user": {"N": str(person.user_id)}}
        with answering("webhook endpoints"):
            pages = self.client.get_paginator("query").paginate(
                TableName=self.endpoints,
                KeyConditionExpression="club = :club",
                FilterExpression="contact_user_id = :user",
                ExpressionAttributeValues={":club": {"S": str(person.club_id)}, **values},
            )
            found = [item for page in pages for item in page["Items"]]
        for item in found:
            try:
                with answering("webhook endpoints"):
                    self.client.update_item(
                        TableName=self.endpoints,
                        Key={name: item[name] for name in ("club", "id")},
                        # A change that read the endpoint before would store the contact again.
                        UpdateExpression="REMOVE contact_user_id ADD revision :one",
                        ConditionExpression="contact_user_id = :user",
                        ExpressionAttributeValues={":one": {"N": "1"}, **values},
                    )
            except ConditionFailed:
                continue  # It was deleted, or has another contact.
            erased += 1
        return erased
