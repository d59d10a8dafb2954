"""Examples in the documentation are executed, and its tables agree with the code.

A fenced block names its kind after the language, as ```json SendRequested; KINDS has a check for each kind.
"""

import dataclasses
import io
import json
import pydoc
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import uuid5

import fastavro
import pytest
import yaml
from confluent_kafka import Consumer, Producer

from examples.monolith.seed import User as SeedUser
from examples.monolith.seed import generate
from examples.monolith.templates import TEMPLATES
from examples.read_outcomes import read_outcomes
from functions.preferences_handler.preferences_body import wishes_in
from functions.send_handler import handler as send_handler
from functions.sends_api.routes.send import SendRoute
from infra.cdk import config
from infra.cdk.examples import ENVIRONMENTS
from local.devstack.commands import FIRST_COMMAND
from local.devstack.demo.oracle import Ask, World, expect
from local.devstack.demo.run import SEED
from masscomm.chain.chunk_reader import read_chunk
from masscomm.clock import FixedClock
from masscomm.domain import categories
from masscomm.domain.audiences import read_audience
from masscomm.domain.channels import CHANNELS, LITERAL
from masscomm.domain.ids import NAMESPACE, notification_id
from masscomm.domain.limits import FIELDS_OF_SEND, MAX_RECORD_BYTES
from masscomm.domain.preferences import decide_by_user_settings
from masscomm.domain.quiet_hours import decide_by_hours
from masscomm.domain.records import MAX_COPIED_BYTES, NotificationOutcome
from masscomm.domain.saved_audiences import SavedAudience
from masscomm.domain.statuses import RANK, TERMINAL, Reason, Status
from masscomm.domain.users import Template, User, UserSettings
from masscomm.http.tenant import ALL_CLUBS
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema
from masscomm.kafka.event import KafkaRecord
from masscomm.rendering.compiler import (
    ALLOWED_FILTERS,
    ALLOWED_TESTS,
    MAX_STEPS,
    RenderError,
    Steps,
    compile_source,
    render,
)
from masscomm.rendering.templates import by_locale, choose, context_of, fields_of, literal_fields
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from masscomm.stores.metrics.port import ChannelTotals, SendTotals
from masscomm.stores.sends.in_memory import InMemorySends
from masscomm_client.mcp import VARIABLES
from tests.support import prose
from tests.support.harness import client_examples
from tests.support.harness.send_api import SendApi
from tests.support.inputs.optional_tables import mapped
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
    api = SendApi(monkeypatch)
    germans = {"where": {"field": "locale", "is": "de"}}
    api.saved_audiences.put(SavedAudience(club_id=1, name="germans", definition=germans, changed_at_ms=0))
    return api


# --- each kind of block -----------------------------------------------------------------------------------------------


def check_request(content: str, api: SendApi) -> None:
    status, body, _ = api.call(content)
    assert status == 202, body


def check_followers(content: str) -> None:
    with mapped("memberships"):
        check_audience(content)


def check_audience(content: str) -> None:
    assert read_audience(json.loads(content), attributes={"plan", "joined"})[1] == []


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


def check_warnings(content: str, api: SendApi) -> None:
    """The warnings are those of a send with a title and a venue, which the template does not read."""
    api.directory.ready = True
    body = "{{ data.opponent }} {{ data.kick_off }}"
    api.directory.put(Template(1, None, "match_reminder", "push", "en", "Match", body))
    _, answer, _ = api.post(type="match_reminder", data={"title": "t", "opponent": "o", "kick_off": "k", "venue": "v"})
    assert answer["warnings"] == json.loads(content)["warnings"]


def check_problem(content: str, api: SendApi) -> None:
    """The problem is the service's response to a request without recipients."""
    assert api.post(to_users=[])[:2] == (400, json.loads(content))


