"""The function host runs real processes with AWS' own runtime client."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from local.emulators.lambda_host import (
    FunctionHost,
    FunctionNotFoundError,
    FunctionSpec,
    HostClosedError,
    InvocationResult,
    RequestTooLargeError,
)
from local.emulators.lambda_host.environment import ExecutionEnvironment
from local.emulators.lambda_host.invocation import MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES

HERE = Path(__file__).parent
ROOT = Path(__file__).parents[3]
TIMEOUT_S = 30.0


def spec(module: str = "behaving", **changes: Any) -> FunctionSpec:
    values: dict[str, Any] = {
        "name": "f",
        "handler": f"functions_under_test.{module}.handler",
        "task_root": HERE,
        "timeout_s": TIMEOUT_S,
        "init_timeout_s": TIMEOUT_S,
    }
    return FunctionSpec(**(values | changes))


@contextlib.asynccontextmanager
async def hosting(log_dir: Path, *functions: FunctionSpec) -> AsyncIterator[FunctionHost]:
    async with FunctionHost(functions or [spec()], log_dir=log_dir) as host:
        yield host


async def call(host: FunctionHost, event: object, name: str = "f") -> InvocationResult:
    return await host.invoke(name, json.dumps(event).encode())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.005)


async def content(path: Path) -> str:
    await until(lambda: path.exists() and path.read_text() != "")
    return path.read_text()


async def test_the_answer_is_the_functions_json(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        result = await call(host, {"x": "ü"})
    assert json.loads(result.payload) == {"x": "ü"}
    assert result.function_error is None
    assert result.status_code == 200


async def test_function_sees_lambdas_environment_not_the_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_HOST", "1")
    async with hosting(tmp_path, spec(memory_mb=256, timeout_s=20, environment={"MINE": "2"})) as host:
        result = await call(host, {"context": True})
    seen = json.loads(result.payload)
    assert seen["request_id"] == result.request_id
    assert seen["arn"] == "arn:aws:lambda:us-east-1:000000000000:function:f"
    assert seen["name"] == "f"
    assert seen["memory"] == "256"
    assert 0 < seen["remaining_ms"] <= 20_000
    assert seen["cwd"] == str(HERE)
    environment = seen["environment"]
    assert environment["MINE"] == "2"
    assert environment["LAMBDA_TASK_ROOT"] == str(HERE)
    assert environment["_HANDLER"] == "functions_under_test.behaving.handler"
    assert environment["AWS_EXECUTION_ENV"] == "AWS_Lambda_python3.13"
    assert environment["_X_AMZN_TRACE_ID"].startswith("Root=1-")
    assert "OF_THE_HOST" not in environment


async def test_function_has_its_niceness_after_its_first_response(tmp_path: Path) -> None:
    async with hosting(tmp_path, spec(nice=3, warm=1), spec(name="g", warm=1)) as host:
        await until(lambda: all(pool.ready for pool in host.pools.values()))

        def niceness() -> dict[str, set[int]]:
            """Return that of each function's threads."""
            processes = {name: psutil.Process(pool.pids[0]) for name, pool in host.pools.items()}
            return {
                name: {os.getpriority(os.PRIO_PROCESS, thread.id) for thread in process.threads()}
                for name, process in processes.items()
            }

        own = psutil.Process().nice()
        assert niceness() == {"f": {own}, "g": {own}}
        for name in ("f", "g"):
            await call(host, {}, name)
        assert niceness() == {"f": {own + 3}, "g": {own}}


