"""The cases: a handler, and the records of sends to one recipient that it processes."""

import base64
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import batched
from pathlib import Path
from typing import Any
from uuid import uuid4

from functions.catalogue import read_catalogue
from masscomm.domain.lanes import Lane
from masscomm.domain.records import AvroRecord, BuildRequested, ContentColumn, DeliveryRequested, SendRequested
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.observability import traces

TEXT = {"title": "Goal", "body": "We lead by one."}
FIRST_TENANT, TENANTS = 101, 20


@dataclass(frozen=True, kw_only=True)
class Case:
    """The records that one function processes, and the topic to which it produces one record for each."""

    name: str
    # The name of the function in functions.yaml.
    function: str
    topic: str
    output: str
    record: Callable[[int], AvroRecord]
    # Whether the function calls a provider for each record.
    publishes: bool = False

    @property
    def module(self) -> str:
        return f"functions.{self.function}.handler"

    def events(self, tree: Path, users: Sequence[int], codec: Codec) -> Iterator[dict[str, Any]]:
        """Yield events with one record for each user, in batches of the size that the checkout sets."""
        catalogue = read_catalogue(tree / "functions" / "functions.yaml", generation="g1")
        source = next(each.event_source for each in catalogue if each.name == self.function)
        if source is None:
            raise ValueError(f"{self.function} has no event source")
        for some in batched(users, source.batch_sizes[self.topic], strict=False):
            entries = [self._entry(codec, user_id, offset) for offset, user_id in enumerate(some)]
            yield {
                "eventSource": "aws:kafka",
                "bootstrapServers": "localhost",
                "records": {f"{self.topic}-0": entries},
            }

    def _entry(self, codec: Codec, user_id: int, offset: int) -> dict[str, Any]:
        record = self.record(user_id)
        value = codec.encode(self.topic, type(record).__name__, record.to_avro())
        trace = traces.begun_by(str(user_id))
        # The first record of a send has no trace.
        headers = [] if isinstance(record, SendRequested) else trace.headers
        return {
            "topic": self.topic,
            "partition": 0,
            "offset": offset,
            "timestamp": round(time.time() * 1000),
            "timestampType": "CREATE_TIME",
            "key": base64.b64encode(str(uuid4()).encode()).decode(),
            "value": base64.b64encode(value).decode(),
            "headers": [{name: list(text)} for name, text in headers],
        }


def tenant_of(user_id: int) -> int:
    return FIRST_TENANT + user_id % TENANTS


def _send(user_id: int) -> SendRequested:
    return SendRequested(
        type="news",
        club_id=tenant_of(user_id),
        timestamp=round(time.time() * 1000),
        to_users=[user_id],
        send_id=str(uuid4()),
        channels=["push"],
        data=TEXT,
    )


def _derived(user_id: int, channel: str) -> dict[str, Any]:
    """Return the fields that build and delivery records have in common."""
    return {
        "record_id": str(uuid4()),
        "parent_id": str(uuid4()),
        "send_id": str(uuid4()),
        "chunk_index": 0,
        "range_start": 0,
        "range_end": 1,
        "club_id": tenant_of(user_id),
        "type": "news",
        "timestamp": round(time.time() * 1000),
        "channel": channel,
        "positions": [0],
        "user_ids": [user_id],
    }


def _build(user_id: int) -> BuildRequested:
    return BuildRequested(**_derived(user_id, "push"), data=TEXT)


def _delivery(user_id: int, channel: str, texts: dict[str, str]) -> DeliveryRequested:
    return DeliveryRequested(
        **_derived(user_id, channel),
        built_at=round(time.time() * 1000),
        addresses=[f"user{user_id}@example.com"] if channel == "email" else [],
        content=[ContentColumn(field=name, values=[text], index=[]) for name, text in texts.items()],
    )


def _push(user_id: int) -> DeliveryRequested:
    return _delivery(user_id, "push", TEXT)


def _email(user_id: int) -> DeliveryRequested:
    return _delivery(user_id, "email", {"subject": TEXT["title"], "text": TEXT["body"]})


def _personal_email(user_id: int) -> DeliveryRequested:
    text = f"Hello Müller {user_id},\n\nwe lead by one. You have {user_id % 977} points.\n\nYour club"
    return _delivery(user_id, "email", {"subject": f"Goal, Ada {user_id}!", "text": text})


def _delivered(name: str, record: Callable[[int], DeliveryRequested]) -> Case:
    topic = topics.in_lane(topics.DELIVERY, Lane.SMALL)
    return Case(name=name, function="delivery", topic=topic, output=topics.OUTCOME, record=record, publishes=True)


CASES: Sequence[Case] = (
    Case(
        name="preference_checker",
        function="preference_checker",
        topic=topics.SEND_MONOLITH,
        output=topics.in_lane(topics.BUILD, Lane.SMALL),
        record=_send,
    ),
    Case(
        name="builder",
        function="builder",
        topic=topics.in_lane(topics.BUILD, Lane.SMALL),
        output=topics.in_lane(topics.DELIVERY, Lane.SMALL),
        record=_build,
    ),
    _delivered("delivery, push", _push),
    _delivered("delivery, e-mails of one content", _email),
    _delivered("delivery, e-mails of a content each", _personal_email),
)
