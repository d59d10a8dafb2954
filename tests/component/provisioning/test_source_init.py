"""`masscomm source init` on a real server: the proposals for four systems' tables pass `masscomm source check`."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import yaml
from psycopg.sql import SQL, Identifier
from typer.testing import CliRunner

from cli.main import app
from local.devstack.config import ROOT, StackConfig
from masscomm.domain.channels import CHANNELS
from masscomm.domain.source_tables import read_settings_names, read_source
from ops.provisioning.source_check import Finding, check_source
from ops.provisioning.source_init import Proposal, propose_source

HERE = Path(__file__).parent / "source_init"
CRM = ROOT / "examples" / "crm"
SYSTEMS = {
    "monolith": [ROOT / "examples" / "monolith" / "schema.sql"],
    "crm": [CRM / "schema.sql", CRM / "rows.sql"],
    "django": [HERE / "django.sql"],
    "rails": [HERE / "rails.sql"],
}

type Run = Callable[..., str]


@pytest.fixture
def run(postgres: StackConfig) -> Iterator[Run]:
    """Runs statements in a new database, and returns its address."""
    name = f"t{uuid4().hex[:8]}"
    with psycopg.connect(postgres.database_url("monolith"), autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))

    def run(*statements: str) -> str:
        with psycopg.connect(postgres.database_url(name), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)
        return postgres.database_url(name)

    yield run
    with psycopg.connect(postgres.database_url("monolith"), autocommit=True) as connection:
        connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def problems(url: str, text: str) -> list[Finding]:
    document = yaml.safe_load(text)
    found = check_source(
        url,
        "g1",
        read_source(document),
        creates_publication=document["create_publication"],
        settings_names=read_settings_names(document),
    )
    return [each for each in found if not each.warning]


def mapped(proposal: Proposal) -> dict[str, Any]:
    tables: dict[str, Any] = yaml.safe_load(proposal.text())["tables"]
    return tables


def created(run: Run, system: str) -> str:
    return run(*(path.read_text() for path in SYSTEMS[system]))


@pytest.mark.parametrize("example", ["monolith", "crm"])
def test_proposal_for_an_example_passes_the_check(run: Run, example: str) -> None:
    url = created(run, example)
    proposal = propose_source(url)
    assert problems(url, proposal.text()) == []
    assert proposal.todos == []


@pytest.mark.parametrize("system", ["django", "rails"])
def test_proposal_passes_the_check_after_its_repairs(run: Run, system: str) -> None:
    url = created(run, system)
    text = propose_source(url).text()
    run(*(statement for each in problems(url, text) for statement in each.repair))
    assert problems(url, text) == []


def test_first_example_is_mapped_as_by_hand(run: Run) -> None:
    by_hand = yaml.safe_load((ROOT / "schemas" / "source.yaml").read_text())["tables"]
    assert mapped(propose_source(created(run, "monolith"))) == by_hand


def test_second_example_is_mapped_by_names_types_and_samples(run: Run) -> None:
    found = mapped(propose_source(created(run, "crm")))
    inverted = {True: False, False: True}
    assert found["users"]["columns"] == {
        "club_id": "organisation",
        "first_name": "given_name",
        "last_name": "family_name",
        "email": {"column": "contact", "path": "mail.address"},
        "phone": {"column": "contact", "path": "mobile"},
        "locale": "language",
        "time_zone": "zone",
    }
    assert found["user_settings"]["columns"] == {
        "user_id": "person_no",
        "categories": "topics",
        "channels": {
            "object": {
                "push": {"column": "wants_push", "default": False},
                "email": {"column": "no_mail", "values": inverted},
            }
        },
        "preference_version": "preference_version",
    }
    hours = {"start": {"column": "starts", "format": "time"}, "end": {"column": "ends", "format": "time"}}
    assert found["user_settings.quiet_time"]["columns"]["quiet_hours"] == {"object": hours}
    assert found["devices"]["columns"]["platform"] == {"column": "kind", "values": {"ios": "apns", "android": "gcm"}}
    assert found["devices"]["columns"]["active"] == {"column": "retired", "values": inverted}
    assert found["notification_templates"]["columns"]["channel"] == {
        "column": "medium",
        "values": {"app": "push", "mail": "email"},
    }
    assert found["notification_templates"]["columns"]["version"] == {"constant": 1}


def test_members_of_json_are_unknown_without_rows(run: Run) -> None:
    url = run((CRM / "schema.sql").read_text())
    proposal = propose_source(url)
    assert proposal.todos == ["users: email: no column was found", "users: phone: no column was found"]
    assert problems(url, proposal.text()) == []


def test_devices_and_settings_of_django_are_found(run: Run) -> None:
    proposal = propose_source(created(run, "django"))
    found = mapped(proposal)
    assert found["users"]["table"] == "public.auth_user"
    assert found["devices"]["table"] == "public.push_notifications_apnsdevice"
    assert found["devices"]["columns"]["platform"] == {"constant": "apns"}
    assert found["user_settings"]["columns"]["channels"]["object"] == {
        "email": "email_notifications",
        "push": {"column": "push_opt_out", "values": {True: False, False: True}},
    }
    for column, wanted in (("unsubscribed", False), ("is_active", True)):
        rule = {"column": column, "values": {wanted: None, not wanted: False}}
        assert found[f"user_settings.{column}"]["columns"]["channels"] == {"object": dict.fromkeys(CHANNELS, rule)}
    todos = "\n".join(proposal.todos)
    assert "public.push_notifications_gcmdevice has devices, too" in todos
    assert "public.accounts_profile.timezone has it" in todos
    assert "notification_templates: no table of templates was found" in todos


def test_json_of_rails_is_sampled(run: Run) -> None:
    proposal = propose_source(created(run, "rails"))
    found = mapped(proposal)
    assert found["users"]["columns"]["club_id"] == "company_id"
    assert found["users"]["columns"]["created_at"] == {"column": "created_at", "format": "timestamp"}
    assert found["user_settings"]["columns"]["channels"] == {
        "object": {"push": {"column": "settings", "path": "notifications.push", "default": False}}
    }
    newsletter = {"column": "newsletter", "values": {True: None, False: False}}
    assert found["user_settings.users"]["columns"]["categories"] == {"object": {"newsletter": newsletter}}
    assert "public.message_templates lacks channel" in "\n".join(proposal.todos)


def test_no_value_of_a_person_is_in_the_file(run: Run) -> None:
    for system in ("crm", "django", "rails"):
        text = propose_source(created(run, system)).text()
        assert not [value for value in ("Ada", "Byron", "@example.org", "Vienna", "+43") if value in text]
        run("DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "DROP SCHEMA IF EXISTS crm CASCADE")


_HOSTILE = """
CREATE SCHEMA "odd schema";
CREATE TABLE "odd schema".users (id bigint PRIMARY KEY, email text);
CREATE TABLE "users
tables: {{}}" (id bigint PRIMARY KEY, email text);
CREATE TABLE "user" (
    "order" bigint PRIMARY KEY, "null" text, "no" boolean, "e""mail" text, "mail'
    key: x" text, email text, "select" text, preferences jsonb, {long} text
);
CREATE TABLE device (
    id bigint PRIMARY KEY, "user" bigint REFERENCES "user", token text, type text, "push_{{}}" boolean
);
INSERT INTO "user" ("order", email, preferences)
VALUES (1, 'x', '{{"push\\n- x": true, "email: [": false, "email.push": true, "email": 5, "push": [true]}}'),
    (2, 'y', '[]');
