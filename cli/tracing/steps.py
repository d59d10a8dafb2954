"""The steps of a trace, and the trace itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """The source of a step."""

    RECORD = "record"  # A record in a topic.
    DECISION = "decision"  # A decision in the decision log.
    LEDGER = "ledger"  # A result in the delivery ledger.
    WAITING = "waiting"  # A record in the delay store.
    SPAN = "span"  # A function's span for one record, from its log.
    LINE = "line"  # A line in a function's log.


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The subject of a trace: a send, or one of its notifications."""

    send_id: str
    user_id: int | None = None  # The user and the channel of a notification; None for a whole send.
    channel: str | None = None

    def concerns(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record belongs to the subject."""
        if record.get("send_id") != self.send_id:
            return False
        if self.user_id is None:
            return True
        if self.channel not in (record.get("channel", self.channel), *record.get("channels", ())):
            return False
        return self.user_id in (record.get("user_ids") or record.get("to_users") or (record.get("user_id"),))


@dataclass(frozen=True, kw_only=True)
class Step:
    """One event in the history of a send."""

    at_ms: int  # The time in milliseconds since the epoch.
    kind: Kind
    where: str  # The source: topic-partition@offset, or table/key.
    function: str  # The function that caused the event.
    description: str  # The event in one sentence.
    details: Mapping[str, Any] = field(default_factory=dict)  # Further fields for the JSON output.


@dataclass(frozen=True, kw_only=True)
class Trace:
    """All steps of the subject, oldest first."""

    asked: Asked
    trace_ids: tuple[str, ...]  # The trace ids in the headers of the records.
    steps: tuple[Step, ...]

    def as_dict(self) -> dict[str, Any]:
        asked = self.asked
        return {
            "send_id": asked.send_id,
            "user_id": asked.user_id,
            "channel": asked.channel,
            "trace_ids": list(self.trace_ids),
            "steps": [
                {
                    "at_ms": step.at_ms,
                    "kind": step.kind.value,
                    "where": step.where,
                    "function": step.function,
                    "said": step.description,
                    "details": dict(step.details),
                }
                for step in self.steps
            ],
        }
