"""Steps of a trace, and the trace itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """The source of a step."""

    RECORD = "record"  # in a topic
    DECISION = "decision"  # in the decision log
    LEDGER = "ledger"  # in the delivery ledger
    WAITING = "waiting"  # in the delay store
    SPAN = "span"  # in a function's log: its work on one record
    LINE = "line"  # in a function's log


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The subject of a trace: a send, or one of its notifications."""

    send_id: str
    user_id: int | None = None  # user_id and channel: None for a whole send
    channel: str | None = None

    def concerns(self, record: Mapping[str, Any]) -> bool:
        """Whether a record belongs to the subject."""
        if record.get("send_id") != self.send_id:
            return False
        if self.user_id is None:
            return True
        if self.channel not in (record.get("channel", self.channel), *record.get("channels", ())):
            return False
        return self.user_id in (record.get("user_ids") or record.get("to_users") or (record.get("user_id"),))


@dataclass(frozen=True, kw_only=True)
class Step:
    """One event of a trace."""

    at_ms: int  # since the epoch
    kind: Kind
    where: str  # topic-partition@offset, or table/key
    function: str  # the function that caused it
    said: str  # one sentence
    details: Mapping[str, Any] = field(default_factory=dict)  # for programs


@dataclass(frozen=True, kw_only=True)
class Trace:
    """All steps of the subject, oldest first."""

    asked: Asked
    trace_ids: tuple[str, ...]  # from the records' headers
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
