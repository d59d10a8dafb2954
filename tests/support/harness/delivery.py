"""Delivery over in-memory adapters."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from functions.delivery.calls import Caller
from functions.delivery.deliver import Deliver
from functions.delivery.publishing import Publisher
from functions.delivery.retry_scheduler import RetryScheduler
from masscomm.channels.in_memory import InMemoryEmail, InMemoryPush
from masscomm.channels.rate_limiter import RateLimiter
from masscomm.clock import FixedClock
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.directory.port import Directory
from masscomm.domain.records import AvroRecord, ContentColumn, DeliveryRequested, DeviceStatusChanged
from masscomm.domain.users import Device, User
from masscomm.kafka import topics
from masscomm.stores.delayed_records import DelayedRecord, InMemoryDelayStore
from masscomm.stores.delivery_ledger import DeliveryLedger
from masscomm.stores.delivery_ledger_in_memory import InMemoryDeliveryLedger, LedgerTable
from masscomm.stores.retry_schedule import RetrySchedule
from tests.support.harness.chain import Chain, delivery, entry


def rate_limiters(clock: FixedClock) -> dict[str, RateLimiter]:
    """As fast as the provider takes it."""
    return {channel: RateLimiter(clock) for channel in ("push", "email")}


class Delivery(Chain):
    """The use case with a directory in which users 1 to 3 have a device each."""

    def __init__(self, unsubscribe_url: str | None = "https://unsubscribe.example/u") -> None:
        super().__init__()
        self.directory = InMemoryDirectory()
        self.push = InMemoryPush()
        self.email = InMemoryEmail()
        self.unsubscribe_url = unsubscribe_url
        self.table = LedgerTable()
        self.delay_store = InMemoryDelayStore()
        self.ledger = InMemoryDeliveryLedger(clock=self.clock, table=self.table)
        self.use_case = self.environment(self.ledger)
        for user_id in (1, 2, 3):
            self.put_device(user_id, user_id)

    def environment(
        self, ledger: DeliveryLedger, *, directory: Directory | None = None, slice_size: int = 100, workers: int = 4
    ) -> Deliver:
        """The use case as in a function environment of its own."""
        return Deliver(
            directory=directory or self.directory,
            ledger=ledger,
            publisher=Publisher(clock=self.clock, rate_limiters=rate_limiters(self.clock), workers=workers),
            caller=Caller(
                push=self.push,
                email=self.email,
                clock=self.clock,
                sender="no-reply@masscomm.example",
                unsubscribe_url=self.unsubscribe_url,
            ),
            retry_scheduler=RetryScheduler(store=self.delay_store, retry_schedule=RetrySchedule(), clock=self.clock),
            clock=self.clock,
            slice_size=slice_size,
        )

    def put_user(self, user_id: int, **columns: Any) -> None:
        """A user at user<id>@example.com; one who is there stays, but for these columns."""
        known = self.directory.users([user_id]).get(user_id)
        usual = known or User(user_id=user_id, club_id=7, email=f"user{user_id}@example.com")
        self.directory.put(replace(usual, **columns))
        self.directory.calls.clear()

    def put_device(self, device_id: int, user_id: int, **columns: Any) -> None:
        """A device that takes messages."""
        self.put_user(user_id)
        arn = self.push.put(f"arn-{device_id}")
        usual: dict[str, Any] = {"device_id": device_id, "user_id": user_id, "platform": "gcm", "token": "t"}
        self.directory.put(Device(**usual | {"endpoint_arn": arn} | columns))

    def deliver(self, *records: AvroRecord, seconds: float = 60.0, environment: Deliver | None = None) -> list[int]:
        """Drive these records at offsets 0, 1, …; returns the offsets to be redelivered."""
        entries = [self.encoded(record, topics.DELIVERY, offset=offset) for offset, record in enumerate(records)]
        return self.run(environment or self.use_case, *entries, seconds=seconds)

    def release(self, *, environment: Deliver | None = None) -> list[int]:
        """Advance the clock to the release of every delayed record and deliver them; returns the redelivered
        offsets."""
        items = list(self.delay_store.items.values())
        self.clock.advance(max(0, *(item.due_ms - self.clock.now_ms() for item in items)) / 1000 if items else 0)
        for item in items:
            self.delay_store.done(item)
        entries = [entry(item.value, topic=item.topic, offset=900 + place) for place, item in enumerate(items)]
        return self.run(environment or self.use_case, *entries)

    def delayed_user_ids(self) -> dict[str, list[int]]:
        """User ids of the delayed records, by record id."""
        return {item.id: self.delayed_delivery(item).user_ids for item in self.delay_store.items.values()}

    def delayed_delivery(self, item: DelayedRecord) -> DeliveryRequested:
        """The delivery record in a delayed record."""
        return DeliveryRequested.from_avro(self.codec.decode("DeliveryRequested", item.value))

    def device_statuses(self) -> list[DeviceStatusChanged]:
        """The device status records produced."""
        values = self.values(topics.DEVICE_STATUS)
        return [DeviceStatusChanged.from_avro(self.codec.decode("DeviceStatusChanged", value)) for value in values]

    def published_arns(self) -> list[str]:
        """ARNs of the endpoints that a message was published to."""
        return sorted(push.endpoint_arn for push in self.push.published)


def by_email(user_ids: Iterable[int], **values: Any) -> DeliveryRequested:
    """A delivery record of e-mails to user<id>@example.com."""
    users = list(user_ids)
    content = [
        ContentColumn(field="subject", values=["News"], index=[]),
        ContentColumn(field="text", values=["Hello"], index=[]),
        ContentColumn(field="html", values=["<p>Hello</p>"], index=[]),
    ]
    addresses = [f"user{user_id}@example.com" for user_id in users]
    usual: dict[str, Any] = {"channel": "email", "addresses": addresses, "content": content}
    return delivery(users, **usual | values)
