"""Traces: valid headers continue a trace, others begin a new one; a redelivered send keeps its trace."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.chain.batch import Batch, BatchDriver, Item
from masscomm.domain.records import SendRequested
from masscomm.errors import DeadLetter, Retry, Stop
from masscomm.kafka import topics
from masscomm.kafka.dead_letters import replay_headers
from masscomm.observability import traces
from tests.support.harness.chain import Chain, send
from tests.support.harness.relay import Relay

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture(autouse=True)
def _no_spans() -> Iterator[None]:
    """Discard the spans of other tests."""
    traces.taken()
    yield
    traces.taken()


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "ff" + VALID[2:],
        VALID.upper(),
        VALID + "-more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE[1:]}-{SPAN}-01",
        "\u0660" + VALID[1:],
    ],
)
def test_malformed_traceparent_is_ignored(text: str | None) -> None:
    assert traces.parse(text) is None


def test_traceparent_is_read_with_flag_and_later_version() -> None:
    assert traces.parse(VALID) == traces.Trace(TRACE, SPAN, sampled=True)
    assert traces.parse(f"00-{TRACE}-{SPAN}-02") == traces.Trace(TRACE, SPAN, sampled=False)
    assert traces.parse(f"01-{TRACE}-{SPAN}-01-more") == traces.Trace(TRACE, SPAN, sampled=True)
    assert traces.parse(f" {VALID} ", "a=b") == traces.Trace(TRACE, SPAN, sampled=True, state="a=b")
    assert traces.parse(VALID, "a=b\r\nx: y") == traces.Trace(TRACE, SPAN, sampled=True)


@given(st.binary(), st.binary())
def test_any_trace_header_is_read_without_an_error(parent: bytes, state: bytes) -> None:
    found = traces.of_headers([("traceparent", parent), ("tracestate", state)])
    assert found is None or traces.of_headers(found.headers) == found


@given(st.text(min_size=1))
def test_send_begins_the_same_valid_trace_each_time(send_id: str) -> None:
    begun = traces.begun_by(send_id)
    assert begun == traces.begun_by(send_id)
    found = traces.parse(begun.traceparent)
    assert found is not None
    assert (found.trace_id, found.sampled) == (begun.trace_id, begun.sampled)


def test_sampled_share_follows_the_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRACE_SAMPLE_RATIO", "0.25")
    sampled = sum(traces.begun_by(f"send-{number}").sampled for number in range(2_000))
    assert 400 < sampled < 600
    monkeypatch.setenv("TRACE_SAMPLE_RATIO", "often")
    with pytest.raises(Stop, match="TRACE_SAMPLE_RATIO"):
        traces.check_config()


def _driver(chain: Chain) -> BatchDriver:
    return BatchDriver(function="under_test", codec=chain.codec, producer=chain.producer)


def _carried(chain: Chain, topic: str) -> list[traces.Trace | None]:
    return [traces.of_headers(headers) for name, _, _, headers in chain.producer.produced if name == topic]


def test_derived_record_carries_the_span_of_its_parent() -> None:
    chain = Chain()
    first = chain.encoded(
        send([1, 2], send_id="a"),
        topics.SEND_MONOLITH,
        headers=[("traceparent", VALID.encode()), ("tracestate", b"a=b")],
    )
    second = chain.encoded(send([3], send_id="b"), topics.SEND_MONOLITH, offset=1)
    assert chain.run(Relay(), first, second) == []
    spans = {span.attributes["send_id"]: span for span in traces.taken()}
    assert (spans["a"].trace.trace_id, spans["a"].parent_id) == (TRACE, SPAN)
    assert (spans["b"].trace.trace_id, spans["b"].parent_id) == (traces.begun_by("b").trace_id, "")
    assert _carried(chain, topics.SEND_API) == [spans["a"].trace, spans["a"].trace, spans["b"].trace]
    assert spans["a"].trace.state == "a=b"
    assert spans["a"].attributes["position"] == f"{topics.SEND_MONOLITH}-0@0"
    assert spans["a"].start_ns <= spans["a"].end_ns


def test_redelivery_and_replay_share_the_trace_with_own_spans() -> None:
    chain = Chain()
    bad = DeadLetter("invalid", "bad")

    def fail(batch: Batch[SendRequested], item: Item[SendRequested]) -> None:
        raise fates.pop(0)

    fates: list[Exception] = [Retry("down"), bad]
    record = chain.encoded(send([1], send_id="a"), topics.SEND_MONOLITH)
    for expected in ([0], []):
        assert chain.run(Relay(work=fail), record) == expected
    (letter,) = (headers for name, _, _, headers in chain.producer.produced if name == topics.DEAD_LETTER)
    again = chain.encoded(
        send([1], send_id="a"), topics.SEND_MONOLITH, headers=replay_headers(letter, "dead-letter-0@0")
    )
    assert chain.run(Relay(), again) == []
    retried, dead, replayed = traces.taken()
    assert {span.trace.trace_id for span in (retried, dead, replayed)} == {traces.begun_by("a").trace_id}
    assert len({span.trace.span_id for span in (retried, dead, replayed)}) == 3
    assert replayed.parent_id == dead.trace.span_id
    assert (retried.error, dead.error, replayed.error) == ("down", "dead letter: invalid: bad", None)


def test_unsampled_record_makes_no_span_and_stays_unsampled() -> None:
    chain = Chain()
    quiet = [("traceparent", f"00-{TRACE}-{SPAN}-00".encode())]
    assert chain.run(Relay(), chain.encoded(send([1]), topics.SEND_MONOLITH, headers=quiet)) == []
    assert traces.taken() == []
    (carried,) = _carried(chain, topics.SEND_API)
    assert carried is not None
    assert (carried.trace_id, carried.sampled) == (TRACE, False)


def test_record_without_send_id_and_trace_makes_no_span() -> None:
    chain = Chain()
    record = chain.encoded(send([1], send_id=None), topics.SEND_MONOLITH)
    assert chain.run(Relay(), record) == []
    assert traces.taken() == []
    assert _carried(chain, topics.SEND_API) == [None]


def test_trace_header_set_by_a_use_case_stays() -> None:
    chain = Chain()
    other = traces.begun_by("other")

    def work(batch: Batch[SendRequested], item: Item[SendRequested]) -> None:
        batch.produce(item, topics.SEND_API, "key", send([1]), other.headers)

    assert chain.run(Relay(work=work), chain.encoded(send([1]), topics.SEND_MONOLITH)) == []
    assert [each and each.trace_id for each in _carried(chain, topics.SEND_API)] == [other.trace_id]


def _one_span() -> traces.Span:
    chain = Chain()
    assert chain.run(Relay(), chain.encoded(send([1], send_id="a"), topics.SEND_MONOLITH)) == []
    (span,) = traces.taken()
    traces.end(span, "an error")
    return span


def _written_span(line: str) -> Any:
    (span,) = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return span


def test_spans_are_written_as_a_line_of_otlp(capsys: pytest.CaptureFixture[str]) -> None:
    span = _one_span()
    traces.write("builder")
    traces.write("builder")
    (line,) = capsys.readouterr().out.splitlines()
    (resource,) = json.loads(line)["resourceSpans"]
    assert {"key": "service.name", "value": {"stringValue": "builder"}} in resource["resource"]["attributes"]
    written = _written_span(line)
    assert (written["traceId"], written["spanId"]) == (span.trace.trace_id, span.trace.span_id)
    assert "parentSpanId" not in written
    assert written["status"] == {"code": 2, "message": "an error"}
    assert {"key": "club_id", "value": {"intValue": "7"}} in written["attributes"]


@pytest.mark.parametrize("text", ["\u2028 ü", "half of a pair: \ud83d"])
def test_line_of_spans_is_ascii(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    traces.end(traces.begin("x", traces.begun_by("a"), tag=text))
    traces.write("x")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.isascii()
    assert text in [attribute["value"]["stringValue"] for attribute in _written_span(line)["attributes"]]


def test_a_line_holds_two_hundred_spans_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(201):
        traces.end(traces.begin("x", traces.begun_by("a")))
    traces.write("x")
    counts = [text.count('"spanId"') for text in capsys.readouterr().out.splitlines()]
    assert counts == [200, 1]


def test_spans_are_sent_to_the_configured_xray_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(5)
        monkeypatch.setenv("TRACE_EXPORT", "xray")
        monkeypatch.setenv("AWS_XRAY_DAEMON_ADDRESS", f"tcp:127.0.0.1:1 udp:127.0.0.1:{daemon.getsockname()[1]}")
        span = _one_span()
        traces.write("builder")
        head, _, body = daemon.recv(65_536).partition(b"\n")
    document: dict[str, Any] = json.loads(body)
    assert json.loads(head) == {"format": "json", "version": 1}
    assert document["trace_id"].replace("-", "")[1:] == span.trace.trace_id
    assert (document["id"], document["fault"]) == (span.trace.span_id, True)
    assert document["annotations"]["send_id"] == "a"


def test_disabled_export_writes_no_span(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TRACE_EXPORT", "none")
    _one_span()
    capsys.readouterr()
    traces.write("builder")
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("TRACE_EXPORT", "somewhere")
    with pytest.raises(Stop, match="TRACE_EXPORT"):
        traces.check_config()
