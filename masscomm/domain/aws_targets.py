"""Queues and event buses in accounts of tenants, which receive events in the place of a server.

Source: AWS documentation, "Actions, resources, and condition keys" of Amazon SQS, Amazon EventBridge and IAM.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

# The entries and the bytes of one request: SendMessageBatch and PutEvents accept 10, and 256 kB with all attributes.
MAX_ENTRIES, MAX_REQUEST_BYTES = 10, 240_000
# The beginning of the names of roles that masscomm assumes. Its own role may assume no others.
ROLE_PREFIX = "masscomm-"

_ACCOUNT = r"(?P<account>[0-9]{12})"
_REGION = r"(?P<region>[a-z]{2}(?:-[a-z]{1,12}){1,2}-[0-9]{1,2})"
_ARN = r"arn:aws(?:-cn|-us-gov)?"
_TARGET = re.compile(
    rf"{_ARN}:(?P<service>sqs|events):{_REGION}:{_ACCOUNT}:"
    r"(?P<name>[A-Za-z0-9_-]{1,75}(?:\.fifo)?|event-bus/[A-Za-z0-9_.-]{1,100})"
)
_ROLE = re.compile(rf"{_ARN}:iam::{_ACCOUNT}:role/{ROLE_PREFIX}[A-Za-z0-9_+=,.@-]{{1,55}}")
_BUS = "event-bus/"


class TargetService(StrEnum):
    """The service of a target, as its address and its signatures name it."""

    SQS = "sqs"
    EVENTBRIDGE = "events"


@dataclass(frozen=True, kw_only=True)
class AwsTarget:
    """A queue or an event bus."""

    arn: str
    service: TargetService
    region: str
    account: str
    # The name of the queue, or `event-bus/` and that of the bus.
    name: str

    @property
    def is_fifo(self) -> bool:
        return self.name.endswith(".fifo")

    @property
    def permission(self) -> str:
        """Return the IAM action that it needs."""
        return "sqs:SendMessage" if self.service is TargetService.SQS else "events:PutEvents"


@lru_cache(maxsize=1_000)
def target_of(url: str) -> AwsTarget | None:
    """Return the target of the ARN of a queue or of an event bus; None for any other text."""
    found = _TARGET.fullmatch(url)
    if found is None or (found["service"] == TargetService.EVENTBRIDGE) != found["name"].startswith(_BUS):
        return None
    service = TargetService(found["service"])
    return AwsTarget(arn=url, service=service, region=found["region"], account=found["account"], name=found["name"])


def role_account(arn: object) -> str | None:
    """Return the account of the ARN of a role that masscomm may assume; None for any other value."""
    found = _ROLE.fullmatch(arn) if isinstance(arn, str) else None
    return None if found is None else found["account"]
