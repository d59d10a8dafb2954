"""GET /v1/alarms: the alarms of the installation, those that ring first."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypedDict

from masscomm.clock import Clock
from masscomm.http.parameters import Reader, time_of_ms
from masscomm.operations.alarms import Alarms, AlarmState

_ORDER = (AlarmState.ALARM, AlarmState.INSUFFICIENT_DATA, AlarmState.OK)


class AlarmRow(TypedDict):
    """An alarm."""

    name: str
    state: Literal["alarm", "ok", "insufficient_data"]
    since: str
    """The time at which this state began."""
    description: str
    runbook: str | None
    """The name of the file in docs/runbooks, without `.md`."""


class AlarmsBody(TypedDict):
    """The alarms of the installation."""

    evaluated: bool
    """Whether alarms are evaluated. false: the state of this installation's alarms is unknown, as in the local
    stack."""
    rows: list[AlarmRow]
    """Those that ring first, then those with too few values; in each state the latest change first."""
    generated_at: str


@dataclass(frozen=True)
class AlarmsRoute:
    alarms: Alarms
    clock: Clock

    def answer(self, parameters: Mapping[str, list[str]]) -> AlarmsBody:
        """Return the response body. Raises Problem with status 400 for any parameter, Retry or Stop."""
        Reader(parameters).check()
        states = self.alarms.states()
        rows = sorted(states or (), key=lambda each: (_ORDER.index(each.state), -each.since_ms, each.name))
        return {
            "evaluated": states is not None,
            "rows": [
                {
                    "name": each.name,
                    "state": each.state.value,
                    "since": time_of_ms(each.since_ms),
                    "description": each.description,
                    "runbook": each.runbook,
                }
                for each in rows
            ],
            "generated_at": time_of_ms(self.clock.now_ms()),
        }
