"""Random records of sends: chunks, derived records, redeliveries, late and reordered records, poison."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from masscomm.domain import ids
from masscomm.domain.categories import resolve_channels
from tests.support.spark.metrics_topics import Topics


@dataclass
class Producing:
    """Produces random records; some are delayed, some are redelivered later."""

    topics: Topics
    rng: random.Random
    later: list[tuple[str, bytes]] = field(default_factory=list)

    def step(self, sends: int) -> float:
        """Produce this many sends and half of the delayed records. Returns a later time, in seconds since the epoch."""
        now = int(time.time() * 1000)
        records = [record for _ in range(sends) for record in self._send(now)]
        for record in records:
            self.later += [record] * self.rng.choice([0, 0, 0, 0, 1, 2])
        held_back = [self.later.pop(self.rng.randrange(len(self.later))) for _ in range(len(self.later) // 2)]
        records += held_back
        self.rng.shuffle(records)
        kept = records[: len(records) // 10]
        self.later += kept
        for topic, value in records[len(kept) :]:
            self.topics.put(topic, value)
        for topic in ("send.api", "outcome", "delivery", "device_status"):
            self.topics.put(topic, self.rng.choice(self.topics.poison(topic)))
        return self.topics.flush()

    def last(self) -> float:
        for topic, value in self.later:
            self.topics.put(topic, value)
        self.later.clear()
        return self.topics.flush()

    def _send(self, now: int) -> Iterator[tuple[str, bytes]]:
        rng = self.rng
        lane, category = (
            rng.choice(["", ".critical"]),
            rng.choice(["news", "newsletter", "security_alert", "unheard of"]),
        )
        send_id, club_id = str(UUID(int=rng.getrandbits(128))), rng.randrange(3)
        shared: dict[str, Any] = {"send_id": send_id, "club_id": club_id, "type": category}
        shared |= {"template": rng.choice([None, 'a "quoted\\ one']), "locale": rng.choice([None, "de", "fr-CH"])}
        chunks = rng.randrange(1, 3)
        for index in range(chunks):
            users = [rng.randrange(200) for _ in range(rng.randrange(40))]
            at_ms = now - rng.choice([0, 0, 0, 90_000, 3_700_000, 90_000_000, -200_000_000])
            topic = rng.choice(["send.monolith", "send.api"]) + lane
            chunk = {"chunk_index": index, "chunk_count": chunks, "timestamp": at_ms, "to_users": users}
            yield topic, self.topics.own(topic, "SendRequested", shared | chunk)
            for channel in resolve_channels(category, [], club_id, at_ms):
                yield from self._steps(shared | {"chunk_index": index, "channel": channel}, users, lane, now)

    def _steps(self, shared: dict[str, Any], users: list[int], lane: str, now: int) -> Iterator[tuple[str, bytes]]:
        """Make the functions' records of a chunk: some recipients are held or suppressed, the others are sent to."""
        rng, parent = self.rng, ids.chunk_id(shared["send_id"], shared["chunk_index"])
        at_ms = now - rng.choice([0, 0, 0, 90_000, 3_700_000, 90_000_000])
        common = shared | {"parent_id": parent, "range_start": 0, "range_end": 500}
        places = [users.index(user) for user in dict.fromkeys(users)]
        out = {
            place: rng.choice([("suppressed", "opted_out"), ("held", None)]) for place in places if rng.random() < 0.3
        }

        def outcome(step: str, said: dict[int, tuple[str, str | None]], when: int) -> tuple[str, bytes]:
            results = list(dict.fromkeys(said.values()))
            # Clocks differ, a record of an earlier version has no such time, and a producer may set any.
            due_at = None if step == "preference" else rng.choice([None, when - rng.randrange(200_000), now, -(2**62)])
            value = {
                "record_id": ids.derived_id(parent, f"outcome.{step}", shared["channel"], 0, 500),
                "step": step,
                "timestamp": when,
                "requested_at": now,
                "positions": list(said),
                "user_ids": [users[place] for place in said],
                "results": [
                    {"status": status, "reason": reason, "count": list(said.values()).count((status, reason))}
                    for status, reason in results
                ],
                "result_index": [results.index(result) for result in said.values()],
                "due_at": due_at,
            }
            return "outcome", self.topics.own("outcome", "NotificationOutcome", common | value)

        if out:
            yield outcome("preference", out, at_ms)
        queued = [place for place in places if out.get(place, ("held",))[0] == "held"]
        if queued:
            built = {
                "record_id": ids.derived_id(parent, "delivery", shared["channel"], 0, 500),
                "timestamp": now,
                "built_at": at_ms,
                "positions": queued,
                "user_ids": [users[place] for place in queued],
                "content": [],
            }
            yield f"delivery{lane}", self.topics.own(f"delivery{lane}", "DeliveryRequested", common | built)
            endings: list[tuple[str, str | None]] = [
                ("sent", None),
                ("failed", "no_template"),
                ("suppressed", "no_device"),
            ]
            yield outcome("delivery", {place: rng.choice(endings) for place in queued}, at_ms + 1000)
            device = {
                "record_id": ids.derived_id(parent, "device_status", shared["channel"], 0, 1),
                "device_id": 1,
                "user_id": users[queued[0]],
                "platform": "gcm",
                "endpoint_arn": "arn:one",
                "status": rng.choice(["inactive", "active"]),
                "reason": None,
                "timestamp": at_ms,
                "club_id": shared["club_id"],
                "send_id": rng.choice([shared["send_id"], ""]),
            }
            yield "device_status", self.topics.own("device_status", "DeviceStatusChanged", device)
