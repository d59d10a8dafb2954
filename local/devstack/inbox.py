"""The command `masscomm inbox`: it shows the messages of users, as the device or the mailbox received them."""

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property

from rich.text import Text

from cli.sending import recipients
from cli.terminal import Terminal, print_json
from local.devstack.config import SMS_FILE, StackConfig
from local.devstack.demo import provider
from local.devstack.demo.records import Published, PublishTimes, RecordsError
from local.devstack.handle import RunningStack
from masscomm.cdc.progress import KafkaCdcProgress
from masscomm.channels.email import mail_domain_in_ascii
from masscomm.clock import SystemClock
from masscomm.directory.bulk_writes import connect
from masscomm.directory.chosen import STATE
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.directory.port import Directory
from masscomm.directory.state import StateDirectory
from masscomm.domain.channels import CHANNELS
from masscomm.domain.ids import notification_id
from masscomm.domain.phone_numbers import e164
from masscomm.domain.sms_settings import read_sms
from masscomm.errors import Retry
from masscomm.safe_yaml import parse_yaml

POLL_S = 1.0
# The number of messages that are shown if no user is named.
LATEST = 20


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message that a user received on one device or at one address."""

    user_id: int
    channel: str
    # None: the message is none of masscomm's.
    notification_id: str | None
    # The receiver: "device 421 (gcm)", the e-mail address, or the phone number.
    receiver: str
    title: str
    text: str
    # The link with which the recipient unsubscribes by one click; None: there is none.
    unsubscribe_link: str | None = None
    # The deep link of a push; None: it has none.
    url: str | None = None
    # The time at which it was published, in ms since the epoch; None until its outcome has been emitted.
    at_ms: int | None = field(default=None, compare=False)

    def rendered(self) -> Text:
        """Return the message as text for a terminal, with its local time."""
        at = "" if self.at_ms is None else _local_time(self.at_ms)
        head = f"{at}{self.channel} to user {self.user_id}, {self.receiver}"
        body = "\n".join(f"  {line}" for line in self.text.rstrip().splitlines())
        note = "" if self.url is None else f"  link {self.url}\n"
        note += "  no notification" if self.notification_id is None else f"  notification {self.notification_id}"
        if self.unsubscribe_link is not None:
            note += f"\n  unsubscribe {self.unsubscribe_link}"
        title = f"  {self.title}\n" if self.title else ""
        return Text.assemble((head, "cyan"), "\n", (title, "bold"), body, "\n", (note, "dim"))


@dataclass(frozen=True)
class Inbox:
    """The messages of some users in the local stack, or the latest of all users.

    Every method raises Retry if the directory or Kafka does not answer, and httpx.HTTPError if the provider does not.
    """

    config: StackConfig
    # None: the users of the latest messages.
    user_ids: Sequence[int] | None

    @cached_property
    def _directory(self) -> Directory:
        if self.config.directory == STATE:
            return StateDirectory([self.config.directory_state_url], token=lambda: self.config.directory_state_token)
        return OpenSearchDirectory(
            connect(self.config.opensearch_url), progress=KafkaCdcProgress.from_environment, clock=SystemClock()
        )

    @cached_property
    def _times(self) -> PublishTimes:
        return PublishTimes(self.config.kafka_bootstrap, self.config.registry_url, self.user_ids)

    def close(self) -> None:
        """Close the connection to Kafka."""
        if "_times" in self.__dict__:
            self._times.close()

    def messages(self) -> list[Message]:
        """Return all messages since the provider was started, in the order of their times. If no users are named, only
        the LATEST notifications that have an outcome, and what else was sent to their users.
        """
        if self.user_ids is not None:
            found = self._received(self.user_ids)
            published = self._published() if found else {}
        else:
            latest = sorted(self._published().items(), key=lambda item: item[1].at_ms)[-LATEST:]
            published = dict(latest)
            users = {each.user_id for each in published.values()}
            received = self._received(sorted(users))
            found = [each for each in received if each.notification_id is None or each.notification_id in published]
        timed = [
            replace(each, at_ms=at.at_ms) if (at := published.get(each.notification_id or "")) else each
            for each in found
        ]
        return sorted(timed, key=lambda message: math.inf if message.at_ms is None else message.at_ms)

    def _published(self) -> Mapping[str, Published]:
        try:
            return self._times.all()
        except RecordsError as error:
            raise Retry(str(error)) from error

    def _received(self, user_ids: Sequence[int]) -> list[Message]:
        users = self._directory.users(user_ids)
        found = []
        for user_id, devices in self._directory.devices(user_ids).items():
            for device in devices:
                if device.endpoint_arn is not None:
                    receiver = f"device {device.device_id} ({device.platform})"
                    calls = provider.pushes_to(self.config.aws_url, device.endpoint_arn)
                    found += [_message(user_id, receiver, call) for call in calls]
        mailboxes = {_mailbox(user.email): user.user_id for user in users.values() if user.email}
        if mailboxes:
            found += _messages_to(mailboxes, provider.emails(self.config.sms_url))
        clubs = read_sms(parse_yaml(SMS_FILE.read_text()))
        numbers = {
            number: user.user_id
            for user in users.values()
            if user.phone and (number := e164(user.phone, clubs.club(user.club_id).region))
        }
        if numbers:
            found += _messages_to(numbers, provider.texts(self.config.sms_url))
        return found

    def of_send(self, send_id: str) -> list[Message]:
        """Return the messages of one send to the named users, without their times: the provider has a message before
        its outcome is emitted.
        """
        users = self.user_ids or ()
        wanted = {notification_id(send_id, user_id, channel) for user_id in users for channel in CHANNELS}
        return [message for message in self._received(users) if message.notification_id in wanted]

    def follow(self) -> Iterator[Message]:
        """Yield all messages, then each new one as it arrives; the iterator never ends."""
        unseen = Unseen()
        while True:
            yield from unseen.of(self.messages())
            time.sleep(POLL_S)


class Unseen:
    """The messages that the reads before did not have. A duplicate is a message of its own."""

    def __init__(self) -> None:
        self._seen: Counter[Message] = Counter()

    def of(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield the new ones among the messages of a read."""
        found: Counter[Message] = Counter()
        for message in messages:
            found[message] += 1
            if found[message] > self._seen[message]:
                yield message
        self._seen = found


