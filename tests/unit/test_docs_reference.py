"""Commands, make targets, routes, topics, settings and metrics that the documentation names exist, and all are
documented.

tests/unit/infra/test_metric_table.py and tests/unit/prometheus/test_dashboard.py have the other direction of metrics.
"""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer
from typer.core import TyperCommand, TyperGroup

from devstack import cli
from masscomm.domain.channels import CHANNELS
from masscomm.domain.lanes import Lane
from masscomm.domain.source_tables import source_tables
from masscomm.kafka import topics
from masscomm.observability.metric_names import ALL
from openapi import route_table
from openapi.document import APIS
from tests.support import prose

SPAN = re.compile(r"`([^`\n]+)`|^ {4,}(\S.*)$", re.MULTILINE)
ROOT = Path(__file__).resolve().parents[2]
PAGES = [name for name in prose.files_of_repository() if name.endswith(".md")]
# AT_TIMESTAMP is AWS' name of a starting position, not a setting.
AWS_NAMES = {"AT_TIMESTAMP"}
_ROUTE = re.compile(r"/v1/(?:[\w-]+|\{\w+\})(?:/(?:[\w-]+|\{\w+\}))*")
SETTING = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
# A name such as `WaitingBacklog` or *RecordsFailed*: a metric, a class or a schema.
NAME = re.compile(r"(?:`|(?<!\*)\*)([A-Z][a-z]+(?:[A-Z][a-z]+)+)(?:`|\*(?!\*))")
# Metrics, fields and states of AWS and Kafka that nothing here uses.
FOREIGN_NAMES = {
    "BytesInPerSec",
    "LastProcessingResult",
    "LogAppendTime",
    "PlatformCredentialInvalid",
    "ProvisionedPollers",
    "RetriesExhausted",
}
# "the topic `outcome`", "topics `a`, `b` and `c`", "the `outcome` topic", and names with a section, as `cdc.users`.
_TOPICS = re.compile(r"\btopics? (`[^`\n]+`(?:(?:, | and |, and )`[^`\n]+`)*)|(`[^`\n]+`) topics?\b")
_TOPIC_WITH_SECTION = re.compile(r"`((?:send\.(?:monolith|api)|cdc|build|delivery|recheck)\.[\w.*]+)`")


def code_of(page: str) -> Iterator[str]:
    """Yield the code of a page: code spans and indented lines, without comments."""
    for span, line in SPAN.findall((ROOT / page).read_text()):
        yield span or re.sub(r"\s+#.*", "", line)


@cache
def all_code() -> str:
    return "\n".join(code for page in PAGES for code in code_of(page))


def commands(group: TyperGroup, *names: str) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    """Yield the commands of a group with their names."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, *names, name)
        elif isinstance(command, TyperCommand):
            yield (*names, name), command


@cache
def masscomm_commands() -> dict[tuple[str, ...], TyperCommand]:
    app = typer.main.get_command(cli.app)
    assert isinstance(app, TyperGroup)
    return dict(commands(app))


def invocations(page: str) -> list[list[str]]:
    """Return the `masscomm …` commands of a page as words, without the bare name and names with a placeholder."""
    lines = (re.search(r"(?:^|/bin/)masscomm (?=[a-z])(.*)", code) for code in code_of(page))
    return [shlex.split(line[1].replace("…", "")) for line in lines if line]


def wrong_words(words: list[str]) -> list[str]:
    """Return the command's name if there is no such command, else its unknown options."""
    known = masscomm_commands()
    name = next((name for size in (2, 1) if (name := tuple(words[:size])) in known), None)
    if name is None:
        is_group = len(words) == 1 and any(names[0] == words[0] for names in known)
        return [] if is_group else words[:2]
    options = {option for parameter in known[name].params for option in parameter.opts}
    return [word for word in words if word.startswith("-") and word.split("=")[0] not in options]


@pytest.mark.parametrize("page", PAGES)
def test_commands_named_by_a_page_exist(page: str) -> None:
    assert [(words, wrong) for words in invocations(page) if (wrong := wrong_words(words))] == []


def test_unknown_command_and_option_are_found() -> None:
    assert wrong_words(["senden", "--to", "1"]) == ["senden", "--to"]
    assert wrong_words(["send", "--too", "1"]) == ["--too"]


def test_every_command_is_documented() -> None:
    named = [words for page in PAGES for words in invocations(page)]
    assert [name for name in masscomm_commands() if not any(tuple(words[: len(name)]) == name for words in named)] == []


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_named_by_a_page_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {match[1] for code in code_of(page) if (match := re.match(r"make ([a-z][a-z-]*)", code))}
    assert named - targets == set()


