"""Both use cases of the receipts function with in-memory adapters."""

from collections.abc import Sequence
from typing import Any

from aws_lambda_powertools import Logger

from functions.receipts.apply_answers import ApplyAnswers
from functions.receipts.ingest_receipts import IngestReceipts
from functions.receipts.process_receipts import ProcessReceipts
from functions.receipts.sent_messages import InMemorySentMessages, SentMessages
from masscomm.chain.email_pauses import EmailPauses
from masscomm.chain.email_reputation import EmailReputation
from masscomm.directory.change_preferences import ChangePreferences
from masscomm.directory.document_publisher import DocumentPublisher, InMemoryDocumentPublisher
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.directory.preference_changes import InMemoryPreferenceChanges
from masscomm.domain.records import DeviceStatusChanged
from masscomm.domain.suppressions import Periods
from masscomm.domain.time_limits import RECEIPT_RETRY_DELAYS_S
from masscomm.kafka import topics
from masscomm.observability.traces import Headers
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.email_counts.in_memory import InMemoryEmailCounter
from masscomm.stores.frequency_caps.in_memory import InMemoryFrequencyCaps
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.contracts.sent_messages import outcome
from tests.support.harness.chain import Chain, entry
from tests.support.reputation import reputation


def apply_answers(
    chain: Chain, messages: SentMessages, publisher: DocumentPublisher, directory: InMemoryDirectory | None = None
) -> ApplyAnswers:
    """Return the use case that applies answers to SMS."""
    directory = directory or InMemoryDirectory()
    preferences = ChangePreferences(
        directory=directory,
        changes=InMemoryPreferenceChanges(directory.preference_changes),
        publisher=publisher,
        codec=chain.codec,
        producer=chain.producer,
        clock=chain.clock,
    )
    return ApplyAnswers(
        messages=messages, publisher=publisher, directory=directory, preferences=preferences, logger=Logger()
    )


def process_receipts(chain: Chain) -> ProcessReceipts:
    """Return the use case with empty stores."""
    messages, publisher = InMemorySentMessages(), InMemoryDocumentPublisher()
    return ProcessReceipts(
        frequency_caps=InMemoryFrequencyCaps(),
        sends=InMemorySends(chain.clock),
        reputation=reputation(chain.clock),
        messages=messages,
        publisher=publisher,
        answers=apply_answers(chain, messages, publisher),
        delay_store=InMemoryDelayStore(),
        clock=chain.clock,
        logger=Logger(),
    )


class Receipts(Chain):
    """Both use cases of the receipts function. The message m was sent to user 101 at position 500."""

    def __init__(
        self, retry_delays_s: Sequence[float] = RECEIPT_RETRY_DELAYS_S, periods: Periods | None = None
    ) -> None:
        super().__init__()
        self.messages = InMemorySentMessages()
        self.publisher = InMemoryDocumentPublisher()
        self.directory = InMemoryDirectory()
        self.delay_store = InMemoryDelayStore()
        self.frequency_caps = InMemoryFrequencyCaps()
        self.register, self.counter = InMemorySends(self.clock), InMemoryEmailCounter()
        self.audit_log = InMemoryAuditLog()
        self.process = ProcessReceipts(
            frequency_caps=self.frequency_caps,
            reputation=EmailReputation(
                counter=self.counter,
                pauses=EmailPauses(sends=self.register, audit_log=self.audit_log, clock=self.clock, logger=Logger()),
            ),
            club_of={"club-7": 7}.get,
            messages=self.messages,
            sends=self.register,
            publisher=self.publisher,
            answers=apply_answers(self, self.messages, self.publisher, self.directory),
            delay_store=self.delay_store,
            clock=self.clock,
            logger=Logger(),
            retry_delays_s=retry_delays_s,
            periods=periods,
        )

    def sent_messages(self, *message_ids: list[str], headers: Headers = (), **values: Any) -> None:
        """Process an outcome record of delivery: the messages were sent to users 101, 102, …"""
        record = outcome("44444444-4444-5444-8444-444444444444", list(message_ids), **values)
        assert self.run(self.process, self.encoded(record, topics.OUTCOME, headers=list(headers))) == []

    def ingest(self, event: dict[str, Any]) -> dict[str, int]:
        use_case = IngestReceipts(codec=self.codec, producer=self.producer, clock=self.clock, logger=Logger())
        return use_case.ingest(event, 10)

    def receive(self, event: dict[str, Any]) -> list[int]:
        """Ingest an AWS event and process its receipts from Kafka; returns the offsets to be redelivered."""
        self.ingest(event)
        return self.reprocess()

    def reprocess(self) -> list[int]:
        values = self.values(topics.RECEIPT)
        entries = [entry(value, topic=topics.RECEIPT, offset=offset) for offset, value in enumerate(values)]
        return self.run(self.process, *entries) if entries else []

    def statuses(self) -> list[DeviceStatusChanged]:
        values = self.values(topics.DEVICE_STATUS)
        return [DeviceStatusChanged.from_avro(self.codec.decode("DeviceStatusChanged", value)) for value in values]