def check_rendering(content: str, *, escaped: bool = False, locale: str = "en") -> None:
    for source, text in (line.split(" → ") for line in content.splitlines()):
        # Babel separates a number from its unit by a space that does not break.
        assert rendered(source, escaped=escaped, locale=locale).replace("\xa0", " ") == text


def check_refused(content: str, _api: SendApi) -> None:
    for source in content.splitlines():
        with pytest.raises(RenderError):
            rendered(source)


def check_preferences(content: str) -> None:
    assert len(wishes_in(content)) == 4


def check_agent(content: str) -> None:
    """Check the command and the variables of an agent's configuration."""
    scripts = tomllib.loads((ROOT / "sdk" / "python" / "pyproject.toml").read_text())["project"]["scripts"]
    (server,) = json.loads(content)["mcpServers"].values()
    assert (server["command"] in scripts, set(server["env"])) == (True, set(VARIABLES))


KINDS: Mapping[str, Callable[[str, SendApi], None]] = {
    "POST /v1/sends": check_request,
    "SendRequested": check_send_record,
    "audience": lambda content, _: check_audience(content),
    "audience_of_followers": lambda content, _: check_followers(content),
    "NotificationOutcome": check_outcome_record,
    "202": check_response,
    "warnings": check_warnings,
    "400": check_problem,
    # test_consumer_of_the_page_prints_its_line compares it.
    "line": lambda *_: None,
    "rendering": lambda content, _: check_rendering(content),
    "rendering de-AT": lambda content, _: check_rendering(content, locale="de-AT"),
    "rendering html": lambda content, _: check_rendering(content, escaped=True),
    "refused": check_refused,
    # test_example_of_the_concepts_has_the_seeds_results compares it.
    "totals": lambda *_: None,
    # test_message_of_the_readme_is_the_first_commands compares it.
    "inbox": lambda *_: None,
    "agent": lambda content, _: check_agent(content),
    # test_categories_of_the_page_have_their_results reads it.
    "categories.yaml": lambda *_: None,
    "preference_request": lambda content, _: check_preferences(content),
    # test_settings_of_the_page_have_their_results compares it.
    "user_settings": lambda *_: None,
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


def test_examples_of_the_clients_are_shown_in_each_language() -> None:
    """The tests of tests/unit/sdk/test_examples.py execute the files, and a page shows the whole file."""
    shown = [(kind, content) for page in PAGES for kind, content in blocks(page) if kind.startswith("sdk/")]
    files = [
        client_examples.file_of(language, name)
        for name in client_examples.NAMES
        for language in client_examples.languages(name)
    ]
    assert sorted(shown) == sorted((str(file.relative_to(ROOT)), file.read_text()) for file in files)
    assert {
        str(file) for folder, suffix in client_examples.LANGUAGES.values() for file in folder.glob(f"*{suffix}")
    } == {str(file) for file in files}
    order = [kind.split("/")[1] for kind, _ in shown]
    assert order == ["curl", "python", "typescript", "java"] * 6 + ["python", "typescript", "java"]


# --- commands ---------------------------------------------------------------------------------------------------------


def commands(page: str, program: str) -> Iterator[list[str]]:
    """Yield the words of each command of a program in the indented code of a page."""
    code = re.sub(r"\\\n\s*", " ", text_of(page))
    for line in re.findall(rf"^ {{4,}}({re.escape(program)} .*)$", code, re.MULTILINE):
        yield shlex.split(line, comments=True)


def test_requests_by_curl_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [request for page in PAGES for words in commands(page, "curl") if (request := posted_by(words))]
    assert len(requests) >= 3
    # Each request has an API of its own, because pages may use the same Idempotency-Key.
    refused = [
        (path, body, answer)
        for path, headers, body in requests
        if (answer := SendApi(monkeypatch).call(body, path=path, headers=headers))[0] not in (200, 202)
    ]
    assert refused == []


def posted_by(curl: list[str]) -> tuple[str, dict[str, str], str] | None:
    """Return path, headers and body of a request to send; None for another request."""
    (path,) = (urlsplit(word).path for word in curl if word.startswith("http://"))
    if ("POST", path) not in send_handler.api.routes:
        return None
    headers = [value.partition(": ") for option, value in pairwise(curl) if option == "-H"]
    return path, {name: value for name, _, value in headers}, curl[curl.index("-d") + 1]


# --- tables of docs/sending.md ----------------------------------------------------------------------------------------


def test_every_field_of_a_send_is_documented() -> None:
    rows = {names(row[0])[0]: row for row in table("docs/sending.md", "Fields")}
    assert list(rows) == [field["name"] for field in own_schema("SendRequested")["fields"]]
    for name, limit in FIELDS_OF_SEND.items():
        by_rest = rows[name][2]
        if by_rest in ("set by the service", "in the response"):
            continue
        numbers = {limit.characters, limit.entries, limit.key_characters, limit.total_bytes} - {None}
        if name == "channels":
            numbers = {len(CHANNELS)}
        assert by_rest == "optional; as `type`" or numbers <= numbers_of(by_rest), name


def numbers_of(text: str) -> set[int]:
    return {int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text)}


