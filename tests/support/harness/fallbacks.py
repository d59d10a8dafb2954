"""One send with fallbacks through preference_checker, builder, delivery, receipts and the scheduler."""

from collections import Counter
from typing import Any

from aws_lambda_powertools import Logger

from functions.receipts.process_receipts import ProcessReceipts
from functions.receipts.sent_messages import InMemorySentMessages
from functions.scheduler.release_due_records import ReleaseDueRecords
from masscomm.chain.batch import UseCase
from masscomm.directory.document_publisher import InMemoryDocumentPublisher
from masscomm.domain.records import SendRequested
from masscomm.domain.sends import Send, SendKey, controlled
from masscomm.domain.users import Template
from masscomm.kafka import topics
from masscomm.stores.delayed_records.port import ControlledSend
from masscomm.stores.sends.port import change
from tests.support.harness.chain import SEND_ID, ends, entry, send
from tests.support.harness.receipts import apply_answers
from tests.support.harness.settled_chain import ends_of
from tests.support.harness.whole_chain import ThreeSteps
from tests.support.reputation import reputation

TOPICS = (topics.RECHECK, topics.BUILD, topics.DELIVERY, topics.OUTCOME)
NOT_SENT = '[{"channel":"email","if":"not_sent","after":"10m"}]'
KEY = SendKey(7, SEND_ID)


class FallbackChain(ThreeSteps):
    """The functions in memory. Users 1 to 3 have a device and an e-mail address."""

    def __init__(self) -> None:
        super().__init__()
        self.messages = InMemorySentMessages()
        publisher = InMemoryDocumentPublisher()
        self.receipts = ProcessReceipts(
            frequency_caps=self.frequency_caps,
            reputation=reputation(self.clock),
            messages=self.messages,
            publisher=publisher,
            answers=apply_answers(self, self.messages, publisher, self.directory),
            sends=self.register,
            delay_store=self.delay_store,
            clock=self.clock,
            logger=Logger(),
        )
        self.scheduler = ReleaseDueRecords(
            store=self.delay_store, sends=self.register, producer=self.producer, clock=self.clock, logger=Logger()
        )
        for number, channel in enumerate(("push", "email", "sms")):
            self.directory.put(
                Template(
                    template_id=number, club_id=None, type="news", channel=channel, locale="en", title="T", body="B"
                )
            )
        self._consumed: Counter[str] = Counter()
        # The topics whose records are not consumed for now.
        self.stopped: set[str] = set()

    def request(self, users: list[int], channels: tuple[str, ...] = ("push", "email"), **values: Any) -> None:
        """Process a send with all functions."""
        record = send(users, **{"channels": list(channels), "fallbacks": NOT_SENT} | values)
        self.process(record)

    def process(self, record: SendRequested) -> None:
        assert self.run(self.checker, self.encoded(record, topics.SEND_MONOLITH)) == []
        self.settle()

    def settle(self) -> None:
        """Process the records that are produced, until there is none."""
        use_cases: dict[str, UseCase[Any]] = {
            topics.RECHECK: self.checker,
            topics.BUILD: self.builder,
            topics.DELIVERY: self.use_case,
            topics.OUTCOME: self.receipts,
        }
        while any(self.consume(topic, use_case) for topic, use_case in use_cases.items()):
            pass

    def consume(self, topic: str, use_case: UseCase[Any]) -> bool:
        """Process the new records of a topic; return whether there are any."""
        new = [] if topic in self.stopped else self.of_topic(topic)[self._consumed[topic] :]
        for offset, (name, value, headers) in enumerate(new, start=self._consumed[topic]):
            assert self.run(use_case, entry(value, topic=name, offset=offset, headers=headers)) == []
        self._consumed[topic] += len(new)
        return bool(new)

    def of_topic(self, topic: str) -> list[tuple[str, bytes, list[tuple[str, bytes]]]]:
        """Return name, value and headers of each record that was produced to a topic, in any lane."""
        found = ((name, value or b"", list(headers)) for name, _, value, headers in self.producer.produced)
        return [each for each in found if topics.base_of(each[0]) == topic]

    def again(self, topic: str) -> None:
        """Process all records of a topic once more, as after a crash before their offsets were committed."""
        self._consumed[topic] = 0
        self.settle()

    def after(self, *, minutes: float) -> None:
        """Let time pass, release the due records and process them."""
        self.clock.advance(minutes * 60)
        self.scheduler.sweep(lambda: 60)
        self.settle()

    def control(self, **values: Any) -> None:
        """Change the control of the send."""
        change(self.register, Send(key=KEY), lambda known: controlled(known, **values))
        self.delay_store.put_controlled(ControlledSend(KEY, self.clock.now_ms()))

    def results(self) -> dict[tuple[int, str], tuple[str, str | None]]:
        """Return (user, channel) → (status, reason) of the status with the highest rank."""
        return dict(ends_of(self.outcomes()))

    def of_user(self, user_id: int = 1) -> dict[str, tuple[str, str | None]]:
        """Return channel → (status, reason) of a user."""
        return {channel: result for (user, channel), result in self.results().items() if user == user_id}

    def times_ended(self) -> set[int]:
        """Return how many final statuses notifications have: 1 if each has ended once."""
        return {sum(found.values()) for found in ends(self.outcomes()).values()}

    def mailed(self) -> list[str]:
        """Return the addresses to which e-mails were sent."""
        return sorted(mail.recipient for mail in self.email.sent)
