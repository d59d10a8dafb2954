"""Measure cold starts: `python -m lab.benchmarks.cold_start [--runs N] [--only NAME]`.

    import   a handler's import in a fresh process, compared with the import of a naive handler (boto3, confluent-kafka
             with its serdes, opensearch-py, Powertools): processor time, wall time and memory, medians of N runs
    package  the zip of each function, built for this machine's processor, unpacked and run under awslambdaric: the
             time from the start of the process until its first request for work (init) and until its first response.
             The event is a batch without records (all adapters are built, none connects) or a rejected HTTP request.
             Functions that only a schedule invokes are left out.

Handler and naive handler are measured in turns, so that other load on the machine affects both. Compare processor
times, because wall times vary on a busy machine. The serdes of confluent-kafka need authlib, httpx and cachetools,
which no other code here needs: their newest versions are installed into the benchmark's own folder.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.packaging.build import UV, build
from infra.packaging.contents import Contents, all_contents
from local.emulators.lambda_host import FunctionHost
from local.emulators.lambda_host.spec import FunctionSpec
from masscomm.http.scopes import ALL_SCOPES, scopes_text

NAIVE = (
    "import boto3, opensearchpy, aws_lambda_powertools, confluent_kafka;"
    " from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer;"
    " from aws_lambda_powertools import Logger, Metrics, Tracer"
)
SERDES = ("authlib", "httpx", "cachetools", "attrs", "orjson")
# The longest time until the first answer of a function, in ms of an idle machine.
FIRST_ANSWER_MS = 1_000
# Its first event needs servers, and comes from a schedule, so that no request waits for it.
SCHEDULED = ("webhook_events",)

_MEASURE = """
import json, resource, sys, time
wall, began = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
exec(sys.argv[1])
ended = resource.getrusage(resource.RUSAGE_SELF)
cpu = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
memory = int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])
print(json.dumps([cpu * 1000, (time.perf_counter() - wall) * 1000, memory / 1024, len(sys.modules)]))
"""


@dataclass(frozen=True)
class Imported:
    """The medians of processor time, wall time, resident memory (including the interpreter's) and number of modules."""

    cpu_ms: float
    wall_ms: float
    memory_mb: float
    modules: float


def _once(code: str, path: str) -> list[float]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "AWS_REGION": "eu-central-1"}
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, code], env=environment, capture_output=True, text=True, check=True
    )
    figures: list[float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def imports(names: Mapping[str, str], runs: int, serdes: str) -> dict[str, Imported]:
    """Return the medians of the code of each name, measured in turns. The first turn fills the disk cache and is not
    counted.
    """
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    for turn in range(runs + 1):
        for name, code in names.items():
            figures = _once(code, os.pathsep.join([str(Path.cwd()), serdes]))
            if turn:
                found[name].append(figures)
    return {
        name: Imported(*(statistics.median(column) for column in zip(*figures, strict=True)))
        for name, figures in found.items()
    }


def _event(function: str) -> dict[str, object]:
    """Return an event that builds all adapters and needs no dependency: no records, or a refused request."""
    refused = {
        "send_handler": ("POST", "/v1/sends"),
        "previews": ("POST", "/v1/previews"),
        "operations_handler": ("POST", "/v1/suppressions"),
        "key_revocation": ("POST", "/v1/keys/0/revoke"),
        "audiences": ("POST", "/v1/audiences/count"),
        "preferences_handler": ("GET", "/v1/users/1/preferences"),
        "users_stream": ("GET", "/v1/users"),
        "metrics_handler": ("GET", "/v1/metrics"),
        "metrics_stream": ("GET", "/v1/metrics"),
        "sends_api": ("GET", "/v1/sends"),
        "sends_stream": ("GET", "/v1/sends"),
    }
    if function not in refused:
        return {"records": {}, "eventSource": "aws:kafka"}
    method, path = refused[function]
    return {
        "resource": path,
        "path": path,
        "httpMethod": method,
        "headers": {},
        "multiValueHeaders": {},
        "queryStringParameters": {"granularity": "fortnight"},
        "multiValueQueryStringParameters": {"granularity": ["fortnight"]},
        "requestContext": {
            "authorizer": {"all_clubs": "true", "scopes": scopes_text(ALL_SCOPES)},
            "requestId": "r",
            "path": path,
            "stage": "v1",
        },
        "body": "{}",
        "isBase64Encoded": False,
    }


# Nothing listens at these addresses: the functions do not connect before their first record.
ENVIRONMENT = {
    "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9",
    "SCHEMA_REGISTRY_URL": "http://127.0.0.1:9",
    "OPENSEARCH_URL": "http://127.0.0.1:9",
    "METRICS_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/metrics",
    "CDC_GENERATION": "g1",
    "CDC_CONSUMER_GROUP": "masscomm.cdc_consumer",
    "PLATFORM_APPLICATION_ARN_GCM": "arn",
    "PLATFORM_APPLICATION_ARN_APNS": "arn",
    "SES_SENDER": "nobody@masscomm.example",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "PYTHONDONTWRITEBYTECODE": "1",
}


async def _cold(function: FunctionSpec, folder: Path) -> tuple[float, float]:
    """Return (ms until it polls for work, ms until its first response) of a process."""
    host = FunctionHost([function], log_dir=folder)
    began = time.perf_counter()
    try:
        result = await host.invoke(function.name, json.dumps(_event(function.name)).encode())
        if result.function_error is not None:
            raise RuntimeError(f"{function.name}: {result.payload.decode()[:500]}")
        whole_ms = (time.perf_counter() - began) * 1000
        return host.pools[function.name].statistics.init_ms[0], whole_ms
    finally:
        await host.close()


def packages(contents: Sequence[Contents], runs: int, folder: Path) -> dict[str, tuple[float, float]]:
    """Return {name: (ms until init, ms until the first response)}."""
    found = {}
    for built in build(contents, folder, platform=f"{platform.machine()}-manylinux_2_28"):
        root = folder / built.name
        with zipfile.ZipFile(built.path) as archive:
            archive.extractall(root)
        handler = next(each.handler for each in contents if each.name == built.name)
        spec = FunctionSpec(
            name=built.name,
            handler=f"{handler}.handler",
            task_root=root,
            timeout_s=60,
            init_timeout_s=60,
            memory_mb=512,
            concurrency=1,
            warm=0,
            environment=ENVIRONMENT,
        )
        colds = [asyncio.run(_cold(spec, folder / "logs")) for _ in range(runs)]
        init_ms, whole_ms = (statistics.median(column) for column in zip(*colds, strict=True))
        found[built.name] = (init_ms, whole_ms)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--imports-alone", action="store_true")
    arguments = parser.parse_args()
    contents = [each for each in all_contents() if not arguments.only or each.name in arguments.only]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        serdes = folder / "serdes"
        subprocess.run([UV, "pip", "install", "--quiet", "--target", serdes, *SERDES], check=True)
        codes = {"naive": NAIVE} | {each.name: f"import {each.handler}" for each in contents}
        measured = imports(codes, arguments.runs, str(serdes))
        naive = measured["naive"]
        print(f"imports, medians of {arguments.runs}; naive {naive.cpu_ms:.0f} ms, {naive.memory_mb:.0f} MB\n")
        print("| function | processor ms | naive / it | wall ms | MB | naive MB / it | modules |")
        print("|---|---|---|---|---|---|---|")
        for name, each in measured.items():
            times, memory = naive.cpu_ms / each.cpu_ms, naive.memory_mb / each.memory_mb
            print(
                f"| {name} | {each.cpu_ms:.0f} | {times:.1f} | {each.wall_ms:.0f} | {each.memory_mb:.0f} |"
                f" {memory:.1f} | {each.modules:.0f} |"
            )
        if arguments.imports_alone:
            return
        contents = [each for each in contents if each.name not in SCHEDULED]
        print("\n| package | init ms | first answer ms |\n|---|---|---|")
        for name, (init_ms, whole_ms) in packages(contents, min(arguments.runs, 5), folder / "packages").items():
            late = f" (target {FIRST_ANSWER_MS})" if whole_ms > FIRST_ANSWER_MS else ""
            print(f"| {name} | {init_ms:.0f} | {whole_ms:.0f}{late} |")


if __name__ == "__main__":
    main()
