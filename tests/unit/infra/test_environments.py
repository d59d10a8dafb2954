"""A folder with a YAML file for each environment is read strictly, and every problem of its files is named at once."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from infra.cdk import app, environments
from infra.cdk.config import KafkaConfig
from infra.cdk.environments import EXAMPLES, FOLDER, EnvironmentsError, environment_of, read_environment

SCHEMA = EXAMPLES.parents[1] / "docs" / "environment.schema.json"


def written(folder: Path, name: str = "test", text: str = "protected: false\n") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


def refusal(path: Path) -> list[str]:
    with pytest.raises(EnvironmentsError) as caught:
        read_environment(path)
    return [line.removeprefix(f"{path}: ") for line in str(caught.value).splitlines()]


def test_settings_of_a_file_are_those_of_its_environment(tmp_path: Path) -> None:
    text = "protected: false\nzones: [a, b]\nkafka: {brokers: 2, replication_factor: 2, min_insync_replicas: 1}\n"
    text += "opensearch: {data_nodes: 2}\ntrace_ratio: 1\nproviders: {per_s: {push: 1, email: 2}}\n"
    found = read_environment(written(tmp_path, text=text))
    assert (found.name, found.zones, found.kafka.brokers, found.providers.per_s) == (
        *("test", ("a", "b"), 2),
        {"push": 1, "email": 2, "sms": 10},
    )
    assert found.kafka.version == KafkaConfig().version


def test_every_problem_of_a_file_is_named_with_its_setting(tmp_path: Path) -> None:
    text = "protected: 'no'\nkafka: {brokers: 3.5, voluem_gb: 9}\napi: {people: {issuer: 1}}\n"
    assert refusal(written(tmp_path, text=text)) == [
        "protected: Input should be a valid boolean",
        "kafka.brokers: Input should be a valid integer",
        "kafka.voluem_gb: Unexpected keyword argument",
        "api.people.issuer: Input should be a valid string",
        "api.people.keys_url: Field required",
    ]


def test_every_pair_of_settings_that_does_not_fit_is_named(tmp_path: Path) -> None:
    text = "protected: false\nlog_days: 31\nregion: Frankfurt\nzones: [a, a, eu-central-1b]\n"
    assert refusal(written(tmp_path, text=text)) == [
        "region 'Frankfurt' is not the name of a region",
        "zones has two or three different letters",
        "zones has letters such as a, without the region",
        "log_days is one of 14, 30, 90, 365",
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("account: 012345670123", "account: Input should be a valid string"),
        ("account: '12345670123'", "account '12345670123' is not 12 digits in quotes"),
        ("log_days: 30\nlog_days: 90", "log_days: set twice"),
        ("kafka: {brokers: 3, brokers: 6}", "brokers: set twice"),
        ("name: prod", "without `name`"),
        ("unsubscribe_mailbox: {address: a b, rule_set: r}", "address: UNSUBSCRIBE_MAILBOX must be"),
        ("providers: {per_s: {push: 1}}", "per_s has a quota for each of"),
        ("event_sources: missing.yaml", "missing.yaml cannot be read"),
        ("- a", "cannot be read"),
    ],
)
def test_file_that_yaml_would_read_otherwise_is_refused(line: str, problem: str, tmp_path: Path) -> None:
    """YAML reads digits that begin with 0 as an octal number, and the second of two equal keys."""
    assert problem in "\n".join(refusal(written(tmp_path, text=f"protected: false\n{line}\n")))


def test_account_in_quotes_keeps_its_zeros(tmp_path: Path) -> None:
    assert read_environment(written(tmp_path, text="protected: false\naccount: '012345670123'\n")).account == (
        "012345670123"
    )


def test_file_of_event_sources_is_relative_to_the_environment(tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text((EXAMPLES.parent / "event_sources.yaml").read_text())
    found = read_environment(written(tmp_path, text="protected: false\nevent_sources: sources.yaml\n"))
    assert found.own_topics is not None


def test_folder_is_that_of_the_option_then_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (first := tmp_path / "first").mkdir()
    (second := tmp_path / "second").mkdir()
    written(first, "one")
    written(second, "two")
    assert environment_of("dev").name == "dev"
    monkeypatch.setenv(FOLDER, str(second))
    assert list(environments.environments()) == ["two"]
    assert environment_of("one", first).name == "one"
    with pytest.raises(EnvironmentsError, match="no environment 'dev': two, local"):
        environment_of("dev")


def test_problems_of_all_files_are_named_at_once(tmp_path: Path) -> None:
    written(tmp_path, "one", "protected: 1\n")
    written(tmp_path, "two", "log_days: 31\nprotected: true\n")
    written(tmp_path, "local")
    with pytest.raises(EnvironmentsError) as caught:
        environments.environments(tmp_path)
    assert [line.rpartition("/")[2] for line in str(caught.value).splitlines()] == [
        "local.yaml: local is the environment of one machine, which needs no file",
        "one.yaml: protected: Input should be a valid boolean",
        "two.yaml: log_days is one of 14, 30, 90, 365",
    ]


def test_folder_without_environments_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentsError, match=r"has no environment: a file NAME\.yaml"):
        environments.environments(tmp_path)


def test_schema_of_the_documentation_is_that_of_the_code() -> None:
    assert json.loads(SCHEMA.read_text()) == environments.schema(), (
        "run `python -m infra.cdk.environments > docs/environment.schema.json`"
    )


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_examples_fit_the_schema_that_they_name(path: Path) -> None:
    line = path.read_text().splitlines()[0]
    assert (path.parent / line.removeprefix("# yaml-language-server: $schema=")).resolve() == SCHEMA
    jsonschema_rs.validate(json.loads(SCHEMA.read_text()), yaml.safe_load(path.read_text()))


@pytest.mark.parametrize("changed", [{"voluem_gb": 1}, {"kafka": {"brokers": "3"}}, {"account": 12}])
def test_schema_refuses_unknown_settings_and_other_types(changed: dict[str, Any]) -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(json.loads(SCHEMA.read_text()), {"protected": True, **changed})


@pytest.mark.parametrize(
    ("name", "required", "refused"), [("dev", "1", True), ("dev", "", False), ("prod", "", True), ("local", "1", False)]
)
def test_placeholders_are_not_deployed(
    name: str, required: str, *, refused: bool, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Templates of an example can be read; a deployment, and a protected environment, needs values of its own."""
    monkeypatch.setenv("MASSCOMM_REQUIRE_PACKAGES", required)
    servers = {"kafka": "k", "registry_url": "r", "directory_url": "d", "database_url": "p"}
    monkeypatch.setenv("MASSCOMM_SERVERS", json.dumps(servers))
    monkeypatch.setattr("sys.argv", ["app", name])
    built: list[str] = []

    class Built:
        def synth(self) -> None:
            built.append(name)

    monkeypatch.setattr(app, "build", lambda *_, **__: Built())
    if refused:
        with pytest.raises(SystemExit):
            app.main()
        assert f"{name} has placeholders: sender, unsubscribe_url, " in capsys.readouterr().err
    else:
        assert app.main() == 0
    assert built == ([] if refused else [name])
