"""Traces that follow a notification from topic to topic, in the headers of its records.

A record carries W3C's `traceparent` (and `tracestate`, untouched): which trace it is of, and which span made it.
Whoever works on it makes one span of it, and what is derived from it carries that span as its parent. A record without
a valid one begins a trace whose id follows from its send: so that all chunks of a send, a redelivery and a replay are
of one trace, whoever sees them first. Spans are of records, up to 500 recipients each, never of recipients.

    TRACE_EXPORT         log (where nothing is said): a line an invocation (of up to 200 spans), OTLP's JSON, for a
                         collector's `otlpjsonfile` receiver and for `masscomm trace`; xray: a datagram a span to
                         X-Ray's daemon; none
    TRACE_SAMPLE_RATIO   of the traces that begin here, 1 where nothing is said; one that began elsewhere has its flag

Sources: W3C, "Trace Context" level 2; OpenTelemetry, "OTLP Specification"; AWS, "X-Ray segment documents".
"""

import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import batched
from typing import Any

from masscomm import environment
from masscomm.untrusted import mask, masked

PARENT, STATE = "traceparent", "tracestate"
LOG, XRAY, NOTHING = "log", "xray", "none"
# A later version may say more; what it says first is the same.
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_LONGEST_STATE = 512
# Some 100 kB: CloudWatch cuts lines at 256.
_SPANS_A_LINE = 200
_SAMPLED = 1
_DAEMON = "127.0.0.1:2000"

