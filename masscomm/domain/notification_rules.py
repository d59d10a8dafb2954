"""Rules that turn events into sends: a subscription whose destination is a notification.

A rule names a category, the recipients and the variables of the messages. Each event that matches its subscription
becomes a send, whose id is derived from the event and the rule: a repeated event is the same send.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from masscomm.domain.events import value_at
from masscomm.domain.limits import CHUNK_SIZE, FIELDS_OF_SEND, LARGEST_ID
from masscomm.domain.push_options import push_problems
from masscomm.domain.records import EventOccurred
from masscomm.json_reader import read_json

# The members of a rule that name the recipients; it has one of them.
RECIPIENTS = ("users_path", "audience", "unit_attribute")
# The members of a rule, each with the type of its value.
_MEMBERS = {
    "type": str,
    "channels": list,
    "template": str,
    "locale": str,
    "data": dict,
    "push": dict,
    "users_path": str,
    "audience": dict,
    "unit_attribute": str,
}


class RuleRefusal(StrEnum):
    """Why an event becomes no send."""

    # The owner has ended, or has no access to the event's club.
    OWNER = "owner"
    # The owner is a test key.
    TEST_KEY = "test_key"
    # The owner lacks a scope.
    SCOPE = "scope"
    # The installation has no such category.
    CATEGORY = "category"
    # The owner's recipients of the day are used up.
    RECIPIENTS_A_DAY = "recipients_a_day"
    # There are no user ids at users_path.
    NO_RECIPIENTS = "no_recipients"
    # There are more than CHUNK_SIZE user ids at users_path.
    TOO_MANY_RECIPIENTS = "too_many_recipients"
    # The event has no unit, and the recipients are its users.
    NO_UNIT = "no_unit"
    # The variables exceed the limit of a send.
    VARIABLES_TOO_LARGE = "variables_too_large"


class RefusedEvents(NamedTuple):
    """The events that a rule refused for one reason."""

    reason: RuleRefusal
    events: int
    # The time of the last one, in milliseconds since the epoch.
    last_at_ms: int
    # Of the last one: the scope that is missing, or the limit; never a value of the event.
    detail: str = ""


class RuleRefused(Exception):
    """An event becomes no send.

    Attributes:
        reason: The reason.
        detail: As that of RefusedEvents.
    """

    def __init__(self, reason: RuleRefusal, detail: str = "") -> None:
        super().__init__(f"{reason} {detail}".rstrip())
        self.reason, self.detail = reason, detail


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Whose permissions and limits apply to the sends of a rule."""

    # The id of the API key, or another principal that the authorizer set.
    principal: str
    # The authorizer's context of the principal when it made the rule. That of an API key is read for each send.
    context: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class NotificationRule:
    """What the users of an event receive."""

    # The category.
    type: str
    owner: Owner
    channels: Sequence[str] = ()
    template: str | None = None
    locale: str | None = None
    # The name of a variable → the path of its value in data.
    data: Mapping[str, str] = field(default_factory=dict)
    # The options of the pushes (masscomm.domain.push_options).
    push: Mapping[str, Any] | None = None
    # The recipients: the path of a user id or of a list of them in data, an audience, or the attribute of users that
    # has the event's unit. Two of the three are None.
    users_path: str | None = None
    audience: Mapping[str, Any] | None = None
    unit_attribute: str | None = None

    @property
    def body(self) -> dict[str, Any]:
        """Return the rule as requests and responses have it."""
        fields: dict[str, Any] = {"type": self.type}
        lists = {"channels": list(self.channels), "data": dict(self.data)}
        fields |= {name: value for name, value in lists.items() if value}
        others = {name: getattr(self, name) for name in ("template", "locale", "push", *RECIPIENTS)}
        return fields | {name: value for name, value in others.items() if value is not None}

    def to_json(self) -> str:
        owner = {"principal": self.owner.principal, "context": dict(self.owner.context)}
        return json.dumps({**self.body, "owner": owner}, ensure_ascii=False)

    @classmethod
    def of_body(cls, body: Mapping[str, Any], owner: Owner) -> "NotificationRule":
        """Return the rule in a request that was checked."""
        return cls(**{name: body[name] for name in _MEMBERS if name in body}, owner=owner)

    @classmethod
    def of_json(cls, text: str) -> "NotificationRule":
        """Return the rule in a stored text. Raises ValueError if it is malformed."""
        match found := read_json(text):
            case {"type": str(), "owner": {"principal": str(principal), "context": dict(context)}}:
                owner = Owner(principal=principal, context=context)
            case _:
                raise ValueError("a rule has no type or no owner")
        if not all(isinstance(found[name], kind) for name, kind in _MEMBERS.items() if name in found):
            raise ValueError("a rule has a member of another type")
        if push_problems(found.get("push", {})):
            raise ValueError("a rule has invalid options of pushes")
        texts = [*context.values(), *found.get("channels", []), *found.get("data", {}).values()]
        if not all(isinstance(each, str) for each in texts):
            raise ValueError("a rule has a value that is no text")
        if sum(name in found for name in RECIPIENTS) != 1:
            raise ValueError("a rule has one kind of recipients")
        return cls.of_body(found, owner)

    def variables(self, data: Any) -> dict[str, str]:
        """Return the variables of an event's messages. A value that is neither text, number nor boolean is missing.
        Raises RuleRefused.
        """
        found = {name: _text(value_at(data, path)) for name, path in self.data.items()}
        texts = {name: text for name, text in found.items() if text is not None}
        size = sum(len(name.encode()) + len(text.encode()) for name, text in texts.items())
        if size > FIELDS_OF_SEND["data"].max_bytes:
            raise RuleRefused(RuleRefusal.VARIABLES_TOO_LARGE)
        return texts

    def users(self, data: Any) -> list[int]:
        """Return the distinct users at the rule's path. Raises RuleRefused if there is none, or another value."""
        found = value_at(data, self.users_path or "")
        users = found if isinstance(found, list) else [found]
        # guard: rules.recipients_in_data
        if not users or not all(type(each) is int and 1 <= each <= LARGEST_ID for each in users):
            raise RuleRefused(RuleRefusal.NO_RECIPIENTS)
        distinct = list(dict.fromkeys(users))
        if len(distinct) > CHUNK_SIZE:
            raise RuleRefused(RuleRefusal.TOO_MANY_RECIPIENTS)
        return distinct

    def audience_for(self, event: EventOccurred) -> Mapping[str, Any] | None:
        """Return the audience of an event's send; None if its recipients are in data. Raises RuleRefused."""
        if self.unit_attribute is None:
            return self.audience
        if event.unit is None:  # guard: rules.event_without_unit
            raise RuleRefused(RuleRefusal.NO_UNIT)
        return audience_of_unit(self.unit_attribute, event.unit)


def audience_of_unit(attribute: str, unit: str) -> dict[str, Any]:
    """Return the audience of the users whose attribute is a unit."""
    return {"where": {"field": f"attributes.{attribute}", "is": unit}}


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | int | float) else None
