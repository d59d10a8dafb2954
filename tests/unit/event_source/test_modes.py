"""The documented behaviour of a mapping in both modes of its pollers.

https://docs.aws.amazon.com/lambda/latest/dg/msk-scaling-modes.html
https://docs.aws.amazon.com/lambda/latest/dg/kafka-retry-configurations.html
https://docs.aws.amazon.com/lambda/latest/dg/kafka-on-failure-destination.html
https://docs.aws.amazon.com/lambda/latest/dg/kafka-on-failure.html
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from functions.catalogue import RETRIES_WITH_DESTINATION
from local.emulators.event_source import Pollers
from local.emulators.event_source.spec import S3_ARN
from tests.support.harness.event_source import (
    BROKEN,
    Function,
    FunctionResponse,
    SourcePosition,
    broker,
    failing,
    running,
    spec,
    until,
)

BAD: SourcePosition = ("in-0", 1)
# The time of the records, in ms since the epoch.
PRODUCED_MS = 1_700_000_000_000
# More invocations than any limit of attempts.
ENDLESS = 15


def raises(times: int | None = None) -> Callable[[], Function]:
    """Return a function that raises for each batch with the bad record, always or `times` times."""
    return lambda: _failing(lambda _: BROKEN, times)


def reports(times: int | None = None) -> Callable[[], Function]:
    """Return a function that reports the bad record as failed, always or `times` times."""
    return lambda: _failing(lambda _: failing([BAD]), times)


def _failing(answer: Callable[[Sequence[SourcePosition]], FunctionResponse], times: int | None) -> Function:
    left = [times]

    def behave(batch: list[SourcePosition]) -> FunctionResponse:
        if BAD not in batch or left[0] == 0:
            return FunctionResponse()
        if left[0] is not None:
            left[0] -= 1
        return answer(batch)

    return Function(behave)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The results of a mapping with four records in one batch."""

    # The offsets of the records of each invocation; None: the whole batch without an end.
    invocations: Sequence[Sequence[int]] | None
    on_failure: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class Case:
    """A function, the settings of its mapping in provisioned mode, and the results in each mode. In on-demand mode, a
    mapping has a bucket in place of the topic for failed records, and none of the other settings.
    """

    function: Callable[[], Function]
    provisioned: Expected
    on_demand: Expected
    settings: Mapping[str, Any] = field(default_factory=dict)


WHOLE = [0, 1, 2, 3]
CASES = {
    "success": Case(
        function=Function, provisioned=Expected(invocations=[WHOLE]), on_demand=Expected(invocations=[WHOLE])
    ),
    "an error is followed by success": Case(
        function=raises(2),
        provisioned=Expected(invocations=[WHOLE] * 3),
        on_demand=Expected(invocations=[WHOLE] * 3),
    ),
    "errors without an end": Case(
        function=raises(),
        settings={"max_retries": 2, "on_failure": "on-failure"},
        provisioned=Expected(invocations=[WHOLE] * 3, on_failure=WHOLE),
        on_demand=Expected(invocations=[WHOLE] * (1 + RETRIES_WITH_DESTINATION), on_failure=WHOLE),
    ),
    "infinite retries without a destination": Case(
        function=raises(), provisioned=Expected(invocations=None), on_demand=Expected(invocations=None)
    ),
    "infinite retries with a destination": Case(
        function=raises(),
        settings={"on_failure": "on-failure"},
        provisioned=Expected(invocations=[WHOLE] * (1 + RETRIES_WITH_DESTINATION), on_failure=WHOLE),
        on_demand=Expected(invocations=[WHOLE] * (1 + RETRIES_WITH_DESTINATION), on_failure=WHOLE),
    ),
    "bisection": Case(
        function=raises(),
        settings={"max_retries": 0, "bisect": True, "on_failure": "on-failure"},
        provisioned=Expected(invocations=[WHOLE, [0, 1], [0], [1], [2, 3]], on_failure=[1]),
        on_demand=Expected(invocations=[WHOLE] * (1 + RETRIES_WITH_DESTINATION), on_failure=WHOLE),
    ),
    "a partial batch response": Case(
        function=reports(1),
        provisioned=Expected(invocations=[WHOLE, [1]]),
        on_demand=Expected(invocations=[WHOLE]),
    ),
    "an age above the limit": Case(
        function=Function,
        settings={"max_age_s": 60, "on_failure": "on-failure"},
        provisioned=Expected(invocations=[], on_failure=WHOLE),
        on_demand=Expected(invocations=[WHOLE]),
    ),
}


@pytest.mark.parametrize("pollers", Pollers)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_mapping_has_the_documented_behaviour(case: Case, pollers: Pollers) -> None:
    is_provisioned = pollers is Pollers.PROVISIONED
    settings = dict(case.settings)
    if not is_provisioned:
        settings = {"on_failure": f"{S3_ARN}{settings['on_failure']}"} if "on_failure" in settings else {}
    expected = case.provisioned if is_provisioned else case.on_demand
    made, function = broker(), case.function()
    for _ in WHOLE:
        made.produce("in", b"v", timestamp_ms=PRODUCED_MS)
    now_s = PRODUCED_MS / 1000 + 3_600
    async with running(function, made, wall_clock=lambda: now_s, pollers=pollers, **settings) as bench:
        if expected.invocations is None:
            await until(lambda: len(function.batches) > ENDLESS)
            assert bench.committed() == 0
        else:
            await bench.until_committed(len(WHOLE))
        assert bench.on_failure_records() == [("in-0", offset) for offset in expected.on_failure]
    seen = [[offset for _, offset in batch] for batch in function.batches]
    assert seen == (expected.invocations if expected.invocations is not None else [WHOLE] * len(seen))


@pytest.mark.parametrize("setting", [{"max_retries": -1}, {"max_age_s": 60}, {"bisect": True}], ids=str)
def test_on_demand_mode_refuses_a_provisioned_setting(setting: Mapping[str, Any]) -> None:
    with pytest.raises(ValueError, match="need provisioned mode"):
        spec(pollers=Pollers.ON_DEMAND, **setting)


@pytest.mark.parametrize(
    ("pollers", "on_failure"), [(Pollers.ON_DEMAND, "on-failure"), (Pollers.PROVISIONED, f"{S3_ARN}on-failure")]
)
def test_destination_of_the_other_mode_is_refused(pollers: Pollers, on_failure: str) -> None:
    with pytest.raises(ValueError, match="is no destination in this mode"):
        spec(pollers=pollers, on_failure=on_failure)


async def test_a_batch_above_six_megabytes_is_discarded_to_s3() -> None:
    """The object has the whole event as a string, which the payload of an on-failure record is not."""
    made = broker()
    made.produce("in", b"v" * 100)
    async with running(
        made=made, pollers=Pollers.ON_DEMAND, on_failure=f"{S3_ARN}on-failure", max_payload_bytes=99
    ) as bench:
        await bench.until_committed(1)
        (document,) = bench.on_failure()
    assert document["requestContext"]["condition"] == "MaximumPayloadSizeExceeded"
    assert document["responseContext"] is None
    assert isinstance(document["payload"], str)
    assert document["KafkaBatchInfo"]["payloadSize"] == len(document["payload"])
    assert document["KafkaBatchInfo"]["recordsInfo"]["in-0"]["lastRecordOffset"] == "0"
