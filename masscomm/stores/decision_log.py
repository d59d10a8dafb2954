"""What was decided first of a record, kept outside the function: whoever gets the record again decides the same.

A record's decisions become several records: outcomes of some recipients, and what goes on of the others. Between them a
function can be killed, and when the record is redelivered, settings, users and templates may say something else. So
what was decided is recorded before anything is produced, with one conditional write a record whatever the number of its
recipients, and what stands there is what is produced: each recipient has exactly one outcome or goes on.

Of one recipient on a channel there is one record to produce: nothing can come between, and nothing is kept. That a
producer used its id for another user is found by the delivery ledger.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Protocol

from masscomm.domain.ids import is_record_id
from masscomm.domain.preferences import Decision
from masscomm.domain.statuses import Reason, Status
from masscomm.errors import DeadLetter, OtherRecipients

# Longer than Kafka keeps the records that are decided about (7 days).
KEPT_S = 8 * 86_400


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """What became of a record's recipients.

    positions, user_ids: all of them; by_channel: channel → position → the decision about a recipient that goes no
    further; all others go on;
    parts: ranges [start, end) of positions that what goes on is cut into, where it is.
    """

    positions: Sequence[int]
    user_ids: Sequence[int]
    by_channel: Mapping[str, Mapping[int, Decision]]
    parts: tuple[tuple[int, int], ...] = ()


class DecisionLog(Protocol):
    """Where they are kept, for KEPT_S. Errors: Retry (down, slow), Stop (there is no table, or it refuses us)."""

    def first(self, record_id: str, decided: bytes) -> bytes:
        """What stands for the record: what was recorded before, or this from now on; of any size."""
        ...


def settled(log: DecisionLog, record_id: str, decided: Decisions) -> Decisions:
    """What the record's recipients become: what was recorded first of them, or this.

    Errors: those of DecisionLog; OtherRecipients where another record's were recorded under the id.
    """
    if len(decided.positions) < 2:
        return decided
    packed = _pack(decided)
    standing = log.first(record_id, packed)
    return decided if standing == packed else _unpack(standing, decided)  # guard: decisions.first_write_wins


def unpacked(packed: bytes, *, positions: Sequence[int], user_ids: Sequence[int]) -> Decisions:
    """What was recorded of a record with these recipients. Errors: OtherRecipients."""
    return _unpack(packed, Decisions(positions=positions, user_ids=user_ids, by_channel={}))


def _pack(decided: Decisions) -> bytes:
    """Each distinct decision once; settings' versions, which nearly every user has another of, in a column."""
    places: dict[tuple[str | int | None, ...], int] = {}
    channels = {}
    for channel, by_position in decided.by_channel.items():
        index = [0] * len(decided.positions)
        versions = []
        for row, position in enumerate(decided.positions):
            decision = by_position.get(position)
            if decision is not None:
                until = () if decision.until_ms is None else (decision.until_ms,)
                text = (decision.status, decision.reason, decision.layer, decision.rule, *until)
                index[row] = places.setdefault(text, len(places) + 1)
                versions.append(decision.settings_version)
        channels[channel] = [index, versions]
    document = {
        "of": _recipients(decided),
        "decisions": list(places),
        "channels": channels,
        "parts": decided.parts,
    }
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode())


def _unpack(packed: bytes, now: Decisions) -> Decisions:
    document = json.loads(zlib.decompress(packed))
    if document["of"] != _recipients(now):
        raise OtherRecipients
    by_channel: dict[str, dict[int, Decision]] = {}
    for channel, (index, versions) in document["channels"].items():
        version_of = iter(versions)
        by_channel[channel] = {
            position: _decision(document["decisions"][place - 1], next(version_of))
            for position, place in zip(now.positions, index, strict=True)
            if place
        }
    return replace(now, by_channel=by_channel, parts=tuple((start, end) for start, end in document["parts"]))


def _decision(text: Sequence[Any], version: int | None) -> Decision:
    status, reason, layer, rule, *until = text
    return Decision(Status(status), None if reason is None else Reason(reason), layer, rule, version, *until)


def _recipients(decided: Decisions) -> str:
    """Tells one record's recipients from another's."""
    text = json.dumps([list(decided.positions), list(decided.user_ids)])
    return blake2b(text.encode(), digest_size=16).hexdigest()


class InMemoryDecisionLog:
    """The log's contract in a dictionary, for unit tests.

    failing: raised by every call; calls: how often it was asked.
    """

    def __init__(self) -> None:
        self.decided: dict[str, bytes] = {}
        self.failing: Exception | None = None
        self.calls = 0

    def first(self, record_id: str, decided: bytes) -> bytes:
        self.calls += 1
        if self.failing is not None:
            raise self.failing
        if not is_record_id(record_id):
            raise DeadLetter("invalid", "the record's id is no key")
        return self.decided.setdefault(record_id, decided)