def test_every_response_to_a_send_is_documented() -> None:
    known = json.loads(text_of("docs/openapi/masscomm.json"))["paths"]["/v1/sends"]["post"]["responses"]
    documented = {status for row in table("docs/sending.md", "By REST") for status in row[0].split(", ")}
    assert documented == known.keys()


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


def test_retention_of_the_outcome_topic_is_documented() -> None:
    topic = next(topic for topic in topics.chain_topics() if topic.name == topics.OUTCOME)
    assert f"records are kept for {topic.retention_hours} hours" in text_of("docs/events.md")


def test_id_of_a_notification_is_the_documented_one() -> None:
    assert notification_id("s", 42, "push") == str(uuid5(NAMESPACE, "s/42/push"))


# --- limits -----------------------------------------------------------------------------------------------------------


UNITS = {"days": 86_400, "hours": 3_600}


def set_by(cell: str) -> int:
    """Return the number of a cell such as `masscomm.domain.limits.MAX_RECIPIENTS`, or the length of a sequence. A
    duration may be followed by its unit on the page: `….KEPT_S` in hours.
    """
    (name,) = names(cell)
    found = pydoc.locate(name)
    value = found if isinstance(found, int | float) else len(cast(Sequence[object], found))
    _, _, unit = cell.partition(" in ")
    return round(value / (UNITS[unit] * (1_000 if name.endswith("_MS") else 1))) if unit else round(value)


@pytest.mark.parametrize(
    ("page", "heading"), [("docs/templates.md", "Limits"), ("docs/api.md", "Limits"), ("docs/api.md", "Numbers")]
)
def test_limits_of_a_page_are_those_of_the_code(page: str, heading: str) -> None:
    rows = table(page, heading)
    assert len(rows) >= 8
    assert [row[0] for row in rows if numbers_of(row[1]) != {set_by(row[2])}] == []


# --- modules ----------------------------------------------------------------------------------------------------------


def test_modules_run_by_a_page_have_their_options() -> None:
    code = re.sub(r"\\\n\s*", " ", "\n".join(map(text_of, PAGES)))
    run = re.findall(r"(?:^ {4,}|`)(?:\.venv/bin/)?python -m (?!pytest)([\w.]+)([^`\n]*)", code, re.MULTILINE)
    assert len(run) >= 10
    assert [(module, wrong) for module, arguments in run if (wrong := wrong_options(module, arguments))] == []


def wrong_options(module: str, arguments: str) -> set[str]:
    """Return the options that the source of a module does not name; the module itself if it does not exist."""
    path = ROOT.joinpath(*module.split("."))
    sources = [file.read_text() for file in (path.with_suffix(".py"), path / "__main__.py") if file.is_file()]
    given = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", re.sub(r"\s+#.*", "", arguments)))
    return given - {"--help"} - set(re.findall(r"--[a-z][a-z-]*", sources[0])) if sources else {module}