def show(user: str | None, *, follow: bool, as_json: bool) -> None:
    """Implement `masscomm inbox`."""
    console = Terminal()
    with closing(Inbox(RunningStack.here().config, None if user is None else recipients(user))) as inbox:
        messages = inbox.follow() if follow else iter(inbox.messages())
        number = 0
        for number, message in enumerate(messages, 1):  # noqa: B007 - counted on the way
            print_json(asdict(message)) if as_json else console.print(message.rendered(), soft_wrap=True)
    if not as_json and not number:
        console.print("No message reached a device or a mailbox.")
    if not as_json and user is None:
        console.print("The latest of all users, the newest last. One user's: masscomm inbox --user 42", style="dim")


def _local_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S ")


def _mailbox(address: str) -> str:
    """Return the address in the form in which SES received it. An invalid address is returned unchanged, because no
    e-mail was sent to it.
    """
    try:
        return mail_domain_in_ascii(address)
    except ValueError:
        return address


def _messages_to(users: Mapping[str, int], calls: Iterable[provider.Call | provider.Foreign]) -> Iterator[Message]:
    """Yield the messages to the addresses of users."""
    return (_message(users[call.target], call.target, call) for call in calls if call.target in users)


def _message(user_id: int, receiver: str, call: provider.Call | provider.Foreign) -> Message:
    if isinstance(call, provider.Foreign):
        return Message(
            user_id=user_id,
            channel=call.channel,
            notification_id=None,
            receiver=receiver,
            title="Not a message of masscomm",
            text=call.text,
        )
    return Message(
        user_id=user_id,
        channel=call.channel,
        notification_id=call.notification_id,
        receiver=receiver,
        title=call.title,
        text=call.text,
        unsubscribe_link=call.unsubscribe_link,
        url=call.url,
    )
