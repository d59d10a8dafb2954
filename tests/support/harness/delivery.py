import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from functions.delivery.deliver import Deliver
from functions.delivery.retry_scheduler import RetryScheduler
from masscomm.chain.sms_spending import SmsSpending
from masscomm.channels.gateway import ProviderGateway
from masscomm.channels.in_memory import InMemoryEmail, InMemoryPush, InMemorySms
from masscomm.channels.provider_calls import Caller
from masscomm.channels.rate_limiter import RateLimiter
from masscomm.channels.senders import Sender, senders_of
from masscomm.channels.signing_keys import SigningKeys
from masscomm.channels.unsubscribe_links import UnsubscribeLinks
from masscomm.clock import FixedClock
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.directory.port import Directory
from masscomm.domain.channels import CHANNELS
from masscomm.domain.delays import RetrySchedule
from masscomm.domain.email_settings import read_emails
from masscomm.domain.records import AvroRecord, ContentColumn, DeliveryRequested, DeviceStatusChanged
from masscomm.domain.users import Device, User
from masscomm.kafka import topics
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.delayed_records.port import DelayedRecord
from masscomm.stores.delivery_ledger.in_memory import InMemoryDeliveryLedger, LedgerTable
from masscomm.stores.delivery_ledger.port import DeliveryLedger
from masscomm.stores.key_usage.in_memory import InMemoryKeyUsage
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.harness.chain import Chain, delivery, entry
from tests.support.reputation import email_pauses


def rate_limiters(clock: FixedClock) -> dict[str, RateLimiter]:
    return {channel: RateLimiter(clock) for channel in CHANNELS}


POOL = ThreadPoolExecutor(8)


def run_in_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in a new event loop, in another thread if a loop is running, and leave no open files."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return elsewhere(partial(asyncio.run, work))


def elsewhere[T](work: Callable[[], T]) -> T:
    """Run another function environment inside a provider call of this one, in a separate thread and event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def gateway(clock: FixedClock, **options: Any) -> ProviderGateway:
    usual: dict[str, Any] = {"clock": clock, "rate_limiters": rate_limiters(clock), "run": run_in_loop}
    return ProviderGateway(**usual | options)


class Delivery(Chain):
    """The delivery use case with a directory in which each of the users 1 to 3 has a device."""

    emails = read_emails({}, sender="no-reply@masscomm.example")

    def __init__(self) -> None:
        super().__init__()
        keys = json.dumps({"current": "1", "1": "a key of at least thirty-two bytes"})
        self.links = UnsubscribeLinks(
            url="https://unsubscribe.example/u",
            keys=SigningKeys(read=lambda: keys, clock=self.clock),
            clock=self.clock,
        )
        self.directory = InMemoryDirectory()
        self.push = InMemoryPush()
        self.email = InMemoryEmail()
        self.sms = InMemorySms()
        self.spent = InMemoryKeyUsage()
        self.register, self.audit_log = InMemorySends(self.clock), InMemoryAuditLog()
        self.table = LedgerTable()
        self.delay_store = InMemoryDelayStore()
        self.ledger = InMemoryDeliveryLedger(clock=self.clock, table=self.table)
        self.use_case = self.environment(self.ledger)
        for user_id in (1, 2, 3):
            self.put_device(user_id, user_id)

    def environment(
        self, ledger: DeliveryLedger, *, directory: Directory | None = None, unrecorded: int = 100, workers: int = 4
    ) -> Deliver:
        return Deliver(
            directory=directory or self.directory,
            sends=self.register,
            ledger=ledger,
            gateway=gateway(self.clock, workers=workers),
            caller=Caller(
                senders=self.senders(),
                clock=self.clock,
            ),
            spending=SmsSpending(store=self.spent, clock=self.clock),
            retry_scheduler=RetryScheduler(store=self.delay_store, retry_schedule=RetrySchedule(), clock=self.clock),
            pauses=email_pauses(self.register, self.clock, self.audit_log),
            clock=self.clock,
            pool=POOL,
            unrecorded=unrecorded,
        )

    def senders(self) -> dict[str, Sender]:
        return senders_of(
            push=self.push,
            email=self.email,
            sms=self.sms,
            emails=self.emails,
            unsubscribe=self.links,
        )

    def put_user(self, user_id: int, **columns: Any) -> None:
        """Store a user at user<id>@example.com; an existing user keeps all other columns."""
        known = self.directory.users([user_id]).get(user_id)
        usual = known or User(user_id=user_id, club_id=7, email=f"user{user_id}@example.com")
        self.directory.put(usual._replace(**columns))
        self.directory.calls.clear()

    def put_device(self, device_id: int, user_id: int, **columns: Any) -> None:
        self.put_user(user_id)
        arn = self.push.put(f"arn-{device_id}")
        usual: dict[str, Any] = {"device_id": device_id, "user_id": user_id, "platform": "gcm"}
        self.directory.put(Device(**usual | {"endpoint_arn": arn} | columns))

    def deliver(self, *records: AvroRecord, seconds: float = 60.0, environment: Deliver | None = None) -> list[int]:
        """Process these records at offsets 0, 1, …; return the offsets to be redelivered."""
        entries = [self.encoded(record, topics.DELIVERY, offset=offset) for offset, record in enumerate(records)]
        return self.run(environment or self.use_case, *entries, seconds=seconds)

    def release(self, *, environment: Deliver | None = None) -> list[int]:
        """Release every delayed record at its time and deliver it; return the offsets to be redelivered."""
        items = list(self.delay_store.items.values())
        self.clock.advance(max(0, *(item.due_ms - self.clock.now_ms() for item in items)) / 1000 if items else 0)
        for item in items:
            self.delay_store.done(item)
        entries = [entry(item.value, topic=item.topic, offset=900 + place) for place, item in enumerate(items)]
        return self.run(environment or self.use_case, *entries)

    def delayed_user_ids(self) -> dict[str, list[int]]:
        """Return the user ids of the delayed records by record id."""
        return {item.id: self.delayed_delivery(item).user_ids for item in self.delay_store.items.values()}

    def delayed_delivery(self, item: DelayedRecord) -> DeliveryRequested:
        return DeliveryRequested.from_avro(self.codec.decode("DeliveryRequested", item.value))

    def device_statuses(self) -> list[DeviceStatusChanged]:
        values = self.values(topics.DEVICE_STATUS)
        return [DeviceStatusChanged.from_avro(self.codec.decode("DeviceStatusChanged", value)) for value in values]

    def published_arns(self) -> list[str]:
        """Return the ARNs of the endpoints to which a message was published."""
        return sorted(push.endpoint_arn for push in self.push.published)


def by_email(user_ids: Iterable[int], **values: Any) -> DeliveryRequested:
    """Return a delivery record of e-mails to user<id>@example.com."""
    users = list(user_ids)
    content = [
        ContentColumn(field="subject", values=["News"], index=[]),
        ContentColumn(field="text", values=["Hello"], index=[]),
        ContentColumn(field="html", values=["<p>Hello</p>"], index=[]),
    ]
    addresses = [f"user{user_id}@example.com" for user_id in users]
    usual: dict[str, Any] = {"channel": "email", "addresses": addresses, "content": content}
    return delivery(users, **usual | values)