async def test_warm_environment_is_prepared_ahead_of_its_first_event(tmp_path: Path) -> None:
    """As with provisioned concurrency, so that a function imports what its first invocation needs."""
    for warm, kind in ((0, "on-demand"), (1, "provisioned-concurrency")):
        async with hosting(tmp_path, spec(warm=warm)) as host:
            await until(lambda: host.pools["f"].ready)
            result = await call(host, {"context": True})
        assert json.loads(result.payload)["environment"]["AWS_LAMBDA_INITIALIZATION_TYPE"] == kind


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="a kernel without autogroups")
async def test_niceness_applies_to_the_functions_autogroup(tmp_path: Path) -> None:
    async with hosting(tmp_path, spec(nice=3), spec(name="g")) as host:
        for name in ("f", "g"):
            await call(host, {}, name)
        groups = {name: Path(f"/proc/{pool.pids[0]}/autogroup").read_text() for name, pool in host.pools.items()}
    assert {name: int(text.split()[-1]) for name, text in groups.items()} == {"f": 3, "g": 0}


async def test_output_of_a_function_is_in_its_own_log(tmp_path: Path) -> None:
    async with hosting(tmp_path, spec(), spec(name="g")) as host:
        await call(host, {"print": "hello log"})
        await call(host, {}, "g")
    assert "hello log" in (tmp_path / "f.log").read_text()
    assert "hello log" not in (tmp_path / "g.log").read_text()


async def test_exception_is_an_unhandled_error_with_type_and_stack(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        result = await call(host, {"raise": "boom"})
        again = await call(host, {"x": 1})
    error = json.loads(result.payload)
    assert result.function_error == "Unhandled"
    assert (error["errorType"], error["errorMessage"]) == ("ValueError", "boom")
    assert error["requestId"] == result.request_id
    assert "behaving.py" in error["stackTrace"][0]
    # the environment keeps running after the error, as in Lambda
    assert not result.environment_crashed
    assert not again.cold_start


async def test_timed_out_function_is_killed_and_starts_again(tmp_path: Path) -> None:
    started = tmp_path / "started"
    async with hosting(tmp_path, spec(timeout_s=0.3)) as host:
        result = await call(host, {"hang": str(started)})
        pid = int(started.read_text())
        await until(lambda: not psutil.pid_exists(pid))
        again = await call(host, {"x": 1})
    error = json.loads(result.payload)
    assert result.function_error == "Unhandled"
    assert error["errorType"] == "Sandbox.Timedout"
    assert error["errorMessage"] == f"RequestId: {result.request_id} Error: Task timed out after 0.30 seconds"
    assert again.cold_start
    assert again.function_error is None


async def test_killed_environment_takes_no_invocation(tmp_path: Path) -> None:
    environment = ExecutionEnvironment(spec=spec(timeout_s=0.3), log_file=tmp_path / "log", on_exit=lambda _: None)
    await environment.start("127.0.0.1", 0)
    await environment.invoke(json.dumps({"hang": str(tmp_path / "started")}).encode())
    assert not environment.alive  # Even before its process has ended.
    await environment.stop()


async def test_timeout_kills_processes_that_the_function_started(tmp_path: Path) -> None:
    started = tmp_path / "started"
    async with hosting(tmp_path, spec(timeout_s=0.5)) as host:
        await call(host, {"spawn": str(started)})
        pids = json.loads(started.read_text())
        await until(lambda: not any(_runs(pid) for pid in pids))


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"exit": 3}, "Runtime exited with error: exit status 3"),
        ({"leave": 4}, "Runtime exited with error: exit status 4"),
        ({"exit": 0}, "Runtime exited without providing a reason"),
    ],
)
async def test_exited_process_fails_its_invocation_and_is_replaced(
    tmp_path: Path, event: dict[str, int], words: str
) -> None:
    async with hosting(tmp_path) as host:
        result = await call(host, event)
        again = await call(host, {"x": 1})
    error = json.loads(result.payload)
    assert error == {"errorType": "Runtime.ExitError", "errorMessage": f"RequestId: {result.request_id} Error: {words}"}
    assert result.environment_crashed
    assert again.cold_start
    assert json.loads(again.payload) == {"x": 1}


async def test_kill_9_during_an_invocation_is_noticed_at_once(tmp_path: Path) -> None:
    started = tmp_path / "started"
    async with hosting(tmp_path) as host:
        invocation = asyncio.create_task(call(host, {"hang": str(started)}))
        os.kill(int(await content(started)), signal.SIGKILL)
        async with asyncio.timeout(TIMEOUT_S / 3):
            result = await invocation
    assert "Runtime exited with error: signal: killed" in json.loads(result.payload)["errorMessage"]


