"""Nothing that a producer can write blocks a partition: every hostile record is handled or dead-lettered, once.

`--flood full` runs 20,000 records a topic instead of a few hundred.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import batched
from itertools import chain as chain_of
from typing import Any, cast

import pytest

from functions.cdc_consumer.apply_changes import ApplyChanges
from functions.cdc_consumer.generation import Generation
from functions.device_registrar.device_states import InMemoryDeviceStates
from functions.device_registrar.endpoints import InMemoryEndpoints
from functions.device_registrar.register_devices import RegisterDevices
from functions.device_registrar.token_holders import InMemoryTokenHolders
from functions.scheduler.reschedule_records import RescheduleRecords
from functions.send_handler.send_request import parse_request
from masscomm.cdc.captured_tables import captured_tables
from masscomm.cdc.progress import InMemoryCdcProgress
from masscomm.chain.batch import UseCase
from masscomm.chain.subscription_topic import SubscriptionTopic
from masscomm.clock import FixedClock
from masscomm.directory.client import OpenSearch
from masscomm.directory.document_publisher import InMemoryDocumentPublisher
from masscomm.directory.generations import InMemoryCreationTimes
from masscomm.domain.records import WebhookRequested
from masscomm.http.body import read_object
from masscomm.http.problem import Problem
from masscomm.kafka import topics
from masscomm.kafka.bundled_schema import schema_header
from masscomm.kafka.dead_letters import SOURCE_OFFSET
from masscomm.kafka.denied_ids import DeniedIds
from masscomm.kafka.source_records import InMemorySourceRecords
from masscomm.kafka.topic_reading import TopicReader
from masscomm.kafka.topics import DEAD_LETTER
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.delivery_ledger.in_memory import InMemoryDeliveryLedger, LedgerTable
from tests.support.fakes.opensearch import FakeOpenSearch
from tests.support.harness.audience_expander import Expander
from tests.support.harness.builder import Builder
from tests.support.harness.chain import Chain, entry
from tests.support.harness.delivery import Delivery
from tests.support.harness.events import EventMatcher, ScriptedReader, WebhookSender, occurred, subscribed
from tests.support.harness.preference_checker import Checker
from tests.support.harness.receipts import process_receipts
from tests.support.harness.webhooks import key
from tests.support.inputs.hostile_records import hostile_records

_FULL = 20_000
# Small batches find more faults in a given time, because a failed batch is repeated for each of its records.
_BATCH = 25


def _checker() -> tuple[Chain, UseCase[Any]]:
    checker = Checker()
    return checker, checker.use_case


def _builder() -> tuple[Chain, UseCase[Any]]:
    builder = Builder()
    builder.put_template("{{ data.headline }}", "There is news, {{ user.first_name }}.")
    return builder, builder.use_case


def _delivery() -> tuple[Chain, UseCase[Any]]:
    delivery = Delivery()
    return delivery, delivery.use_case


def _audience_expander() -> tuple[Chain, UseCase[Any]]:
    expander = Expander()
    return expander, expander.use_case


def _cdc_consumer() -> tuple[Chain, UseCase[Any]]:
    chain, client = Chain(), cast(OpenSearch, FakeOpenSearch())
    generation = Generation(client, name="g1", progress=InMemoryCdcProgress(), clock=chain.clock)
    return chain, ApplyChanges(client, generation, clock=chain.clock)


def _device_registrar() -> tuple[Chain, UseCase[Any]]:
    chain = Chain()
    return chain, RegisterDevices(
        generations=["g1"],
        created=InMemoryCreationTimes(),
        states=InMemoryDeviceStates(),
        holders=InMemoryTokenHolders(),
        endpoints=InMemoryEndpoints(),
        publisher=InMemoryDocumentPublisher(),
        clock=chain.clock,
        workers=1,
    )


def _receipts() -> tuple[Chain, UseCase[Any]]:
    chain = Chain()
    return chain, process_receipts(chain)


def _scheduler() -> tuple[Chain, UseCase[Any]]:
    chain = Chain()
    return chain, RescheduleRecords(
        store=InMemoryDelayStore(),
        source=InMemorySourceRecords(),
        ledger=InMemoryDeliveryLedger(clock=chain.clock, table=LedgerTable()),
        clock=chain.clock,
    )


def _event_matcher() -> tuple[Chain, UseCase[Any]]:
    matcher = EventMatcher()
    matcher.subscribe(subscribed(), subscribed(2, units=("100",), filter={"kind": ("league",)}))
    return matcher, matcher.use_case


def _webhook_sender() -> tuple[Chain, UseCase[Any]]:
    sender = WebhookSender()
    return sender, sender.use_case


_TABLES = [topics.cdc_topic(name, "g1") for name in captured_tables()]
# One environment processes all topics of a function, because one topic's records must not block another topic.
CASES = [
    pytest.param(_checker, [topics.SEND_MONOLITH, topics.SEND_API, topics.RECHECK], id="preference_checker"),
    pytest.param(_audience_expander, [topics.AUDIENCE], id="audience_expander"),
    pytest.param(_builder, [topics.BUILD], id="builder"),
    pytest.param(_delivery, [topics.DELIVERY], id="delivery"),
    pytest.param(_receipts, [topics.OUTCOME, topics.RECEIPT], id="receipts"),
    pytest.param(_event_matcher, [topics.EVENT, topics.cdc_topic(topics.OUTBOX, "g1")], id="event_matcher"),
    pytest.param(_webhook_sender, [topics.WEBHOOK], id="webhook_sender"),
    pytest.param(_scheduler, [topics.ON_FAILURE], id="scheduler"),
    pytest.param(_device_registrar, [topics.cdc_topic("devices", "g1"), topics.DEVICE_STATUS], id="device_registrar"),
    pytest.param(
        _cdc_consumer,
        [*_TABLES, topics.cdc_topic("notification", "g1"), topics.cdc_topic("heartbeat", "g1")],
        id="cdc_consumer",
    ),
]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Disable logging, because a line for each dead letter would take longer than processing its record."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def records_a_topic(request: pytest.FixtureRequest) -> int:
    return _FULL if request.config.getoption("--flood") == "full" else 150


def _entries(names: Sequence[str], count: int, chain: Chain) -> Iterator[dict[str, Any]]:
    floods = [hostile_records(name, count, codec=chain.codec) for name in names]
    for offset, each in enumerate(chain_of.from_iterable(zip(*floods, strict=True))):
        # A record of webhooks without the header is dead-lettered before it is decoded.
        named = [schema_header(WebhookRequested)] if each.topic == topics.WEBHOOK else []
        yield entry(each.value, topic=each.topic, offset=offset, key=each.key, headers=[*each.headers, *named])


@pytest.mark.guarantee("dead_letter.each_record_has_one_fate")
@pytest.mark.kills(guard="json.nesting")
@pytest.mark.parametrize(("function", "names"), CASES)
def test_each_hostile_record_has_one_fate(
    function: Callable[[], tuple[Chain, UseCase[Any]]], names: Sequence[str], records_a_topic: int
) -> None:
    chain, use_case = function()
    # Denied ids have no retry time here, or their records would be redelivered for 30 s.
    chain.driver = replace(chain.driver, denied_ids=DeniedIds(retry_s=0))
    for some in batched(_entries(names, records_a_topic, chain), _BATCH, strict=False):
        assert chain.run(use_case, *some) == []
        assert set(Counter(_letters(chain)).values()) <= {1}
        chain.forget()


def _letters(chain: Chain) -> list[bytes]:
    """Return the source offsets of the dead letters; dict() keeps our headers, which follow the producer's."""
    letters = (dict(headers) for name, _, _, headers in chain.producer.produced if name == DEAD_LETTER)
    offsets = (letter.get(SOURCE_OFFSET, b"") for letter in letters)
    return [offset for offset in offsets if offset.isdigit() and len(offset) < 10]


def test_hostile_subscriptions_stop_no_match(records_a_topic: int) -> None:
    """A record that is no subscription is skipped; the subscriptions before and after it match."""
    matcher = EventMatcher()
    records = [
        (each.key, each.value) for each in hostile_records(topics.SUBSCRIPTION, records_a_topic, codec=matcher.codec)
    ]
    other = key(9)  # No hostile record names this endpoint.
    good = subscribed(1, other, types=("*",), club_ids=None)
    value = matcher.codec.encode(topics.SUBSCRIPTION, "SubscriptionChanged", good.to_record().to_avro())
    reader = ScriptedReader([*records, (good.id.encode(), value)])
    source = SubscriptionTopic(bootstrap="", codec=matcher.codec, _reader=cast(TopicReader, reader))
    assert other in source.current().match(occurred())
    reader.records.append((good.id.encode(), None))
    assert other not in source.current().match(occurred())


def test_a_hostile_body_is_a_send_or_a_problem(records_a_topic: int) -> None:
    for each in hostile_records(topics.ON_FAILURE, records_a_topic, codec=Chain().codec):
        with suppress(Problem):
            parse_request(
                read_object((each.value or b"").decode(errors="surrogateescape"), bounded=False), FixedClock()
            )
