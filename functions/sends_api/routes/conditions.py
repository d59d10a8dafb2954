"""The conditions of a send's channels, as responses show them."""

from typing import TypedDict

from masscomm.domain.fallbacks import FallbackError, chain_of, waiting_for
from masscomm.domain.pace import spread_text
from masscomm.domain.sends import Send
from masscomm.http.rest import Links

# The name of a field is a keyword of Python.
ConditionOfChannel = TypedDict("ConditionOfChannel", {"channel": str, "waits_for": str, "if": str, "after": str})
ConditionOfChannel.__doc__ = "A channel that waits for another one."
NotificationOfChain = TypedDict(
    "NotificationOfChain", {"channel": str, "if": str | None, "after": str | None, "links": Links}
)
NotificationOfChain.__doc__ = "A notification, with the condition under which it follows the one before it."


def conditions_of(send: Send) -> list[ConditionOfChannel]:
    """Return the channels of a send that wait for another one."""
    try:
        waiting = waiting_for(send.fallbacks, send.channels)
    except FallbackError:  # A later version may have further conditions.
        return []
    return [
        {"channel": channel, "waits_for": earlier, "if": each.condition, "after": spread_text(each.after_ms)}
        for channel, (earlier, each) in waiting.items()
    ]


def chain_of_notification(send: Send, user_id: int, channel: str) -> list[NotificationOfChain]:
    """Return a user's notifications that wait for each other, one of which is on this channel; empty: none waits."""
    try:
        chain = chain_of(send.fallbacks, send.channels, channel)
    except FallbackError:  # A later version may have further conditions.
        return []
    return [
        {
            "channel": name,
            "if": None if each is None else each.condition,
            "after": None if each is None else spread_text(each.after_ms),
            "links": {"self": f"/v1/notifications/{send.key.send_id}.{user_id}.{name}"},
        }
        for name, each in chain
    ]
