"""A made-up channel, `letter`, in a copy of the tree: `print_facts` runs there and prints the results of its sends."""

import json
from typing import Any

from masscomm.channels.rate_limiter import RateLimiter
from masscomm.channels.senders import Notification, Sender
from masscomm.domain.provider_errors import Rejected
from masscomm.domain.users import Device, Template, User, UserSettings
from masscomm.kafka import topics
from tests.support.harness.chain import send
from tests.support.harness.delivery import Delivery, rate_limiters
from tests.support.harness.whole_chain import ThreeSteps

ENTRY = """            Channel(
                name="letter",
                fields=(
                    MessageField(name="heading", column="title", one_line=True),
                    MessageField(name="words", column="body"),
                ),
                user_field="phone",
                quota_per_s=3,
            ),
"""
# User 1 gets the letter, 2 has opted out, 3 has no address, and the provider refuses 4.
USERS = range(1, 5)


class InMemoryLetters(Sender):
    """The adapter of the channel's provider."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, str]] = []

    async def send(self, notification: Notification, target: Device | str) -> str:
        """Send the letter to an address; the address of user 4 is refused."""
        if not isinstance(target, str):
            raise TypeError("a letter goes to an address")
        if target.endswith("4"):
            raise Rejected("no such address")
        self.sent.append((target, notification.text("heading"), notification.text("words")))
        return f"letter-{len(self.sent)}"


class LetterChain(ThreeSteps):
    """The chain's three steps with the made-up channel."""

    def __init__(self) -> None:
        self.letters = InMemoryLetters()
        super().__init__()
        for user_id in USERS:
            address = None if user_id == 3 else f"+3460000000{user_id}"
            self.directory.put(User(user_id=user_id, club_id=7, phone=address), UserSettings(user_id=user_id))
        self.directory.put(
            UserSettings(user_id=2, channels={"letter": False}),
            Template(
                template_id=1, club_id=None, type="news", channel="letter", locale="en", title="Dear", body="member"
            ),
        )

    def senders(self) -> dict[str, Sender]:
        return super().senders() | {"letter": self.letters}

    def facts(self) -> dict[str, Any]:
        redelivered = self.drive(send(USERS, channels=["letter"]), topics.SEND_API)
        results = {
            user_id: [result.status, result.reason]
            for outcome in self.outcomes()
            for user_id, index in zip(outcome.user_ids, outcome.result_index, strict=True)
            for result in [outcome.results[index]]
        }
        return {
            "redelivered": redelivered,
            "dead_letters": len(self.dead_letters()),
            "sent": self.letters.sent,
            "results": results,
            "fields": sorted({column.field for delivery in self.deliveries() for column in delivery.content}),
        }


def print_facts() -> None:
    """Print, as JSON, the lists that derive from the channels and the results of a send on the new one."""
    from functions.send_handler.send_request import SendRequest
    from infra.cdk.config import ProviderConfig
    from masscomm.channels.provider_calls import Caller
    from masscomm.domain.channels import CHANNELS
    from masscomm.domain.limits import FIELDS_OF_SEND
    from masscomm.errors import Stop
    from masscomm.observability.metric_names import ALL, PROVIDER_CALLS
    from masscomm.rendering.templates import literal_fields

    chain = LetterChain()
    facts = chain.facts()
    try:
        Caller(senders=Delivery().senders(), clock=chain.clock)
        without_sender = "accepted"
    except Stop as error:
        without_sender = str(error)
    literal = literal_fields("letter", {"title": "t", "body": "b"})
    limiters: dict[str, RateLimiter] = rate_limiters(chain.clock)
    print(  # noqa: T201
        json.dumps(
            facts
            | {
                "api": SendRequest.model_json_schema()["properties"]["channels"]["items"]["anyOf"][0]["enum"],
                "metrics": [name for name in ALL if name.startswith("Letter")],
                "counted": PROVIDER_CALLS["letter"].name,
                "quota": ProviderConfig().per_s["letter"],
                "setting": CHANNELS["letter"].rate_setting,
                "limiters": sorted(limiters),
                "literal": [field.name for field in literal or ()],
                "without_sender": without_sender,
                "limit": FIELDS_OF_SEND["channels"].entries,
            }
        )
    )
