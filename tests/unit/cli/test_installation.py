"""Commands choose a local or deployed installation, and share the definitions of their options."""

import getpass
import inspect
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from cli import dead_letters as commands
from cli import deployed
from cli.errors import CommandError
from cli.installation import installation, installation_of_tables, operator_name
from cli.options import given
from infra.cdk.environments import EXAMPLES
from masscomm.errors import Stop

NEEDED = ("KAFKA_BOOTSTRAP_SERVERS", "SCHEMA_REGISTRY_URL", "CDC_GENERATION", "CDC_CONSUMER_GROUP")


def test_deployed_installation_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASSCOMM_TASK", "prod")
    for name in NEEDED:
        monkeypatch.delenv(name, raising=False)
    for name in NEEDED:
        with pytest.raises(Stop, match=name):
            installation("prod")
        monkeypatch.setenv(name, f"its {name}")
    monkeypatch.setenv("KAFKA_AUTHENTICATION", "aws_msk_iam")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("WAITING_TABLE", "masscomm-prod-waiting")
    found = installation("prod")
    assert (found.kafka_bootstrap, found.registry_url) == ("its KAFKA_BOOTSTRAP_SERVERS", "its SCHEMA_REGISTRY_URL")
    assert found.security["sasl.mechanisms"] == "OAUTHBEARER"
    assert [found.table(name) for name in ("waiting", "decisions")] == ["masscomm-prod-waiting", "decisions"]
    assert (found.logs, dict(found.aws)) == (None, {})


def test_command_outside_the_vpc_runs_as_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task runs the same command line, and its exit status is that of the command."""
    calls: list[tuple[str | None, ...]] = []
    monkeypatch.delenv("MASSCOMM_TASK", raising=False)

    def run_module(*arguments: str | None) -> int:
        calls.append(arguments)
        return 3

    monkeypatch.setattr(deployed, "run_module", run_module)
    line = ["dead-letters", "list", "--deployed", "prod"]
    monkeypatch.setattr("sys.argv", ["masscomm", *line])
    answer = CliRunner().invoke(commands.app, line[1:])
    assert answer.exit_code == 3
    assert calls == [("tasks", "prod", None, "operator", *line)]


def test_keys_are_managed_without_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task would write a new key into its log."""
    monkeypatch.setattr(deployed, "run_module", lambda *_: pytest.fail("a task was started"))
    assert installation_of_tables("prod").table("api_keys") == "masscomm-prod-api_keys"


def test_keys_have_the_prefix_and_the_region_of_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configured = yaml.safe_load((EXAMPLES / "small.yaml").read_text())
    configured |= {"region": "eu-west-1", "platform": {"name_prefix": "acme"}}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(configured))
    monkeypatch.setenv("MASSCOMM_ENVIRONMENTS", str(tmp_path))
    found = installation_of_tables("small")
    assert (found.table("api_keys"), found.table("audit_log")) == ("acme-small-api_keys", "acme-small-audit_log")
    assert found.aws == {"region_name": "eu-west-1"}
    with pytest.raises(CommandError, match="no environment 'prod'"):
        installation_of_tables("prod")


def test_audit_log_names_the_caller_that_started_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASSCOMM_OPERATOR", "arn:aws:sts::000000000000:assumed-role/Admin/ann")
    assert operator_name() == "arn:aws:sts::000000000000:assumed-role/Admin/ann"
    monkeypatch.delenv("MASSCOMM_OPERATOR")
    assert operator_name() == getpass.getuser()


def test_every_command_on_dead_letters_has_the_same_filters() -> None:
    filters = {"positions", "topic", "reason", "function", "partition", "offset", "since", "until", "deployed"}
    for command in (commands.list_letters, commands.replay, commands.discard):
        assert filters <= set(inspect.signature(command).parameters)
    help_text = CliRunner().invoke(commands.app, ["replay", "--help"]).output
    assert "--deployed" in help_text
    assert "--since" in help_text


def test_a_given_parameter_is_made_of_the_command_lines_options() -> None:
    app, calls = typer.Typer(), list[tuple[int, bool]]()

    def doubled(number: int = 1) -> int:
        return 2 * number

    @app.command()
    @given(twice=doubled)
    def command(*, twice: int, loud: bool = False) -> None:
        calls.append((twice, loud))

    assert CliRunner().invoke(app, ["--number", "4", "--loud"]).exit_code == 0
    assert CliRunner().invoke(app, []).exit_code == 0
    assert calls == [(8, True), (2, False)]


def test_two_options_of_one_name_are_refused() -> None:
    def one(number: int = 1) -> int:
        return number

    def command(*, made: int, number: int = 2) -> None: ...

    with pytest.raises(TypeError, match="one name"):
        given(made=one)(command)
