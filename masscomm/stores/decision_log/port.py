"""The decision log stores the first decisions about a record's recipients, so that every redelivery uses the same
ones.

The decisions about a record lead to several records: outcome records for some recipients, and derived records for the
others. A function can be killed between producing two of them, and settings, users and templates can change before the
redelivery. Therefore the decisions are recorded before any record is produced, with one conditional write per record
for any number of recipients. The function then produces records from the recorded decisions, so that each recipient has
exactly one outcome.

For a single recipient on one channel, only one record is produced: a crash cannot separate two records, and no decision
is recorded, unless frequency caps apply: a redelivery could get another decision. The delivery ledger detects a
producer that reused such a record's id for another user.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from masscomm.domain.preferences import Decision
from masscomm.domain.statuses import Reason, Status
from masscomm.errors import OtherContent, OtherRecipients


class Decisions(NamedTuple):
    """The decisions about the recipients of one record."""

    # The positions (indices in the send's list of users) and the user ids of all recipients.
    positions: Sequence[int]
    user_ids: Sequence[int]
    # Channel → position → the decision about a recipient that is in no derived record.
    by_channel: Mapping[str, Mapping[int, Decision]]
    # The range [start, end) of positions of each derived record, in which recipients without a final decision continue.
    # Only the builder records these ranges.
    parts: tuple[tuple[int, int], ...] = ()
    # The digest of the record's content. An empty digest is not compared.
    content: str = ""


class DecisionLog(Protocol):
    """The store of decisions, which are kept for DECISIONS_KEPT_S. Raises Retry (down, slow) or Stop (no table, or
    access denied).
    """

    def put_if_absent(self, record_id: str, packed: bytes) -> bytes:
        """Record the decisions, of any size, if none are recorded for the record; return the recorded ones."""
        ...

    def find(self, record_id: str) -> bytes | None:
        """Return the recorded decisions about a record; None if there are none."""
        ...


def record_decisions(
    log: DecisionLog, record_id: str, decisions: Decisions, *, is_single_recorded: bool = False
) -> Decisions:
    """Record the decisions, or return those that an earlier delivery of the record recorded. The decision about a
    single recipient is recorded if `is_single_recorded`.

    Raises the errors of DecisionLog, and OtherRecipients if the recorded decisions are about other recipients.
    """
    if len(decisions.positions) < 2 and not is_single_recorded:
        return decisions
    packed = _pack(decisions)
    recorded = log.put_if_absent(record_id, packed)
    return decisions if recorded == packed else _unpack(recorded, decisions)  # guard: decisions.first_write_wins


def unpack_decisions(packed: bytes, *, positions: Sequence[int], user_ids: Sequence[int]) -> Decisions:
    """Return the recorded decisions about a record with these recipients. Raises OtherRecipients if they are about
    others.
    """
    return _unpack(packed, Decisions(positions=positions, user_ids=user_ids, by_channel={}))


def _pack(decisions: Decisions) -> bytes:
    """Pack the decisions: each distinct decision once, and in separate columns the versions and the times of the user
    settings, which differ for nearly every user.
    """
    places: dict[tuple[str | int | None, ...], int] = {}
    channels = {}
    for channel, by_position in decisions.by_channel.items():
        index = [0] * len(decisions.positions)
        versions, changed = [], []
        for row, position in enumerate(decisions.positions):
            decision = by_position.get(position)
            if decision is not None:
                until = () if decision.until_ms is None else (decision.until_ms,)
                text = (decision.status, decision.reason, decision.layer, decision.rule, *until)
                index[row] = places.setdefault(text, len(places) + 1)
                versions.append(decision.settings_version)
                changed.append(decision.settings_changed_at)
        channels[channel] = [index, versions, changed]
    document = {
        "of": _recipients(decisions),
        "decisions": list(places),
        "channels": channels,
        "parts": decisions.parts,
        **({"content": decisions.content} if decisions.content else {}),
    }
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode())


def _unpack(packed: bytes, now: Decisions) -> Decisions:
    document = json.loads(zlib.decompress(packed))
    if document["of"] != _recipients(now):
        raise OtherRecipients
    recorded = document.get("content")
    if now.content and recorded and now.content != recorded:  # guard: decisions.other_content
        raise OtherContent
    by_channel: dict[str, dict[int, Decision]] = {}
    for channel, (index, versions, changed, *_) in document["channels"].items():
        settings_of = zip(versions, changed, strict=True)
        by_channel[channel] = {
            position: _decision(document["decisions"][place - 1], *next(settings_of))
            for position, place in zip(now.positions, index, strict=True)
            if place
        }
    return now._replace(by_channel=by_channel, parts=tuple((start, end) for start, end, *_ in document["parts"]))


def _decision(text: Sequence[Any], version: int | None, changed_at: int | None) -> Decision:
    status, reason, layer, rule, *until = text
    return Decision(
        Status(status),
        None if reason is None else Reason(reason),
        layer,
        rule,
        version,
        until_ms=until[0] if until else None,
        settings_changed_at=changed_at,
    )


def _recipients(decisions: Decisions) -> str:
    """Return a digest of the recipients, to detect two records with the same id and different recipients."""
    text = json.dumps([list(decisions.positions), list(decisions.user_ids)])
    return blake2b(text.encode(), digest_size=16).hexdigest()