async def test_kill_9_of_an_idle_process_costs_no_invocation(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        pool = host.pools["f"]
        await call(host, {"x": 1})
        os.kill(pool.pids[0], signal.SIGKILL)
        await until(lambda: pool.pids == [])
        result = await call(host, {"x": 2})
    assert result.function_error is None
    assert result.cold_start


async def test_invocation_waits_for_a_busy_environment(tmp_path: Path) -> None:
    started, release = tmp_path / "started", tmp_path / "release"
    async with hosting(tmp_path, spec(concurrency=1)) as host:
        first = asyncio.create_task(call(host, {"until": str(release), "started": str(started)}))
        pid = int(await content(started))
        second = asyncio.create_task(call(host, {"context": True}))
        await until(lambda: host.pools["f"].statistics.queued == 1)
        assert not second.done()
        release.touch()
        await first
        assert json.loads((await second).payload)["pid"] == pid
        assert host.pools["f"].statistics.cold_starts == 1


async def test_processes_never_exceed_the_concurrency(tmp_path: Path) -> None:
    release = tmp_path / "release"
    async with hosting(tmp_path, spec(concurrency=2)) as host:
        events = [{"until": str(release), "started": str(tmp_path / f"started{n}")} for n in range(3)]
        tasks = [asyncio.create_task(call(host, event)) for event in events]
        await until(lambda: sum((tmp_path / f"started{n}").exists() for n in range(3)) == 2)
        pool = host.pools["f"]
        assert (len(pool.pids), pool.statistics.in_flight, pool.statistics.queued) == (2, 2, 1)
        release.touch()
        pids = {json.loads((await task).payload)["pid"] for task in tasks}
    assert len(pids) == 2


async def test_environments_to_be_kept_warm_start_with_the_host(tmp_path: Path) -> None:
    async with hosting(tmp_path, spec(concurrency=2, warm=2)) as host:
        pool = host.pools["f"]
        await until(lambda: pool.ready)
        assert len(pool.pids) == 2
        assert pool.statistics.invocations == 0


async def test_init_error_is_returned_and_stops_no_other_function(tmp_path: Path) -> None:
    imports = tmp_path / "imports"
    broken = spec("broken_at_init", name="broken", environment={"IMPORTS": str(imports)})
    async with hosting(tmp_path, spec(), broken) as host:
        result = await call(host, {}, "broken")
        fine = await call(host, {"x": 1})
    error = json.loads(result.payload)
    assert result.function_error == "Unhandled"
    assert (error["errorType"], error["errorMessage"]) == ("RuntimeError", "no configuration")
    assert "broken_at_init.py" in error["stackTrace"][-1]
    assert fine.function_error is None


async def test_init_error_delays_the_next_start(tmp_path: Path) -> None:
    """The function is not started again for every invocation."""
    imports = tmp_path / "imports"
    broken = spec("broken_at_init", name="broken", environment={"IMPORTS": str(imports)})
    async with hosting(tmp_path, broken) as host:
        results = [await call(host, {}, "broken") for _ in range(50)]
    assert {json.loads(result.payload)["errorMessage"] for result in results} == {"no configuration"}
    assert len(imports.read_text().splitlines()) < 10


async def test_failed_warm_start_is_retried_until_it_succeeds(tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    async with hosting(tmp_path, spec("mendable", warm=1, environment={"MENDED": str(mended)})) as host:
        pool = host.pools["f"]
        await until(lambda: pool.init_error is not None)
        assert not pool.ready
        mended.touch()
        await until(lambda: pool.ready)


async def test_a_module_that_is_missing_is_an_import_error(tmp_path: Path) -> None:
    async with hosting(tmp_path, spec("nowhere")) as host:
        result = await call(host, {})
    assert json.loads(result.payload)["errorType"] == "Runtime.ImportModuleError"


async def test_an_init_that_does_not_end_is_killed(tmp_path: Path) -> None:
    async with hosting(tmp_path, spec("hangs_at_init", init_timeout_s=0.5)) as host:
        result = await call(host, {})
        assert host.pools["f"].pids == []
    assert json.loads(result.payload)["errorType"] == "Sandbox.Timedout"


async def test_a_request_over_6_mb_is_refused_before_the_function(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        with pytest.raises(RequestTooLargeError, match=f"limit {MAX_REQUEST_BYTES}"):
            await host.invoke("f", b'"' + b"x" * (MAX_REQUEST_BYTES - 1) + b'"')
        largest = await host.invoke("f", b'"' + b"x" * (MAX_REQUEST_BYTES - 2) + b'"')
    assert len(largest.payload) == MAX_REQUEST_BYTES
    assert largest.function_error is None


async def test_an_answer_over_6_mb_is_an_error(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        largest = await call(host, {"answer_bytes": MAX_RESPONSE_BYTES})
        result = await call(host, {"answer_bytes": MAX_RESPONSE_BYTES + 1})
    assert largest.function_error is None
    error = json.loads(result.payload)
    assert result.function_error == "Unhandled"
    assert error["errorType"] == "Function.ResponseSizeTooLarge"
    assert str(MAX_RESPONSE_BYTES + 1) in error["errorMessage"]


async def test_an_unknown_function_is_refused(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        with pytest.raises(FunctionNotFoundError):
            await call(host, {}, "nobody")


async def test_a_closed_host_leaves_no_process_and_refuses(tmp_path: Path) -> None:
    async with hosting(tmp_path, spec(concurrency=2, warm=2)) as host:
        await until(lambda: host.pools["f"].ready)
        pids = host.pools["f"].pids
    assert not any(_runs(pid) for pid in pids)
    with pytest.raises(HostClosedError):
        await call(host, {})


async def test_closing_ends_an_invocation_in_flight(tmp_path: Path) -> None:
    started = tmp_path / "started"
    async with hosting(tmp_path) as host:
        invocation = asyncio.create_task(call(host, {"hang": str(started)}))
        await content(started)
    assert (await invocation).environment_crashed


async def test_close_refuses_queued_invocations(tmp_path: Path) -> None:
    started = tmp_path / "started"
    async with hosting(tmp_path) as host:
        running = asyncio.create_task(call(host, {"hang": str(started)}))
        await content(started)
        waiting = asyncio.create_task(call(host, {}))
        await until(lambda: host.pools["f"].statistics.queued == 1)
    assert (await running).environment_crashed
    with pytest.raises(HostClosedError):
        await waiting


async def test_no_process_survives_a_host_that_is_killed(tmp_path: Path) -> None:
    # A function in the middle of its work: an idle one would end by itself when its next request for work fails.
    started = tmp_path / "started"
    program = """
import asyncio, json, sys
from pathlib import Path
from local.emulators.lambda_host import FunctionHost, FunctionSpec
async def main():
    root, started = Path(sys.argv[1]), Path(sys.argv[2])
    spec = FunctionSpec(
        name="f", handler="functions_under_test.behaving.handler", task_root=root, init_timeout_s=30, timeout_s=600
    )
    async with FunctionHost([spec], log_dir=started.parent) as host:
        await host.invoke("f", json.dumps({"hang": str(started)}).encode())
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program, str(HERE), str(started)], cwd=ROOT) as host:
        pid = int(await content(started))
        assert _runs(pid)
        host.kill()
    await until(lambda: not _runs(pid))


async def test_cancelled_invocation_ends_its_process(tmp_path: Path) -> None:
    started = tmp_path / "started"
    async with hosting(tmp_path) as host:
        invocation = asyncio.create_task(call(host, {"hang": str(started)}))
        pid = int(await content(started))
        invocation.cancel()
        await asyncio.gather(invocation, return_exceptions=True)
        await until(lambda: not _runs(pid))
        assert (await call(host, {"x": 1})).function_error is None


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
