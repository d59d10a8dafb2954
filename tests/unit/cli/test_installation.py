"""Commands choose a local or deployed installation, and share the definitions of their options."""

import inspect

import pytest
import typer
from typer.testing import CliRunner

from cli import dead_letters as commands
from cli.installation import Installation
from cli.options import given
from masscomm.errors import Stop

NEEDED = ("KAFKA_BOOTSTRAP_SERVERS", "SCHEMA_REGISTRY_URL", "CDC_GENERATION")


def test_deployed_installation_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NEEDED:
        monkeypatch.delenv(name, raising=False)
    for name in NEEDED:
        with pytest.raises(Stop, match=name):
            Installation.chosen(deployed=True)
        monkeypatch.setenv(name, f"its {name}")
    monkeypatch.setenv("KAFKA_AUTHENTICATION", "aws_msk_iam")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("WAITING_TABLE", "masscomm-prod-waiting")
    found = Installation.chosen(deployed=True)
    assert (found.kafka_bootstrap, found.registry_url) == ("its KAFKA_BOOTSTRAP_SERVERS", "its SCHEMA_REGISTRY_URL")
    assert found.security["sasl.mechanisms"] == "OAUTHBEARER"
    assert [found.table(name) for name in ("waiting", "decisions")] == ["masscomm-prod-waiting", "decisions"]
    assert (found.logs, dict(found.aws)) == (None, {})


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