def test_every_route_is_documented() -> None:
    routes = {path for api in APIS for _, path in api.routes}
    assert len(routes) >= 6
    documented = {_shape(path) for path in re.findall(_ROUTE, all_code())}
    assert {path for path in routes if _shape(path) not in documented} == set()


def test_routes_of_the_api_page_are_those_of_the_document() -> None:
    page = route_table.PAGE.read_text()
    assert route_table.with_table(page) == page, "run `python -m openapi.route_table`"


@pytest.mark.parametrize("page", PAGES)
def test_routes_named_by_a_page_exist(page: str) -> None:
    routes = {_shape(path) for api in APIS for _, path in api.routes}
    named = set(re.findall(_ROUTE, "\n".join(code_of(page))))
    assert {path for path in named if _shape(path) not in routes} == set()


def _shape(path: str) -> str:
    """A path with every variable part as *: ids, placeholders, capital words."""
    return re.sub(r"(?<=/)(\{\w+\}|[A-Z_]{2,}|\d+|[0-9a-f-]{36})(?=/|$)", "*", path)


def test_every_topic_is_documented() -> None:
    bases = {topics.base_of(topic.name) for topic in topics.chain_topics()}
    assert len(bases) >= 5
    assert {name for name in bases if not re.search(rf"(?<![\w.]){re.escape(name)}\b", all_code())} == set()


def topics_named_by(text: str) -> set[str]:
    return {
        *re.findall(r"`([^`]+)`", " ".join(found for pair in _TOPICS.findall(text) for found in pair)),
        *_TOPIC_WITH_SECTION.findall(text),
    }


def known_topics() -> set[str]:
    """The topics in every lane; those of change data capture without the generation in their prefix."""
    captured = {
        f"cdc.{name}"
        for name in ("notification", "heartbeat", "tables", *topics.captured_table_entries(source_tables()))
    }
    lanes = {f"NAME.{lane}" for lane in Lane}
    return {topic.name for topic in topics.chain_topics()} | captured | lanes | {topics.ALL_OF_CDC}


@pytest.mark.parametrize("page", PAGES)
def test_topics_named_by_a_page_exist(page: str) -> None:
    assert topics_named_by((ROOT / page).read_text()) - known_topics() == set()


def test_unknown_topic_is_found() -> None:
    text = "on the topic `results`, topics `outcome` and `answers`, `replies` topics, `cdc.people`, `send.completed`"
    assert topics_named_by(text) - known_topics() == {"results", "answers", "replies", "cdc.people"}


def test_names_of_metrics_and_classes_exist() -> None:
    """A page names no metric, class or schema that the code does not have."""
    named = {name: page for page in PAGES for name in NAME.findall((ROOT / page).read_text())}
    assert named.keys() & ALL.keys()
    others = named.keys() - ALL.keys() - FOREIGN_NAMES
    assert {name: named[name] for name in others if not re.search(rf"{name}\b", sources())} == {}


@cache
def sources() -> str:
    """All files of the repository that are no documentation."""
    return "\n".join(
        (ROOT / name).read_text(errors="replace")
        for name in prose.files_of_repository()
        if not name.endswith((".md", "test_docs_reference.py"))
    )


def test_settings_named_by_a_page_exist() -> None:
    known = set(SETTING.findall(sources())) | {channel.rate_setting for channel in CHANNELS.values()} | AWS_NAMES
    wrong = {page: absent for page in PAGES if (absent := set(SETTING.findall("\n".join(code_of(page)))) - known)}
    assert wrong == {}


def test_every_setting_is_documented() -> None:
    """A setting is an environment variable that product code reads; those of AWS, Java and Powertools are theirs."""
    read = re.compile(
        r"(?:environment\.(?:required|number|numbers|choice)|environ\.get|known\.get)\(\s*\"([A-Z][A-Z0-9_]+)\""
    )
    packages = ("masscomm", "functions", "erasure", "spark_metrics", "devstack")
    files = [path.read_text() for package in packages for path in (ROOT / package).rglob("*.py")]
    settings = {name for source in files for name in read.findall(source)}
    assert len(settings) > 40
    foreign = {name for name in settings if name.startswith(("AWS_", "POWERTOOLS_")) or name == "JAVA_HOME"}
    assert settings - foreign - set(SETTING.findall(all_code())) == set()
