"""Committed offsets at rebalances, at shutdown, and at offsets without a record."""

import asyncio

from local.emulators.event_source import Partition
from tests.support.harness.event_source import BROKEN, Function, FunctionResponse, broker, failing, running, until

ZERO, ONE = Partition("in", 0), Partition("in", 1)


async def test_an_empty_partition_is_committed_at_its_end() -> None:
    async with running(made=broker(1)):
        pass
    async with running(made=broker(1)) as bench:
        await until(lambda: ZERO in bench.broker.committed["masscomm.f"])
        assert bench.committed() == 0


async def test_offsets_without_a_record_do_not_look_like_a_lag() -> None:
    async with running(made=broker(1)) as bench:
        bench.produce(2)
        await bench.until_committed(2)
        bench.mapping.end_reached(ZERO, 5)
        await bench.until_committed(5)


async def test_an_end_is_not_committed_over_records_in_flight() -> None:
    function = Function(gate=asyncio.Event())
    async with running(function, broker(1)) as bench:
        bench.produce(2)
        await until(lambda: len(function.running) == 1)
        bench.mapping.end_reached(ZERO, 5)
        for _ in range(20):
            await asyncio.sleep(0)
        assert bench.committed() == 0
        function.gate.set()  # type: ignore[union-attr]
        await bench.until_committed(5)


async def test_restart_continues_at_the_committed_offset() -> None:
    made = broker(1)
    async with running(made=made) as bench:
        bench.produce(3)
        await bench.until_committed(3)
    made.produce("in", b"v")
    async with running(made=made) as again:
        await again.until_committed(4)
    assert again.function.batches == [[("in-0", 3)]]


async def test_stop_awaits_the_invocation_and_commits_it() -> None:
    function = Function(gate=asyncio.Event())
    async with running(function, broker(1)) as bench:
        bench.produce(3)
        await until(lambda: len(function.running) == 1)
        in_flight = len(function.running[0])
        stopping = asyncio.create_task(bench.mapping.stop())
        await asyncio.sleep(0)
        function.gate.set()  # type: ignore[union-attr]
        await stopping
        assert bench.committed() == in_flight
    assert len(function.batches) == 1


async def test_stop_abandons_a_slow_invocation_uncommitted() -> None:
    function = Function(gate=asyncio.Event())
    async with running(function, broker(1), drain_s=0.01) as bench:
        bench.produce(3)
        await until(lambda: len(function.running) == 1)
        await bench.mapping.stop()
        assert bench.committed() == 0
        assert function.running == []


async def test_stop_commits_the_successes_of_an_abandoned_batch() -> None:
    made = broker(1)
    for _ in range(4):
        made.produce("in", b"v")
    function = Function(lambda _: failing([("in-0", 2)]))
    async with running(function, made, first_backoff_s=3600, last_backoff_s=3600) as bench:
        await until(lambda: bench.mapping.statistics.partial_failures == 1)
        await bench.mapping.stop()
        assert bench.committed() == 2
        assert bench.mapping.statistics.abandoned == 1


async def test_stop_does_not_await_a_delayed_retry() -> None:
    function = Function(lambda _: BROKEN)
    async with running(function, broker(1), first_backoff_s=3600, last_backoff_s=3600) as bench:
        bench.produce()
        await until(lambda: bench.mapping.statistics.failures == 1)
        await bench.mapping.stop()
        assert bench.committed() == 0


async def test_rebalance_awaits_the_invocation_and_commits_it() -> None:
    function = Function(gate=asyncio.Event())
    async with running(function, broker(2)) as bench:
        bench.produce()
        await until(lambda: len(function.running) == 1)
        revoking = asyncio.create_task(bench.source.revoke([ZERO]))
        await asyncio.sleep(0)
        assert not revoking.done()
        function.gate.set()  # type: ignore[union-attr]
        await revoking
        assert bench.committed() == 1


async def test_rebalance_abandons_a_slow_invocation_uncommitted() -> None:
    function = Function(gate=asyncio.Event())
    async with running(function, broker(2), drain_s=0.01) as bench:
        bench.produce()
        await until(lambda: len(function.running) == 1)
        await bench.source.revoke([ZERO])
        # The partition's next consumer commits a later offset.
        bench.broker.committed["masscomm.f"][ZERO] = 7
        function.gate.set()  # type: ignore[union-attr]
        await until(lambda: function.running == [])
        for _ in range(20):
            await asyncio.sleep(0)
        assert bench.committed() == 7


async def test_lost_partition_is_neither_awaited_nor_committed() -> None:
    function = Function(gate=asyncio.Event())
    async with running(function, broker(2)) as bench:
        bench.produce()
        await until(lambda: len(function.running) == 1)
        await bench.source.revoke([ZERO], lost=True)
        function.gate.set()  # type: ignore[union-attr]
        await until(lambda: function.running == [])
        for _ in range(20):
            await asyncio.sleep(0)
        assert ZERO not in bench.broker.committed["masscomm.f"]


async def test_retry_leaves_out_revoked_partitions() -> None:
    made = broker(2)
    made.produce("in", b"v", partition=0)
    made.produce("in", b"v", partition=1)
    answers = [BROKEN]
    function = Function(lambda _: answers.pop() if answers else FunctionResponse())
    async with running(function, made, first_backoff_s=3600, last_backoff_s=3600) as bench:
        await until(lambda: bench.mapping.statistics.failures == 1)
        await bench.source.revoke([ZERO])
        await bench.until_committed(1, partition=1)
        assert bench.committed(0) == 0
    assert function.batches == [[("in-0", 0), ("in-1", 0)], [("in-1", 0)]] or function.batches == [
        [("in-1", 0), ("in-0", 0)],
        [("in-1", 0)],
    ]


async def test_reassigned_partition_begins_at_its_committed_offset() -> None:
    async with running(made=broker(1)) as bench:
        bench.produce(2)
        await bench.until_committed(2)
        await bench.source.revoke([ZERO])
        bench.produce(2)
        bench.source.assign([ZERO])
        await bench.until_committed(4)
    assert [position for batch in bench.function.batches for position in batch] == [("in-0", n) for n in range(4)]


async def test_failed_commit_is_repeated() -> None:
    async with running(made=broker(1)) as bench:
        original = bench.source.commit
        failures = [OSError("coordinator moved")] * 3

        async def commit(offsets: dict[Partition, int]) -> None:
            if failures:
                raise failures.pop()
            await original(offsets)

        bench.source.commit = commit  # type: ignore[method-assign,assignment]
        bench.produce(2)
        await bench.until_committed(2)
    assert failures == []


async def test_status_shows_lag_and_buffered_records() -> None:
    function = Function(gate=asyncio.Event())
    async with running(function, broker(1), batch_size=1) as bench:
        bench.produce(3)
        await until(lambda: len(function.running) == 1)
        await until(lambda: bench.mapping.statistics.records == 3)
        status = bench.mapping.status()
        partitions = status["partitions"]
        assert isinstance(partitions, dict)
        assert partitions["in-0"] == {"committed": None, "end": 3, "lag": 3, "waiting": 2, "in_flight": True}
        assert status["in_flight"] == 1
