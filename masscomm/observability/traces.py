"""Traces: record headers propagate the trace of a notification from topic to topic.

A record contains W3C's `traceparent` (and an unchanged `tracestate`): the ids of its trace and of the span that
produced it. A function creates one span for each record that it processes, and the records that it derives from it
contain that span as their parent. A record without a valid `traceparent` begins a trace whose id is derived from its
send. So all chunks of a send, a redelivery and a replay are in one trace, in any order of processing. A span describes
the processing of a record with up to 500 recipients; recipients have no spans of their own.

    TRACE_EXPORT         log (default): one line per invocation (and per 200 spans) in OTLP's JSON, for a collector's
                         `otlpjsonfile` receiver and for `masscomm trace`; xray: one datagram per span to X-Ray's
                         daemon; none
    TRACE_SAMPLE_RATIO   share of sampled traces that begin here, by default 1; other traces keep their sampled flag

Sources: W3C, "Trace Context" level 2; OpenTelemetry, "OTLP Specification"; AWS, "X-Ray segment documents".
"""

import os
import re
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import batched
from typing import Any, NamedTuple

from masscomm import environment, fast_json
from masscomm.untrusted import mask, masked

PARENT, STATE = "traceparent", "tracestate"
LOG, XRAY, NOTHING = "log", "xray", "none"
# A later version of the header may append fields; the first four remain the same.
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_LONGEST_STATE = 512
# The largest number of spans in a log line, about 100 kB; CloudWatch truncates lines at 256 kB.
_SPANS_A_LINE = 200
_SAMPLED = 1
_DAEMON = "127.0.0.1:2000"

type Headers = Iterable[tuple[str, bytes]]


class Trace(NamedTuple):
    """A position in a trace: the trace, and the parent of the next span."""

    # The id of the trace: 32 hexadecimal digits.
    trace_id: str
    # The id of the parent span: 16 hexadecimal digits, or empty if there is no parent.
    span_id: str = ""
    sampled: bool = True
    # The header `tracestate`, which other vendors' systems use.
    state: str = ""

    @property
    def traceparent(self) -> str:
        """Return the value of the header `traceparent`. If there is no parent span, the last digits of the trace id
        are its span id.
        """
        return f"00-{self.trace_id}-{self.span_id or self.trace_id[16:]}-{'01' if self.sampled else '00'}"

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        state = [(STATE, self.state.encode())] if self.state else []
        return [(PARENT, self.traceparent.encode()), *state]

    def within(self) -> "Trace":
        """Return the position of a new span in the same trace."""
        return Trace(self.trace_id, os.urandom(8).hex(), self.sampled, self.state)


def parse(traceparent: str | None, state: str | None = None) -> Trace | None:
    """Return the position in the headers `traceparent` and `tracestate`; None if `traceparent` is missing or
    invalid.
    """
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
    """Return a new trace for a send.

    Args:
        name: The send's id, or the source position of a record without one. The trace id is derived from it.
    """
    digest = blake2b(name.encode(), digest_size=16, person=b"masscomm trace").digest()
    share = int.from_bytes(digest[8:]) / 2**64
    return Trace(digest.hex(), sampled=share < _ratio())


def of_headers(headers: Headers) -> Trace | None:
    """Return the trace in a record's headers (the last header of each name counts); None if there is no valid one."""
    found = {name: value for name, value in headers if name in (PARENT, STATE)}
    if PARENT not in found:
        return None
    return parse(found[PARENT].decode("latin-1"), found.get(STATE, b"").decode("latin-1"))


def replaced(headers: Headers, trace: Trace) -> tuple[tuple[str, bytes], ...]:
    return (*(each for each in headers if each[0] not in (PARENT, STATE)), *trace.headers)


@dataclass(kw_only=True)
class Span:
    """The processing of one record by one function."""

    name: str
    # The position of this span in its trace; its span_id is the id of this span.
    trace: Trace
    # The id of the parent span; empty for the first span of a trace.
    parent_id: str
    start_ns: int
    # The attributes of the span, such as send_id, club_id and the record's position in Kafka.
    attributes: dict[str, Any] = field(default_factory=dict)
    end_ns: int = 0
    # Why the record is redelivered or was dead-lettered; None if it succeeded.
    error: str | None = None


class Spans:
    """Collects the spans of an invocation until they are written. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: list[Span] = []

    def begin(self, name: str, above: Trace, **attributes: Any) -> Span:
        """Start a span. The span of `above` is its parent."""
        return Span(
            name=name,
            trace=above.within(),
            parent_id=above.span_id,
            start_ns=time.time_ns(),
            attributes=attributes,
        )

    def end(self, span: Span, error: str | None = None) -> None:
        """End a span. It is dropped if its trace is not sampled."""
        if span.trace.sampled:
            span.end_ns, span.error = time.time_ns(), error
            with self._lock:
                self._ended.append(span)

    def taken(self) -> list[Span]:
        with self._lock:
            ended, self._ended = self._ended, []
        return ended


_spans = Spans()
begin, end, taken = _spans.begin, _spans.end, _spans.taken


def write(service: str) -> None:
    """Export the ended spans to the destination in TRACE_EXPORT.

    Args:
        service: The function's name.

    Raises:
        Stop: TRACE_EXPORT has an unknown value.
        OSError: The spans could not be sent to X-Ray's daemon.
    """
    spans = [_masked(span) for span in taken()]  # guard: masking.spans
    if not spans:
        return
    export = _export()
    if export == NOTHING:
        return
    if export == LOG:
        for some in batched(spans, _SPANS_A_LINE, strict=False):
            print(fast_json.ascii_text(otlp(service, some)), flush=True)  # noqa: T201 - a log line
        return
    host, _, port = _daemon().rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        for span in spans:
            # UDP has no acknowledgement, so that a lost span is not noticed, as for every X-Ray trace in Lambda.
            sending.sendto(b'{"format":"json","version":1}\n' + xray(service, span), (host, int(port)))


def _masked(span: Span) -> Span:
    """Mask personal data in the span's attributes and error, because errors quote untrusted text. The names of the
    attributes are our own.
    """
    for name, value in span.attributes.items():
        if type(value) is not int:
            span.attributes[name] = masked(value)
    span.error = span.error and mask(span.error)
    return span


def check_config() -> None:
    """Check the environment variables of tracing when the function starts.

    Raises:
        Stop: A variable has an invalid value.
    """
    _export()
    _ratio()


def _export() -> str:
    return environment.choice("TRACE_EXPORT", (LOG, XRAY, NOTHING))


def _ratio() -> float:
    return environment.number("TRACE_SAMPLE_RATIO", 1.0)


def _daemon() -> str:
    """Return the UDP address of X-Ray's daemon from a text like `host:port` or `tcp:host:port udp:host:port`."""
    text = os.environ.get("AWS_XRAY_DAEMON_ADDRESS") or _DAEMON
    return next((part[4:] for part in text.split() if part.startswith("udp:")), text)


def otlp(service: str, spans: Iterable[Span]) -> dict[str, Any]:
    """Return the spans as an ExportTraceServiceRequest in OTLP's JSON."""
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
        "kind": 5,  # The span kind 5 means consumer.
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
    """Return a span as X-Ray's segment document. Its trace id is W3C's trace id, split into two parts."""
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
    return fast_json.ascii_text(document).encode()