def test_unknown_module_and_option_are_found() -> None:
    assert wrong_options("examples.absent", "") == {"examples.absent"}
    assert wrong_options("examples.monolith.emit", "--kafka 127.0.0.1:9092 --user 1 --users 2") == {"--users"}


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


def rendered(source: str, *, escaped: bool = False, locale: str = "en") -> str:
    """Return the text of a template for the values that docs/templates.md names."""
    steps = Steps(MAX_STEPS)
    write, *_ = compile_source(source, escaped=escaped, steps=steps)
    user = User(user_id=1, club_id=1, first_name="Ada", last_name="Lovelace", locale="en", attributes={"plan": "gold"})
    data = {"goals": "3", "opponent": "FC & Sons", "kick_off": "19:30", "scorers": "Eva, Mia", "price": "1234.5"}
    data["kick_off_at"] = "2026-11-23T19:30:00+01:00"
    return render(write, context_of(user, 1, data, locale), steps)


# --- docs/preferences.md ----------------------------------------------------------------------------------------------


def test_settings_of_the_page_have_their_results() -> None:
    page = "docs/preferences.md"
    values = block(page, "user_settings")
    settings = UserSettings(user_id=1, version=1, **values)
    rows = table(page, "Which notifications")
    for category, *cells in rows:
        for channel, cell in zip(CHANNELS, cells, strict=True):
            decision = decide_by_user_settings(settings, type=names(category)[0], channel=channel)
            assert cell == f"{'yes' if decision.status is None else 'no'}: `{decision.rule}`"
    assert len(rows) == 3
    user = User(user_id=1, club_id=1)
    for at, is_quiet in (
        (datetime(2026, 11, 23, 22, 30, tzinfo=UTC), True),
        (datetime(2026, 11, 24, 7, tzinfo=UTC), False),
    ):
        now_ms = round(at.timestamp() * 1_000)
        held = decide_by_hours(user, settings, type="news", now_ms=now_ms, expires_at=None)
        assert (held is not None) == is_quiet


def test_categories_of_the_page_have_their_results(monkeypatch: pytest.MonkeyPatch) -> None:
    ((_, text),) = (each for each in blocks("docs/preferences.md") if each[0] == "categories.yaml")
    found = categories.read_categories(yaml.safe_load(text))
    monkeypatch.setattr(categories, "category_table", lambda: found)
    results = {
        (name, club_id, channel): decide_by_user_settings(None, club_id=club_id, type=name, channel=channel).reason
        for name in ("newsletter", "partner_offers")
        for club_id in (1, 7)
        for channel in CHANNELS
    }
    excluded = {key for key, reason in results.items() if reason == "not_opted_in"}
    assert excluded == {("newsletter", 1, "email")} | {
        ("partner_offers", club_id, channel) for club_id in (1, 7) for channel in CHANNELS
    }


# --- docs/concepts.md -------------------------------------------------------------------------------------------------

EXAMPLE = Ask(club_id=1, type="match_reminder", to_users=(25, 42, 43, 60, 200_000_001))
EXAMPLE_DATA = {"opponent": "FC Riverside", "kick_off": "19:30"}


def seeded_users() -> dict[int, SeedUser]:
    return {user.id: user for user in generate(100, SEED)}


def shown(user: SeedUser, type: str, data: Mapping[str, str]) -> str:
    """Return title and body of the push that a user of the seed data gets."""
    templates = [
        Template(template_id=number, **vars(template))
        for number, template in enumerate(TEMPLATES)
        if (template.type, template.channel) == (type, "push")
    ]
    template = choose(by_locale(templates), user.locale)
    steps = Steps(MAX_STEPS)
    fields = literal_fields("push", data) if template is None else fields_of(template, steps)
    names_only = User(user_id=user.id, club_id=user.club_id, first_name=user.first_name, last_name=user.last_name)
    assert fields is not None
    context = context_of(names_only, user.club_id, data, user.locale)
    return ": ".join(field.render(context, steps) for field in fields if field.name in LITERAL)


