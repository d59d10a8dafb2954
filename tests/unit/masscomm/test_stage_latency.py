"""Each function of the chain emits how long its records took from their production to the end of the stage."""

import pytest

from masscomm.chain.batch import BatchDriver
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.observability import metrics
from masscomm.observability.metric_names import STAGE_LATENCY, STAGES
from tests.support.harness.chain import NOW, Chain, Context, entry, event, send
from tests.support.harness.relay import Relay


def _latencies(chain: Chain, function: str, *ages_ms: int) -> dict[str, object]:
    driver = BatchDriver(function=function, codec=chain.codec, producer=chain.producer, clock=chain.clock)
    records = [
        chain.encoded(send([1]), topics.SEND_MONOLITH, offset=offset, timestamp=NOW - age)
        for offset, age in enumerate(ages_ms)
    ]
    metrics.taken()
    driver.run(event(*records, entry(b"bad", offset=9)), Context(chain.clock), Relay())
    names = {metric.name for metric in STAGE_LATENCY.values()}
    return {name: value for name, value in metrics.taken()[0].items() if name in names}


@pytest.mark.parametrize("function", STAGES)
def test_age_of_each_finished_record_is_emitted(function: str) -> None:
    """A record from a producer whose clock is ahead has no age; a dead letter ends no stage."""
    assert _latencies(Chain(), function, 250, 0, -5_000) == {STAGE_LATENCY[STAGES[function]].name: [250, 0, 0]}


def test_other_functions_and_failed_records_have_no_stage() -> None:
    assert _latencies(Chain(), "receipts", 250) == {}
    chain = Chain()
    chain.producer.fail = lambda _topic, _value: Retry("down")
    assert _latencies(chain, "builder", 250) == {}
