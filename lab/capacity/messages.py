"""Counts the requests that SMS and e-mails need in addition to those of each notification, and the prices of SMS.

The adapters themselves make the requests, to a client that counts their units.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lab.capacity.plan import functions
from lab.capacity.prices import price
from lab.capacity.service_times import ServiceTimes
from masscomm.chain.sms_spending import SPENT
from masscomm.domain.email_pauses import EmailCounts, hours_since, pause_key
from masscomm.domain.key_limits import Window
from masscomm.domain.sms_segments import MAX_SEGMENTS, encoding, segments
from masscomm.domain.sms_settings import SmsError, read_sms
from masscomm.safe_yaml import read_yaml
from masscomm.stores.email_counts.dynamodb import DynamoDbEmailCounter
from masscomm.stores.key_usage.dynamodb import DynamoDbKeyUsage
from masscomm.stores.sends.dynamodb import DynamoDbSends

# The settings of the local stack: their prices are an example, and have a day.
EXAMPLE = Path(__file__).parents[2] / "examples" / "monolith" / "sms.yaml"
_MILLION = 1_000_000
_NOW_MS = 1_800_000_000_000


@dataclass
class Units:
    """A client of DynamoDB that counts units: each item has less than 1 kB, and a transaction writes it twice."""

    reads: int = 0
    writes: int = 0

    def update_item(self, **_request: Any) -> dict[str, Any]:
        self.writes += 1
        return {"Attributes": {}}

    def transact_write_items(self, TransactItems: Sequence[Any], **_request: Any) -> None:
        self.writes += 2 * len(TransactItems)

    def batch_get_item(self, RequestItems: Mapping[str, Any]) -> dict[str, Any]:
        self.reads += sum(len(each["Keys"]) for each in RequestItems.values())
        return {}

    def dollars(self) -> float:
        """Return the price of a million."""
        units = self.reads * price("dynamodb_read_unit") + self.writes * price("dynamodb_write_unit")
        return units * _MILLION


def _counted(make: Callable[[Any], object]) -> Units:
    units = Units()
    make(units)
    return units


def _window() -> Window:
    return Window.at(_NOW_MS // 1000, key_id="sms:1", kind=SPENT, maximum=_MILLION)


def reserved_cost() -> Units:
    """Return the units of reserving the cost of a group of SMS."""
    return _counted(lambda client: DynamoDbKeyUsage(client=client).take(_window(), 1))


def given_back_cost() -> Units:
    """Return the units of giving back the costs of the SMS of a group that were not sent."""
    return _counted(lambda client: DynamoDbKeyUsage(client=client).give_back(_window(), 1))


def counted_emails() -> Units:
    """Return the units of counting the e-mails of an outcome record, or one bounce, and of checking the limits."""

    def make(client: Any) -> None:
        counter = DynamoDbEmailCounter(client=client)
        counter.add(1, 0, EmailCounts(sent=1), once="id")
        DynamoDbSends(client=client).controls([pause_key(1)])
        counter.total(1, hours_since(_NOW_MS, None))

    return _counted(make)


def answers_dollars(times: ServiceTimes) -> float:
    """Return the price of a million answers to SMS: for each, SNS invokes receipts, which processes it alone."""
    memory_mb = functions()["receipts"].memory_mb
    seconds = sum(times.lines[name].at(1, memory_mb) for name in ("receipts_ingest", "receipts"))
    return (seconds * memory_mb / 1024 * price("lambda_gb_s") + 2 * price("lambda_request")) * _MILLION


class SmsPrice(NamedTuple):
    """The price of SMS of one length to a country."""

    country: str
    encoding: str
    characters: int
    segments: int
    # The price of a million SMS.
    dollars: float


def sms_prices() -> tuple[str, list[SmsPrice]]:
    """Return the day of the example's prices, and the prices of the longest texts with so many segments."""
    table = read_sms(read_yaml(EXAMPLE, "sms.yaml", SmsError))
    found = []
    for country, micro_dollars in table.prices.items():
        for character in "aд":
            for count in (1, 2, MAX_SEGMENTS):
                length = _longest(character, count)
                text = character * length
                # A micro-dollar for an SMS is a dollar for a million.
                found.append(SmsPrice(country, encoding(text), length, count, float(count * micro_dollars)))
    return str(table.prices_as_of), found


def _longest(character: str, count: int) -> int:
    length = 1
    while segments(character * (length + 1)) <= count:
        length += 1
    return length