def test_example_of_the_concepts_has_the_seeds_results() -> None:
    page = "docs/concepts.md"
    (command,) = (words for words in commands(page, ".venv/bin/masscomm") if words[1] == "send")
    given = dict(zip(command[2:-1:2], command[3::2], strict=True))
    assert given["--to"] == ",".join(map(str, EXAMPLE.to_users))
    assert [word for word in command if "=" in word] == [f"{name}={text}" for name, text in EXAMPLE_DATA.items()]
    users = seeded_users()
    expected = expect(World.of_seed(users.values()), EXAMPLE)
    rows = [
        [
            str(user_id),
            "sent" if fate == "sent" else f"suppressed ({fate})",
            shown(users[user_id], EXAMPLE.type, EXAMPLE_DATA) if fate == "sent" else "",
        ]
        for (user_id, _), fate in expected.fates.items()
    ]
    assert table(page, "The steps") == rows
    totals = ChannelTotals(
        requested=expected.requested,
        queued=expected.by_channel()["push"]["queued"],
        by_status={"sent": {"": expected.sent}, "suppressed": expected.suppressed},
    )
    assert totals_of(totals) == block(page, "totals")


def totals_of(totals: ChannelTotals) -> dict[str, Any]:
    """Return the totals in the response of GET /v1/sends/{send_id}."""
    at = datetime(2026, 11, 23, tzinfo=UTC)
    send = SendTotals(
        send_id="s",
        club_id=EXAMPLE.club_id,
        type=EXAMPLE.type,
        requested_at=at,
        chunk_count=1,
        chunks=1,
        channels={"push": totals},
        watermark=at,
    )
    route = SendRoute(InMemoryMetricsStore(sends={"s": send}, watermark=at), InMemorySends(), FixedClock())
    answer = route.answer("s", {}, ALL_CLUBS)
    assert answer["complete"]
    return dict(answer["totals"] or {})


# --- README.md, docs/capacity.md and docs/comparison.md -------------------------------------------------------------


def test_message_of_the_readme_is_the_first_commands() -> None:
    assert f"    .venv/bin/{FIRST_COMMAND}\n" in text_of("README.md")
    words = shlex.split(FIRST_COMMAND)
    user = seeded_users()[int(words[words.index("--to") + 1])]
    type_, data = words[words.index("--type") + 1], dict(word.split("=") for word in words if "=" in word)
    expected = expect(World.of_seed([user]), Ask(club_id=user.club_id, type=type_, to_users=[user.id]))
    assert list(expected.fates.values()) == ["sent"]
    title, text = shown(user, type_, data).split(": ")
    (device,) = (device for device in user.devices if device.active)
    ((_, inbox),) = (each for each in blocks("README.md") if each[0] == "inbox")
    head = f"push to user {user.id}, device {device.id} ({device.platform})"
    assert re.sub(r"^after \d\.\d s: ", "", inbox).splitlines() == [
        head,
        f"  {title}",
        f"  {text}",
        "  notification ID",
    ]


def test_readme_has_the_number_of_functions() -> None:
    functions = yaml.safe_load(text_of("functions/functions.yaml"))["functions"]
    assert f"The code is {len(functions)} Lambda functions" in " ".join(text_of("README.md").split())


def test_readme_is_short_and_has_few_links() -> None:
    assert len(text_of("README.md").split()) <= 500
    assert len(set(re.findall(r"\]\((docs/[\w/-]+\.md)", text_of("README.md")))) <= 12


def test_pictures_of_the_readme_are_small() -> None:
    pictures = [ROOT / name for name in re.findall(r"!\[[^]]+\]\(([^)]+)\)", text_of("README.md"))]
    assert len(pictures) == 3
    assert {picture.name for picture in pictures if picture.stat().st_size > 200_000} == set()


