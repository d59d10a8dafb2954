"""Measure the processor time of the delivery ledger's client: `python -m lab.benchmarks.ledger_client`.

Another process answers each request with `{}`, so that the figures contain only this process's work: building the item,
JSON, the signature, HTTP. The benchmark prints the medians of the rounds in microseconds per call and recipient.
"""

import argparse
import multiprocessing
import os
import socket
import statistics
import time
from collections.abc import Callable, Sequence
from uuid import UUID

from rich.console import Console
from rich.table import Table

from local.devstack.service import AWS_CREDENTIALS
from masscomm.aws.client import DynamoDb
from masscomm.aws.request import Limits
from masscomm.clock import SystemClock
from masscomm.domain.call_results import CallResult, RecipientResult
from masscomm.domain.preferences import Decision
from masscomm.domain.statuses import Status
from masscomm.stores.delivery_ledger.dynamodb import DynamoDbDeliveryLedger

SLICE_SIZE, BATCH = 40, 100
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: 2\r\n\r\n{}"
_END = b"\r\n\r\n"


def answer(server: socket.socket) -> None:
    connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    received = b""
    while data := connection.recv(65_536):
        received += data
        head, end, body = received.partition(_END)
        if end and len(body) == int(head.lower().partition(b"content-length:")[2].split()[0]):
            received = b""
            connection.sendall(_ANSWER)


def calls(ledger: DynamoDbDeliveryLedger) -> dict[str, tuple[int, Callable[[], object]]]:
    """Return each call by name, with its number of recipients."""
    ids = [str(UUID(int=number)) for number in range(BATCH)]
    many, one = _results(SLICE_SIZE), _results(1)
    return {
        f"record: a slice of {SLICE_SIZE}": (SLICE_SIZE, lambda: ledger.record(ids[0], many)),
        "record: a slice of 1": (1, lambda: ledger.record(ids[0], one)),
        f"record_all: {BATCH} slices of 1": (BATCH, lambda: ledger.record_all(dict.fromkeys(ids, one))),
        "acquire: 1 lease": (1, lambda: ledger.acquire(ids[0])),
        f"acquire_all: {BATCH} leases": (BATCH, lambda: ledger.acquire_all(ids)),
    }


def _results(count: int) -> Sequence[RecipientResult]:
    sent = Decision(Status.SENT, None, "provider")
    return [
        RecipientResult(
            position=number,
            user_id=30_000_000 + number,
            decision=sent,
            call_results=(CallResult(target=str(30_000_000 + number), message_id=str(UUID(int=number))),),
        )
        for number in range(count)
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description="Processor time of the delivery ledger's client.")
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--calls", type=int, default=100, help="of each kind in a round")
    chosen = arguments.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = multiprocessing.get_context("fork").Process(target=answer, args=(server,), daemon=True)
        process.start()
        os.environ |= {
            **AWS_CREDENTIALS,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.getsockname()[1]}",
            # The token is as long as the session token of a role.
            "AWS_SESSION_TOKEN": "t" * 800,
        }
        client = DynamoDb(Limits(connections=1, connect_s=5, read_s=5))
        ledger = DynamoDbDeliveryLedger(table="delivery_ledger", owner="owner", clock=SystemClock(), client=client)  # type: ignore[arg-type]
        found: dict[str, list[float]] = {}
        for _ in range(chosen.rounds):
            for name, (_, call) in calls(ledger).items():
                began = time.process_time()
                for _ in range(chosen.calls):
                    call()
                found.setdefault(name, []).append((time.process_time() - began) / chosen.calls * 1e6)
        process.terminate()
    table = Table("call", "µs", "µs a recipient")
    for name, (recipients, _) in calls(ledger).items():
        middle = statistics.median(found[name])
        table.add_row(name, f"{middle:.0f}", f"{middle / recipients:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
