"""Starts and controls the process of the SNS stand-in, a local server that accepts SNS' requests. Its control
interface is:

GET  /_control/received?since=N&most=M   accepted publishes from the Nth on, at most M of them:
                                  [[time, endpoint, message_id, notification_id]]
GET  /_control/emails             accepted e-mails: [{RawData, ConfigurationSetName, TenantName}]
GET  /_control/texts              accepted SMS: [{DestinationPhoneNumber, MessageBody, …, MessageId}]
GET  /_control/events?since=n    events of answers and reports, as AWS invokes functions with them
POST /_control/answers           an answer to an SMS: {number, to, text, message_id}
POST /_control/reports           a report about an SMS: {message_id, kind: TEXT_DELIVERED}
PUT  /_control/identities         [the origination identities that exist]
GET  /_control/counts             {calls, accepted, refused: {code: n}, held}, of publishes
PUT  /_control/rules              [{code, endpoint, share, after, times, delay_s}], replacing the earlier rules
PUT  /_control/limit              {per_s, burst}; per_s null: no limit
POST /_control/release            answer the calls that are held
"""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from local.devstack import process
from local.devstack.config import ROOT
from local.emulators.local import LOOPBACK
from local.emulators.sns_stand_in.script import Rule

TIMEOUT_S = 60.0
STOP_S = 5.0
_PAGE = 50_000


class StandInError(Exception):
    """The stand-in could not start."""


@dataclass(frozen=True)
class Received:
    """A publish request that the stand-in accepted."""

    time: float  # The time of the request in seconds since the epoch.
    endpoint: str
    message_id: str
    notification_id: str  # The id of the notification; empty if the message has none.


@dataclass(frozen=True)
class Counts:
    """The numbers of publish requests: all calls, accepted ones, refused ones by error code, and accepted ones whose
    response is held back.
    """

    calls: int
    accepted: int
    refused: Mapping[str, int]
    held: int


class SnsStandIn:
    """A running stand-in for SNS. Every method raises httpx.HTTPError if it does not respond."""

    def __init__(self, port: int) -> None:
        self.url = f"http://{LOOPBACK}:{port}"
        self._client = httpx.Client(base_url=f"{self.url}/_control", timeout=TIMEOUT_S, trust_env=False)
        self._received: list[Received] = []

    @classmethod
    @contextmanager
    def start(cls, *, port: int = 0, log: Path | None = None, any_endpoint: bool = False) -> "Iterator[SnsStandIn]":
        """Run the stand-in in its own process while this context lasts. With port 0 it uses a free port. Raises
        StandInError.

        The process ends with the thread that started it.
        """
        command = [sys.executable, "-m", "local.emulators.sns_stand_in", "--port", str(port)]
        command += ["--log", str(log)] if log is not None else []
        command += ["--any-endpoint"] if any_endpoint else []
        with subprocess.Popen(
            process.child_command(command, death_signal=signal.SIGKILL, owned=()),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        ) as running:
            try:
                line = running.stdout.readline() if running.stdout is not None else ""
                if not line.strip().isdecimal():
                    raise StandInError(f"the SNS stand-in ended with status {running.wait(STOP_S)}")
                stand_in = cls(int(line))
                try:
                    yield stand_in
                finally:
                    stand_in.close()
            finally:
                running.terminate()
                try:
                    running.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    running.kill()

    def close(self) -> None:
        """Close the client's connection; the stand-in continues to run."""
        self._client.close()

    def received(self) -> list[Received]:
        """Return all accepted publish requests in order; only new ones are fetched from the stand-in."""
        answer = self._client.get("/received", params={"since": len(self._received)}).raise_for_status()
        self._received += [Received(*entry) for entry in answer.json()]
        return list(self._received)

    def received_from(self, first: int) -> Iterator[Received]:
        """Return the accepted publish requests from a number on, in order, without storing them in this object."""
        while (
            entries := self._client.get("/received", params={"since": first, "most": _PAGE}).raise_for_status().json()
        ):
            yield from (Received(*entry) for entry in entries)
            first += len(entries)

    def emails(self) -> list[dict[str, Any]]:
        """Return the accepted e-mails."""
        return list(self._client.get("/emails").raise_for_status().json())

    def texts(self) -> list[dict[str, Any]]:
        """Return the accepted SMS, as they were requested, with their message ids."""
        return list(self._client.get("/texts").raise_for_status().json())

    def answer_text(self, number: str, to: str, text: str, message_id: str | None = None) -> None:
        """Let the recipient with a number answer an SMS."""
        document = {"number": number, "to": to, "text": text, "message_id": message_id}
        self._client.post("/answers", json=document).raise_for_status()

    def report_text(self, message_id: str, kind: str = "TEXT_DELIVERED") -> None:
        """Let the carrier report the arrival of an SMS."""
        self._client.post("/reports", json={"message_id": message_id, "kind": kind}).raise_for_status()

    def events(self, since: int = 0) -> list[dict[str, Any]]:
        """Return the events of answers and reports from a number on."""
        return list(self._client.get("/events", params={"since": since}).raise_for_status().json())

    def put_identities(self, *identities: str) -> None:
        """Let these senders of SMS exist, and no others."""
        self._client.put("/identities", json=identities).raise_for_status()

    def counts(self) -> Counts:
        return Counts(**self._client.get("/counts").raise_for_status().json())

    def answer(self, *rules: Rule) -> None:
        """Set the rules by which the stand-in responds from now on; earlier rules are removed."""
        self._put("rules", [asdict(rule) for rule in rules])

    def limit(self, *, per_s: float | None, burst: float | None = None) -> None:
        """Throttle publish requests above per_s a second. `burst` is the number of requests accepted at once, by
        default per_s / 10.
        """
        self._put("limit", {"per_s": per_s, "burst": burst if burst is not None else max(1.0, (per_s or 0) / 10)})

    def release(self) -> None:
        """Respond to the calls that are held back."""
        self._client.post("/release").raise_for_status()

    def clear(self) -> None:
        """Accept all publish requests again, and respond to those that are held back."""
        self.answer()
        self.limit(per_s=None)
        self.release()

    def _put(self, name: str, document: Any) -> None:
        self._client.put(f"/{name}", json=document).raise_for_status()