@pytest.mark.parametrize("page", ["README.md", "docs/capacity.md"])
def test_prices_of_a_page_are_calculated_ones(page: str) -> None:
    calculated = set(re.findall(r"\$[\d,.]*\d", text_of("docs/internals/capacity.md")))
    prices = set(re.findall(r"\$[\d,.]*\d", text_of(page)))
    assert len(prices) >= 3
    assert prices - calculated == set()


@pytest.mark.parametrize("page", ["README.md", "docs/capacity.md"])
def test_number_at_which_use_costs_as_much_is_calculated(page: str) -> None:
    """The price of an idle month of `prod`, divided by that of a million notifications and by 30 days."""
    readme = text_of("README.md")
    idle, million = (
        float(re.findall(form, readme)[0].replace(",", ""))
        for form in (r"to \$([\d,]+) \(`prod`\)", r"\$([\d.]+) a million")
    )
    (millions,) = re.findall(r"below some (\d+) million notifications a day", " ".join(text_of(page).split()))
    assert int(millions) == round(idle / million / 30)


def test_speed_of_the_readme_is_the_measured_one() -> None:
    recipients, rate = re.findall(r"a broadcast to ([\d,]+) at ([\d,]+) recipients a second", text_of("README.md"))[0]
    assert f"| broadcast to {recipients} (one run) | {rate} |" in text_of("docs/internals/benchmarks.md")


def test_opt_out_of_the_readme_is_the_measured_one() -> None:
    half, most = re.findall(
        r"in force (\d+) ms after its commit \(p99 (\d+) ms", " ".join(text_of("README.md").split())
    )[0]
    measured = " ".join(text_of("docs/internals/benchmarks.md").split())
    assert f"opt-out in force after {half} ms (p50), {most} ms (p99)" in measured


def test_duplicates_of_the_readme_are_the_limit() -> None:
    (repeated,) = re.findall(r"A killed function repeats at most (\d+) recipients", text_of("README.md"))
    assert f"`DELIVERY_UNRECORDED` ({repeated})" in text_of("docs/guarantees.md")


def test_stacks_and_environments_named_by_pages_exist() -> None:
    stacks = {path.stem for path in (ROOT / "tests/unit/infra/snapshots/prod").iterdir()}
    text = "\n".join(map(text_of, PAGES))
    named = re.findall(r"`?(?:out/cdk/|(?<!_)ENVIRONMENTS=|infra\.provision |infra\.erase )(\w+)", text)
    assert len(named) >= 5
    adopting = {path.stem for path in (ROOT / "examples" / "organisation").iterdir()}
    assert set(named) - ENVIRONMENTS.keys() - adopting - {config.LOCAL, "ENVIRONMENT"} == set()
    deployed = re.findall(r"\bmasscomm-(\w+)-([a-z]+)\b(?!/)", text)
    assert [(name, stack) for name, stack in deployed if name not in ENVIRONMENTS or stack not in stacks] == []


def test_settings_to_decide_exist() -> None:
    settings = [name for row in table("docs/deploying.md", "Checklist") for name in names(row[0])]
    assert len(settings) >= 10
    # prod has every section.
    assert [name for name in settings if not is_setting(ENVIRONMENTS["prod"], *name.split("."))] == []


def is_setting(section: object, name: str, *parts: str) -> bool:
    if not dataclasses.is_dataclass(section) or name not in {each.name for each in dataclasses.fields(section)}:
        return False
    return not parts or is_setting(getattr(section, name), *parts)


def test_comparison_has_a_date_and_sources() -> None:
    text = text_of("docs/comparison.md")
    assert date.fromisoformat(re.findall(r"^Read on (\S+) ", text, re.MULTILINE)[0]).year >= 2026
    sections = dict(re.findall(r"^## Take ([^\n]+) if …\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE))
    assert len(sections) == 6
    assert [title for title, body in sections.items() if title != "masscomm" and "](https://" not in body] == []
