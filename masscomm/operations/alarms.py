"""Reads the states of the installation's alarms. ops/alarms/table.py has the alarms themselves."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from masscomm.aws import sdk
from masscomm.aws.request import Limits
from masscomm.aws.sdk_errors import answering
from masscomm.errors import Retry, Stop

# One attempt more, because the caller waits.
_LIMITS = Limits(connections=1, connect_s=1, read_s=5, attempts=2)
_ALARMS_A_PAGE = 100
_REFUSED = {"AccessDenied", "AccessDeniedException", "InvalidClientTokenId", "UnrecognizedClientException"}
# The end of a description; ops/alarms/rules.py writes it.
_RUNBOOK = re.compile(r"\s*Runbook: docs/runbooks/([a-z-]+)\.md\s*\Z")


class AlarmState(StrEnum):
    """The state of an alarm."""

    ALARM = "alarm"  # The metric is beyond its threshold.
    OK = "ok"
    INSUFFICIENT_DATA = "insufficient_data"  # The metric has too few values.


@dataclass(frozen=True, kw_only=True)
class Alarm:
    # The name without the environment's prefix.
    name: str
    state: AlarmState
    # The time at which this state began, in ms since the epoch.
    since_ms: int
    description: str
    # The name of the file in docs/runbooks, without the suffix; None if the description names none.
    runbook: str | None


class Alarms(Protocol):
    """Methods raise Retry (down, slow) or Stop (no permission)."""

    def states(self) -> Sequence[Alarm] | None:
        """Return every alarm of the installation; None if nothing evaluates alarms for it."""
        ...


def alarms_from_environment() -> Alarms:
    """Return the alarms in CloudWatch whose names begin with ALARM_PREFIX; without it, as in the local stack, nothing
    evaluates alarms.
    """
    prefix = os.environ.get("ALARM_PREFIX")
    return CloudWatchAlarms(prefix) if prefix else InMemoryAlarms(None)


class CloudWatchAlarms:
    """The alarms of one installation in CloudWatch. It connects at the first call."""

    def __init__(self, prefix: str, client: Any = None) -> None:
        self._prefix, self._client = prefix, client

    def states(self) -> Sequence[Alarm]:
        from botocore.exceptions import ClientError

        if self._client is None:
            self._client = sdk.client("cloudwatch", _LIMITS)
        found: list[Alarm] = []
        request = {"AlarmNamePrefix": self._prefix, "AlarmTypes": ["MetricAlarm"], "MaxRecords": _ALARMS_A_PAGE}
        with answering("CloudWatch"):
            try:
                while True:
                    answer = self._client.describe_alarms(**request)
                    found += [self._alarm(each) for each in answer["MetricAlarms"]]
                    if not answer.get("NextToken"):
                        return found
                    request["NextToken"] = answer["NextToken"]
            except ClientError as error:
                code = error.response.get("Error", {}).get("Code", "")
                raise (Stop if code in _REFUSED else Retry)(f"CloudWatch answered {code}: {error}") from error

    def _alarm(self, found: dict[str, Any]) -> Alarm:
        description = found.get("AlarmDescription") or ""
        runbook = _RUNBOOK.search(description)
        # Not every response has the time of the transition; the other also changes with the evaluation.
        since: datetime = found.get("StateTransitionedTimestamp") or found["StateUpdatedTimestamp"]
        return Alarm(
            name=found["AlarmName"].removeprefix(self._prefix),
            state=AlarmState(found["StateValue"].lower()),
            since_ms=int(since.timestamp() * 1000),
            description=_RUNBOOK.sub("", description),
            runbook=None if runbook is None else runbook[1],
        )


class InMemoryAlarms:
    """Alarms that a test sets; None: nothing evaluates alarms."""

    def __init__(self, alarms: Sequence[Alarm] | None) -> None:
        self._alarms = alarms

    def states(self) -> Sequence[Alarm] | None:
        return self._alarms
