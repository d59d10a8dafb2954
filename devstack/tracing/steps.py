"""What a trace is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """Where a step was found."""

    RECORD = "record"  # in a topic
    DECISION = "decision"  # in the decision log
    LEDGER = "ledger"  # in the delivery ledger
    WAITING = "waiting"  # in the delay store
    SPAN = "span"  # in a function's log: what it did about one record
    LINE = "line"  # in a function's log


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked about. user_id, channel: of a notification; None for a whole send."""

    send_id: str
    user_id: int | None = None
    channel: str | None = None

    def concerns(self, record: Mapping[str, Any]) -> bool:
        """Whether a record's fields speak of it."""
        if record.get("send_id") != self.send_id:
            return False
        if self.user_id is None:
            return True
        if self.channel not in (record.get("channel", self.channel), *record.get("channels", ())):
            return False
        return self.user_id in (record.get("user_ids") or record.get("to_users") or (record.get("user_id"),))


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that happened.

    at_ms: since the epoch; where: topic-partition@offset, or table/key; function: who did it; said: one sentence;
    details: for programs.
    """

    at_ms: int
    kind: Kind
    where: str
    function: str
    said: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Everything that was found, oldest first. trace_ids: as the records' headers say."""

    asked: Asked
    trace_ids: tuple[str, ...]
    steps: tuple[Step, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
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
                    "said": step.said,
                    "details": dict(step.details),
                }
                for step in self.steps
            ],
        }
