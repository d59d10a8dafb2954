"""A schedule invokes its function at once and then repeatedly, whatever the result, until the schedule is stopped."""

import asyncio
import json
from datetime import UTC, datetime

from local.emulators.lambda_host.invocation import InvocationResult
from local.emulators.schedule import Schedule, scheduled_event


async def test_schedule_continues_after_an_error_until_stopped() -> None:
    third = asyncio.Event()
    count = 0

    async def invoke(payload: bytes) -> InvocationResult:
        nonlocal count
        count += 1
        assert json.loads(payload)["source"] == "aws.events"
        if count == 1:
            raise RuntimeError("the host is busy")
        if count == 3:
            third.set()
        return InvocationResult(payload=b"{}", request_id="1", function_error="Unhandled" if count == 2 else None)

    schedule = Schedule(function="scheduler", every_s=0.001, invoke=invoke)
    schedule.start()
    await third.wait()
    await schedule.stop()
    status = schedule.status()
    assert status["errors"] == 2
    assert status["invocations"] == count


async def test_stop_does_not_await_the_next_invocation() -> None:
    begun = asyncio.Event()

    async def invoke(_payload: bytes) -> InvocationResult:
        begun.set()
        return InvocationResult(payload=b"{}", request_id="1")

    schedule = Schedule(function="scheduler", every_s=3_600, invoke=invoke)
    schedule.start()
    await begun.wait()
    await schedule.stop()
    assert schedule.status()["invocations"] == 1


def test_event_has_eventbridges_form() -> None:
    event = json.loads(scheduled_event("scheduler", datetime(2026, 11, 21, 12, tzinfo=UTC)))
    assert event["detail-type"] == "Scheduled Event"
    assert event["time"] == "2026-11-21T12:00:00Z"
    assert event["resources"] == ["arn:aws:events:us-east-1:000000000000:rule/scheduler"]