INSERT INTO device VALUES (1, 1, 't', E'ios\\n# x'), (2, 1, 'u', E'iOS\\t'), (3, 1, 'u', 'android');
"""


def test_hostile_names_do_not_get_into_the_file(run: Run) -> None:
    url = run(_HOSTILE.format(long="x" * 63))
    proposal = propose_source(url)
    found = mapped(proposal)
    assert (found["users"]["table"], found["users"]["key"]) == ("public.user", "order")
    assert found["users"]["columns"]["email"] == "email"
    assert found["devices"]["columns"]["user_id"] == "user"
    assert "odd schema" not in proposal.text()
    (note,) = [note for note in proposal.notes if "cannot be mapped" in note]
    assert note.startswith("2 tables have names with other characters")
    assert "\n" not in note
    run(*(statement for each in problems(url, proposal.text()) for statement in each.repair))
    assert problems(url, proposal.text()) == []


def test_catalogue_of_5000_tables_is_read(run: Run) -> None:
    loop = (
        "DO $$ BEGIN FOR n IN {0}..{1} LOOP EXECUTE format('CREATE TABLE t%s (id bigint, a text)', n); END LOOP; END $$"
    )
    run(*(loop.format(first, first + 999) for first in range(0, 5000, 1000)))
    assert mapped(propose_source(created(run, "django")))["users"]["table"] == "public.auth_user"


def test_empty_database_has_every_table_to_create(run: Run) -> None:
    url = run()
    proposal = propose_source(url)
    assert [todo.partition(":")[0] for todo in proposal.todos] == [
        "users",
        "devices",
        "notification_templates",
        "user_settings",
    ]
    run(*(statement for each in problems(url, proposal.text()) for statement in each.repair))
    assert problems(url, proposal.text()) == []


def test_user_without_privileges_gets_a_proposal_without_samples(run: Run) -> None:
    proposal = propose_source(created(run, "crm") + "?options=-c%20role%3Dpg_monitor")
    assert "crm.person: no rows were sampled, because the user may not read them" in proposal.notes
    assert proposal.todos == ["users: email: no column was found", "users: phone: no column was found"]


def test_command_writes_a_file_once(run: Run, tmp_path: Path) -> None:
    url, file = created(run, "django"), tmp_path / "my-source.yaml"
    command = ["source", "init", "--dsn", url, "--output", str(file)]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 1, "something is to be completed"
    assert "TODO users: phone: no column was found" in first.output
    assert "# TODO phone: no column was found" in file.read_text()
    file.write_text("corrected")
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 1
    assert "exists" in str(refused.exception)
    assert file.read_text() == "corrected"
    forced = CliRunner().invoke(app, [*command, "--force", "--json"])
    assert json.loads(forced.output)["file"] == str(file)
    assert file.read_text() != "corrected"


def test_complete_proposal_has_exit_status_0(run: Run, tmp_path: Path) -> None:
    command = ["source", "init", "--dsn", created(run, "crm"), "--output", str(tmp_path / "my-source.yaml")]
    assert CliRunner().invoke(app, command).exit_code == 0


@pytest.mark.parametrize("dsn", ["postgresql://127.0.0.1:1/none", "no address at all", "postgresql://[::1/x"])
def test_database_that_cannot_be_read_is_named(dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "my-source.yaml"
    failed = CliRunner().invoke(app, ["source", "init", "--dsn", dsn, "--output", str(file)])
    assert str(failed.exception).startswith("The database cannot be read")
    assert not file.exists()
