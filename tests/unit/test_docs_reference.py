"""Commands, make targets, routes, topics, settings and metrics that the documentation names exist, and all are
documented.

tests/unit/infra/test_metric_table.py and tests/unit/prometheus/test_dashboard.py have the other direction of metrics.
"""

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from cli import reference
from cli.reference import all_commands
from local.devstack.config import Ports
from masscomm.domain.channels import CHANNELS
from masscomm.domain.lanes import Lane
from masscomm.domain.source_tables import OPTIONAL_TABLES, source_tables
from masscomm.kafka import topics
from masscomm.observability.metric_names import ALL
from ops.openapi import route_table
from ops.openapi.document import APIS
from spark_metrics.common.settings import Settings, variable_of
from tests.support import prose

SPAN = re.compile(r"`([^`\n]+)`|^ {4,}(\S.*)$", re.MULTILINE)
ROOT = Path(__file__).resolve().parents[2]
PAGES = [name for name in prose.files_of_repository() if name.endswith(".md")]
# AT_TIMESTAMP is AWS' name of a starting position, not a setting.
FOREIGN_SETTINGS = {"AT_TIMESTAMP", "NODE_EXTRA_CA_CERTS", "SENDER_ID_MISMATCH"}
_ROUTE = re.compile(r"/v1/(?:[\w-]+|\{\w+\})(?:/(?:[\w-]+|\{\w+\}))*")
SETTING = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
# A name such as `WaitingBacklog` or *RecordsFailed*: a metric, a class or a schema.
NAME = re.compile(r"(?:`|(?<!\*)\*)([A-Z][a-z]+(?:[A-Z][a-z]+)+)(?:`|\*(?!\*))")
# Metrics, fields and states of AWS and Kafka that nothing here uses.
FOREIGN_NAMES = {
    "BytesInPerSec",
    "GetApplication",
    "LastProcessingResult",
    "LogAppendTime",
    "PlatformCredentialInvalid",
    "ProvisionedPollers",
    "RetriesExhausted",
    "StopApplication",
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


def invocations(page: str) -> list[list[str]]:
    """Return the `masscomm …` commands of a page as words, without the bare name and names with a placeholder."""
    lines = (re.search(r"(?:^|/bin/)masscomm (?=[a-z])(.*)", code) for code in code_of(page))
    return [shlex.split(line[1].replace("…", "")) for line in lines if line]


def wrong_words(words: list[str]) -> list[str]:
    """Return the command's name if there is no such command, else its unknown options."""
    known = all_commands()
    name = next((name for size in (3, 2, 1) if (name := tuple(words[:size])) in known), None)
    if name is None:
        is_group = any(len(words) < len(names) and names[: len(words)] == tuple(words) for names in known)
        return [] if is_group else words[:2]
    options = {option for parameter in known[name].params for option in parameter.opts}
    return [word for word in words if word.startswith("-") and word.split("=")[0] not in options]


@pytest.mark.parametrize("page", PAGES)
def test_commands_named_by_a_page_exist(page: str) -> None:
    assert [(words, wrong) for words in invocations(page) if (wrong := wrong_words(words))] == []


def test_unknown_command_and_option_are_found() -> None:
    assert wrong_words(["senden", "--to", "1"]) == ["senden", "--to"]
    assert wrong_words(["send", "--too", "1"]) == ["--too"]
    assert wrong_words(["events", "types", "lost"]) == ["events", "types"]


def test_every_command_is_documented() -> None:
    """On another page than the generated reference, which has them all."""
    named = [words for page in PAGES if page != "docs/cli.md" for words in invocations(page)]
    assert [name for name in all_commands() if not any(tuple(words[: len(name)]) == name for words in named)] == []


def test_reference_of_the_commands_is_that_of_the_code() -> None:
    page = reference.page()
    assert reference.PAGE.read_text() == page, "run `python -m cli.reference`"
    for names, command in all_commands().items():
        section = page.partition(f"## masscomm {' '.join(names)}\n")[2].partition("\n## ")[0]
        options = {
            option for each in command.params for option in (*each.opts, *each.secondary_opts) if option.startswith("-")
        }
        assert options - {"-h", "--help"} == set(re.findall(r"`(-[\w-]+)`", section.replace("`, `", "` `"))), names


def test_every_target_is_documented() -> None:
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(targets) > 20
    assert [name for name in targets if f"| `make {name}` |" not in reference.page()] == []


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
    assert route_table.with_table(page) == page, "run `python -m ops.openapi.route_table`"


@pytest.mark.parametrize("page", PAGES)
def test_routes_named_by_a_page_exist(page: str) -> None:
    routes = {_shape(path) for api in APIS for _, path in api.routes}
    named = set(re.findall(_ROUTE, "\n".join(code_of(page))))
    assert {path for path in named if _shape(path) not in routes} == set()


def _shape(path: str) -> str:
    """A path with every variable part as *: ids, placeholders, capital words, names of categories."""
    return re.sub(r"(?<=/)(\{\w+\}|[A-Z_]{2,}|\d+|[0-9a-f-]{36}|(?<=categories/)\w+)(?=/|$)", "*", path)


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
        for name in (
            "notification",
            "heartbeat",
            "tables",
            *topics.captured_table_entries(source_tables()),
            *OPTIONAL_TABLES,
        )
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
    """All files of the repository that are not documentation."""
    return "\n".join(
        (ROOT / name).read_text(errors="replace")
        for name in prose.files_of_repository()
        if not name.endswith((".md", "test_docs_reference.py"))
    )


# Folders of the code that a deployment or the local stack runs.
PRODUCT = (
    "masscomm",
    "functions",
    "cli",
    "directory_state",
    "ops/erasure",
    "spark_events",
    "spark_metrics",
    "local",
    "infra",
    "ops/provisioning",
    "sdk",
)
# Names of AWS, Java and Spark, which their own documentation has.
FOREIGN_SETTING = re.compile(r"(?:AWS|POWERTOOLS|PYSPARK)_\w+|JAVA_HOME")
SETTINGS_OF_THE_JOB = {variable_of(each.name) for each in fields(Settings)}
# A word in the place of an id.
PLACEHOLDERS = {"SEND_ID"}


# What the owner of a setting is called.
READS_SETTINGS = re.compile(r"environ|^known$|variables")
WORDS = "environ|known|variables"


def trees(*folders: str, words: str = "") -> Iterator[ast.Module]:
    """Yield the modules in these folders whose text has one of the words."""
    for name in prose.files_of_repository():
        if name.endswith(".py") and name.startswith(tuple(f"{folder}/" for folder in folders)):
            text = (ROOT / name).read_text()
            if re.search(words, text):
                yield ast.parse(text)


def settings_read_by(tree: ast.Module) -> Iterator[str]:
    """Yield the environment variables that a module reads, by an index, by a call or by `in`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=owner), args=[ast.Constant(value=str() as name), *_]):
                pass
            case ast.Subscript(value=owner, slice=ast.Constant(value=str() as name), ctx=ast.Load()):
                pass
            case ast.Compare(left=ast.Constant(value=str() as name), comparators=[owner]):
                pass
            case _:
                continue
        if SETTING.fullmatch(name) and READS_SETTINGS.search(ast.unparse(owner)):
            yield name


def names_of(tree: ast.Module) -> Iterator[str]:
    """Yield the constants that a module defines, and the texts that are names of settings."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Constant(value=str() as name):
                yield name


def test_settings_named_by_a_page_exist() -> None:
    """A name is a setting that code reads, or a constant of the code; a comment or another page does not suffice."""
    known = {name.lstrip("_") for tree in trees(*PRODUCT, "ops/openapi", "lab/benchmarks") for name in names_of(tree)}
    known |= {name for tree in trees("tests", words=WORDS) for name in settings_read_by(tree)}
    known |= {channel.rate_setting for channel in CHANNELS.values()} | FOREIGN_SETTINGS | PLACEHOLDERS
    known |= {f"MASSCOMM_PORT_{each.name.upper()}" for each in fields(Ports)} | SETTINGS_OF_THE_JOB
    wrong = {page: absent for page in PAGES if (absent := set(SETTING.findall("\n".join(code_of(page)))) - known)}
    assert wrong == {}


def test_every_setting_is_documented() -> None:
    settings = {name for tree in trees(*PRODUCT, "examples", words=WORDS) for name in settings_read_by(tree)}
    assert len(settings) > 60
    undocumented = settings - set(SETTING.findall(all_code()))
    assert {name for name in undocumented if not FOREIGN_SETTING.fullmatch(name)} == set()


def test_setting_is_found_however_it_is_read() -> None:
    source = 'environ["A_B"]; environment.number("C_D", 1); "E_F" in os.environ; table["G_H"]; environ["I_J"] = 1'
    assert sorted(settings_read_by(ast.parse(source))) == ["A_B", "C_D", "E_F"]