type Headers = Iterable[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Trace:
    """A place in a trace. trace_id: 32 hexadecimal digits; span_id: 16, of the span that is the parent of what comes
    now, empty where there is none; state: of other vendors.
    """

    trace_id: str
    span_id: str = ""
    sampled: bool = True
    state: str = ""

    @property
    def traceparent(self) -> str:
        """As a header says it. A trace that nobody has worked on yet has no parent to name: it names itself."""
        return f"00-{self.trace_id}-{self.span_id or self.trace_id[16:]}-{'01' if self.sampled else '00'}"

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """What a record derived from here carries."""
        state = [(STATE, self.state.encode())] if self.state else []
        return [(PARENT, self.traceparent.encode()), *state]

    def within(self) -> "Trace":
        """A span of its own under this one."""
        return Trace(self.trace_id, os.urandom(8).hex(), self.sampled, self.state)


def parse(traceparent: str | None, state: str | None = None) -> Trace | None:
    """What the headers say; None where they are absent or no such thing, which is never an error."""
    found = _TRACEPARENT.fullmatch((traceparent or "").strip())
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    if not int(found[2], 16) or not int(found[3], 16):
        return None
    kept = state or ""
    if len(kept) > _LONGEST_STATE or not kept.isascii() or not kept.isprintable():
        kept = ""
    return Trace(found[2], found[3], bool(int(found[4], 16) & _SAMPLED), kept)


def begun_by(name: str) -> Trace:
    """The trace of a send, by its id; of a record without one, by its position."""
    digest = blake2b(name.encode(), digest_size=16, person=b"masscomm trace").digest()
    share = int.from_bytes(digest[8:]) / 2**64
    return Trace(digest.hex(), sampled=share < _ratio())


def of_headers(headers: Headers) -> Trace | None:
    """What a record carries, the last of each header; None where that is nothing valid."""
    found = {name: value for name, value in headers if name in (PARENT, STATE)}
    if PARENT not in found:
        return None
    return parse(found[PARENT].decode("latin-1"), found.get(STATE, b"").decode("latin-1"))


def replaced(headers: Headers, trace: Trace) -> tuple[tuple[str, bytes], ...]:
    """The headers with the trace in place of the one they had."""
    return (*(each for each in headers if each[0] not in (PARENT, STATE)), *trace.headers)


@dataclass(kw_only=True)
class Span:
    """What one function did about one record.

    trace: with the span's own id; parent_id: of the span before it, empty for a first one; attributes: send_id,
    club_id, position and the like; error: why the record is redelivered or was dead-lettered.
    """

    name: str
    trace: Trace
    parent_id: str
    start_ns: int
    attributes: dict[str, Any] = field(default_factory=dict)
    end_ns: int = 0
    error: str | None = None


class Spans:
    """Gathers the spans of an invocation until they are written. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: list[Span] = []

    def begin(self, name: str, above: Trace, **attributes: Any) -> Span:
        """A span under the one that the trace names."""
        return Span(
            name=name,
            trace=above.within(),
            parent_id=above.span_id,
            start_ns=time.time_ns(),
            attributes=attributes,
        )

    def end(self, span: Span, error: str | None = None) -> None:
        """It is over; one that is not sampled is forgotten."""
        if span.trace.sampled:
            span.end_ns, span.error = time.time_ns(), error
            with self._lock:
                self._ended.append(span)

    def taken(self) -> list[Span]:
        """All that have ended, which are forgotten."""
        with self._lock:
            ended, self._ended = self._ended, []
        return ended


_spans = Spans()
begin, end, taken = _spans.begin, _spans.end, _spans.taken


def write(service: str) -> None:
    """Export the spans that have ended, as TRACE_EXPORT says.

    Errors: Stop for a setting that does not exist; OSError where X-Ray's daemon cannot be sent to.
    """
    spans = [_masked(span) for span in taken()]  # guard: masking.spans
    if not spans:
        return
    export = _export()
    if export == NOTHING:
        return
    if export == LOG:
        for some in batched(spans, _SPANS_A_LINE, strict=False):
            print(json.dumps(otlp(service, some), separators=(",", ":")), flush=True)  # noqa: T201 - a log line
        return
    host, _, port = _daemon().rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        for span in spans:
            # Nobody hears whether it has arrived: as with every trace in Lambda.
            sending.sendto(b'{"format":"json","version":1}\n' + xray(service, span), (host, int(port)))


def _masked(span: Span) -> Span:
    """What leaves the process names no person: errors quote what others wrote."""
    return replace(span, attributes=masked(span.attributes), error=span.error and mask(span.error))


def check_config() -> None:
    """Check the variables of tracing at start.

    Raises:
        Stop: a variable has an invalid value.
    """
    _export()
    _ratio()


def _export() -> str:
    return environment.choice("TRACE_EXPORT", (LOG, XRAY, NOTHING))


def _ratio() -> float:
    return environment.number("TRACE_SAMPLE_RATIO", 1.0)


def _daemon() -> str:
    """`host:port`, or `tcp:host:port udp:host:port`."""
    text = os.environ.get("AWS_XRAY_DAEMON_ADDRESS") or _DAEMON
    return next((part[4:] for part in text.split() if part.startswith("udp:")), text)


def otlp(service: str, spans: Iterable[Span]) -> dict[str, Any]:
    """An ExportTraceServiceRequest in OTLP's JSON."""
    resource = {
        "service.name": service,
        "deployment.environment.name": os.environ.get("MASSCOMM_ENVIRONMENT", "local"),
        "masscomm.lane": os.environ.get("MASSCOMM_LANE", "bulk"),
    }
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [{"scope": {"name": "masscomm"}, "spans": [_otlp_span(span) for span in spans]}],
            }
        ]
    }


def _otlp_span(span: Span) -> dict[str, Any]:
    return {
        "traceId": span.trace.trace_id,
        "spanId": span.trace.span_id,
        **({"parentSpanId": span.parent_id} if span.parent_id else {}),
        **({"traceState": span.trace.state} if span.trace.state else {}),
        "name": span.name,
        "kind": 5,  # consumer
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
        "status": {"code": 2, "message": span.error} if span.error else {},
    }


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": name, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}}
        for name, value in values.items()
        if value is not None
    ]


def xray(service: str, span: Span) -> bytes:
    """A segment document. X-Ray takes W3C's trace ids, cut in two."""
    document = {
        "name": f"masscomm.{service}",
        "id": span.trace.span_id,
        "trace_id": f"1-{span.trace.trace_id[:8]}-{span.trace.trace_id[8:]}",
        **({"parent_id": span.parent_id} if span.parent_id else {}),
        "start_time": span.start_ns / 1e9,
        "end_time": span.end_ns / 1e9,
        "annotations": {name.replace(".", "_"): value for name, value in span.attributes.items() if value is not None},
        **({"fault": True, "metadata": {"error": span.error}} if span.error else {}),
    }
    return json.dumps(document, separators=(",", ":")).encode()
