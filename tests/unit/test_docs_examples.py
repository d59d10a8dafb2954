"""Examples in the documentation are executed, and its tables agree with the code.

A fenced block names its kind after the language, as ```json SendRequested; KINDS has a check for each kind.
"""

import importlib
import io
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid5

import fastavro
import pytest
from confluent_kafka import Consumer, Producer

from examples.read_outcomes import read_outcomes
from functions.builder.rendering import (
    ALLOWED_FILTERS,
    ALLOWED_TESTS,
    MAX_STEPS,
    RenderError,
    Steps,
    compile_source,
    render,
)
from functions.builder.templates import context_of
from functions.preference_checker.chunk import read_chunk
from masscomm.domain.ids import NAMESPACE, notification_id
from masscomm.domain.limits import FIELDS_OF_SEND, MAX_RECORD_BYTES
from masscomm.domain.records import MAX_COPIED_BYTES, NotificationOutcome
from masscomm.domain.statuses import RANK, TERMINAL, Reason, Status
from masscomm.domain.users import User
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema
from masscomm.kafka.event import KafkaRecord
from tests.support import prose
from tests.support.harness.send_api import SendApi
from tests.support.servers.registry_server import ConfluentRegistry, serving

ROOT = Path(__file__).resolve().parents[2]
PAGES = [name for name in prose.files_of_repository() if name.endswith(".md")]
_FENCED = re.compile(r"^```(\w+) ([^\n]+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_WITHOUT_KIND = re.compile(r"^```json$", re.MULTILINE)
_CODE_SPAN = re.compile(r"`([^`]+)`")
SCHEMA_ID = 1


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the kind and the content of each fenced block of a page that has a kind."""
    return [(kind, content) for _, kind, content in _FENCED.findall(text_of(page))]


def block(page: str, kind: str) -> Any:
    """Return the JSON of the only block of a kind on a page."""
    (content,) = (content for each, content in blocks(page) if each == kind)
    return json.loads(content)


def table(page: str, heading: str) -> list[list[str]]:
    """Return the cells of each row of the first table below a heading, without its head."""
    below = re.split(rf"^#+ {re.escape(heading)}$", text_of(page), maxsplit=1, flags=re.MULTILINE)[1]
    rows = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert rows is not None
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[0].splitlines()[2:]]


def names(cell: str) -> list[str]:
    return _CODE_SPAN.findall(cell)


def wire_format(record: Mapping[str, Any], schema: str) -> bytes:
    """Return a record in the Confluent wire format. A field without a value must have a default."""
    buffer = io.BytesIO(b"\0" + SCHEMA_ID.to_bytes(4, "big"))
    buffer.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(
        buffer, fastavro.parse_schema(own_schema(schema)), dict(record), strict_allow_default=True
    )
    return buffer.getvalue()


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    return SendApi(monkeypatch)


# --- each kind of block -----------------------------------------------------------------------------------------------


def check_request(content: str, api: SendApi) -> None:
    status, body, _ = api.call(content)
    assert status == 202, body


def check_send_record(content: str, _api: SendApi) -> None:
    registry = InMemorySchemaRegistry()
    registry.register("send.monolith-value", own_schema("SendRequested"))
    send = json.loads(content)
    record = KafkaRecord(
        topic="send.monolith",
        partition=0,
        offset=0,
        timestamp_ms=send["timestamp"],
        key=None,
        value=wire_format(send, "SendRequested"),
        headers=(),
    )
    chunk = read_chunk(record, Codec(registry), now_ms=send["timestamp"])
    assert chunk.fault is None
    assert chunk.request.user_ids == send["to_users"]


def check_outcome_record(content: str, _api: SendApi) -> None:
    registry = InMemorySchemaRegistry()
    registry.register("outcome-value", own_schema("NotificationOutcome"))
    values = json.loads(content)
    outcome = NotificationOutcome.from_avro(
        Codec(registry).decode("NotificationOutcome", wire_format(values, "NotificationOutcome"))
    )
    assert {field["name"] for field in own_schema("NotificationOutcome")["fields"]} == values.keys()
    assert {Status(result.status) for result in outcome.results} <= set(Status)
    assert sum(result.count for result in outcome.results) == len(outcome.user_ids) == len(outcome.result_index)


def check_response(content: str, api: SendApi) -> None:
    """The response has the members that the service returns."""
    _, body, _ = api.post()
    assert json.loads(content).keys() == body.keys()


def check_problem(content: str, api: SendApi) -> None:
    """The problem is the service's response to a request without recipients."""
    assert api.post(to_users=[])[:2] == (400, json.loads(content))


def check_rendering(content: str, *, escaped: bool = False) -> None:
    for source, text in (line.split(" → ") for line in content.splitlines()):
        assert rendered(source, escaped=escaped) == text


def check_refused(content: str, _api: SendApi) -> None:
    for source in content.splitlines():
        with pytest.raises(RenderError):
            rendered(source)


KINDS: Mapping[str, Callable[[str, SendApi], None]] = {
    "POST /v1/sends": check_request,
    "SendRequested": check_send_record,
    "NotificationOutcome": check_outcome_record,
    "202": check_response,
    "400": check_problem,
    # test_consumer_of_the_page_prints_its_line compares it.
    "line": lambda *_: None,
    "rendering": lambda content, _: check_rendering(content),
    "rendering html": lambda content, _: check_rendering(content, escaped=True),
    "refused": check_refused,
    # test_template_columns_are_those_of_the_directory compares it.
    "notification_templates": lambda *_: None,
}


@pytest.mark.parametrize("page", PAGES)
def test_examples_of_a_page_are_right(page: str, api: SendApi) -> None:
    for kind, content in blocks(page):
        if (ROOT / kind).is_file():
            assert content in (ROOT / kind).read_text(), f"{page} shows another {kind}"
        else:
            KINDS[kind](content, api)
    assert _WITHOUT_KIND.findall(text_of(page)) == [], "name the kind of the block"


# --- commands ---------------------------------------------------------------------------------------------------------


def commands(page: str, program: str) -> Iterator[list[str]]:
    """Yield the words of each command of a program in the indented code of a page."""
    code = re.sub(r"\\\n\s*", " ", text_of(page))
    for line in re.findall(rf"^ {{4,}}({re.escape(program)} .*)$", code, re.MULTILINE):
        yield shlex.split(line, comments=True)


def test_requests_by_curl_are_accepted(api: SendApi) -> None:
    bodies = [words[words.index("-d") + 1] for page in PAGES for words in commands(page, "curl") if "-d" in words]
    assert len(bodies) >= 3
    assert [body for body in bodies if api.call(body)[0] != 202] == []


# --- tables of docs/sending.md ----------------------------------------------------------------------------------------


def test_every_field_of_a_send_is_documented() -> None:
    rows = {names(row[0])[0]: row for row in table("docs/sending.md", "Fields")}
    assert list(rows) == [field["name"] for field in own_schema("SendRequested")["fields"]]
    for name, limit in FIELDS_OF_SEND.items():
        by_rest = rows[name][2]
        if by_rest in ("set by the service", "in the response"):
            continue
        numbers = {limit.characters, limit.entries, limit.key_characters, limit.total_bytes} - {None}
        assert by_rest == "optional; as `type`" or name == "channels" or numbers <= numbers_of(by_rest), name


def numbers_of(text: str) -> set[int]:
    return {int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text)}


def test_limits_of_a_record_are_documented() -> None:
    (limits,) = re.findall(r"^A Kafka record has at most (?:.+\n)+", text_of("docs/sending.md"), re.MULTILINE)
    assert numbers_of(limits) == {MAX_RECORD_BYTES, MAX_COPIED_BYTES}


def test_every_status_is_documented_in_its_rank() -> None:
    rows = table("docs/sending.md", "Statuses")
    assert [names(row[0])[0] for row in rows] == sorted(RANK, key=lambda status: RANK[status])
    assert {names(row[0])[0] for row in rows if row[2] == "yes"} == TERMINAL


def test_every_reason_is_documented() -> None:
    rows = table("docs/sending.md", "Reasons")
    assert sorted(names(row[0])[0] for row in rows) == sorted(Reason)
    assert {status for row in rows for status in row[1].split(", ")} <= set(Status)


# --- docs/events.md ---------------------------------------------------------------------------------------------------


def test_consumer_of_the_page_prints_its_line() -> None:
    page = "docs/events.md"
    registry = ConfluentRegistry()
    assert registry.register("outcome-value", own_schema("NotificationOutcome")) == SCHEMA_ID
    # The client library of Kafka serves a broker in its own process.
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    producer.produce("outcome", wire_format(block(page, "NotificationOutcome"), "NotificationOutcome"))
    assert producer.flush(10) == 0
    consumer = Consumer(
        {"bootstrap.servers": f"{broker.host}:{broker.port}", "group.id": "g", "auto.offset.reset": "earliest"}
    )
    with serving(registry) as served:
        lines = list(islice(read_outcomes(consumer, served.url), 2))
    consumer.close()
    assert lines[0] == block(page, "line")
    assert [(line["user_id"], line["reason"]) for line in lines] == [(102, "opted_out"), (104, "unknown_user")]


def test_id_of_a_notification_is_the_documented_one() -> None:
    assert notification_id("s", 42, "push") == str(uuid5(NAMESPACE, "s/42/push"))


# --- limits -----------------------------------------------------------------------------------------------------------


def set_by(name: str) -> int:
    """Return the number under a dotted name, as `masscomm.domain.limits.MAX_RECIPIENTS`."""
    module, _, attribute = name.rpartition(".")
    return int(getattr(importlib.import_module(module), attribute))


@pytest.mark.parametrize("page", ["docs/templates.md"])
def test_limits_of_a_page_are_those_of_the_code(page: str) -> None:
    rows = [row for row in table(page, "Limits") if row[-1].startswith("`")]
    assert len(rows) >= 5
    assert [row[0] for row in rows if numbers_of(row[1]) != {set_by(names(row[-1])[0])}] == []


# --- docs/templates.md ------------------------------------------------------------------------------------------------


def test_every_filter_and_test_is_documented() -> None:
    text = text_of("docs/templates.md")
    for kind, known in (("Filters", ALLOWED_FILTERS), ("Tests", ALLOWED_TESTS)):
        (listed,) = re.findall(rf"^- {kind}: (.+(?:\n  .+)*)", text, re.MULTILINE)
        assert names(listed) == sorted(known)


def test_template_columns_are_those_of_the_directory() -> None:
    page = "docs/templates.md"
    mapping = json.loads(text_of("schemas/indices/notification_templates.json"))["mappings"]["properties"]
    documented = {names(row[0])[0] for row in table(page, "Templates")}
    ((_, statement),) = (each for each in blocks(page) if each[0] == "notification_templates")
    (inserted,) = re.findall(r"\((id, .+)\)", statement)
    assert set(inserted.split(", ")) <= documented <= mapping.keys()


def rendered(source: str, *, escaped: bool = False) -> str:
    """Return the text of a template for the values that docs/templates.md names."""
    steps = Steps(MAX_STEPS)
    write, _ = compile_source(source, escaped=escaped, steps=steps)
    user = User(user_id=1, club_id=1, first_name="Ada", last_name="Lovelace", locale="en")
    data = {"goals": "3", "opponent": "FC & Sons", "kick_off": "19:30"}
    return render(write, context_of(user, 1, data), steps)
