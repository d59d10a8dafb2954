"""`masscomm source check` on a real server: it names each missing part, and its statements repair them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
import yaml
from psycopg.sql import SQL, Identifier, Literal
from typer.testing import CliRunner

from cli.main import app
from local.devstack.config import ROOT, StackConfig
from local.devstack.provision import MONOLITH_MIGRATION, create_monolith, put_connector
from masscomm.domain.source_tables import outbox_table, read_settings_names, read_source, source_tables
from ops.provisioning import ProvisioningError, source_check
from ops.provisioning.source_check import Finding, check_source
from ops.provisioning.source_samples import sample_source

SECOND = ROOT / "examples" / "crm"


@dataclass(frozen=True)
class Database:
    """A database with the second example's tables, and a user that owns nothing."""

    owner_url: str
    user_url: str
    user: str

    def run(self, *statements: str) -> None:
        with psycopg.connect(self.owner_url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def check(self, *, user: bool = False, creates: bool = True, **changes: Any) -> list[Finding]:
        document = yaml.safe_load((SECOND / "source.yaml").read_text())
        for name, columns in changes.items():
            document["tables"][name]["columns"] |= columns
        url = self.user_url if user else self.owner_url
        return check_source(url, self.user, read_source(document), creates_publication=creates)

    def problems(self, **options: Any) -> list[str]:
        return [each.text for each in self.check(**options) if not each.warning]


@pytest.fixture
def database(postgres: StackConfig) -> Iterator[Database]:
    name = f"t{uuid4().hex[:8]}"
    with psycopg.connect(postgres.database_url("monolith"), autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        connection.execute(SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(Identifier(name), Literal(name)))
    url = postgres.database_url(name)
    address = urlsplit(url)
    made = Database(url, f"postgresql://{name}:{name}@{address.hostname}:{address.port}/{name}", name)
    made.run((SECOND / "schema.sql").read_text())
    yield made
    with psycopg.connect(postgres.database_url("monolith"), autocommit=True) as connection:
        connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))
        connection.execute(SQL("DROP ROLE {}").format(Identifier(name)))


def test_tables_as_mapped_have_no_problem(database: Database) -> None:
    assert database.problems() == []
    assert [each.text.partition(":")[0] for each in database.check()] == [
        "crm.person.organisation may be null",
        "crm.person.given_name may be null",
    ]


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ("DROP TABLE crm.quiet_time", "the table crm.quiet_time is missing; user_settings.quiet derives from it"),
        ("DROP TABLE crm.contact_choice", "the table crm.contact_choice is missing; user_settings derives from it"),
        (
            "ALTER TABLE crm.person RENAME given_name TO givenname",
            "crm.person.given_name is missing; users.first_name derives from it (is it givenname?)",
        ),
        ("ALTER TABLE crm.handset REPLICA IDENTITY DEFAULT", "crm.handset does not log the whole old row"),
        (
            "ALTER TABLE crm.handset ALTER handset_no DROP IDENTITY, ALTER handset_no DROP NOT NULL",
            "may be null, and is",
        ),
        (
            "ALTER TABLE crm.contact_choice DROP CONSTRAINT contact_choice_person_no_key",
            "is not unique, and is the key",
        ),
        ("ALTER TABLE crm.contact_choice DROP COLUMN wants_push", "wants_push is missing; user_settings.channels"),
    ],
)
def test_printed_statements_repair_the_database(database: Database, broken: str, expected: str) -> None:
    database.run(broken)
    found = [each for each in database.check() if not each.warning]
    assert len(found) == 1
    assert expected in found[0].text
    database.run(*found[0].repair)
    assert database.problems() == []


def test_rows_of_the_second_example_are_inserted_once(database: Database) -> None:
    rows = (ROOT / "examples" / "crm" / "rows.sql").read_text()
    database.run(rows, rows)
    assert database.problems() == []
    with psycopg.connect(database.owner_url) as connection:
        counts = [
            connection.execute(SQL("SELECT count(*) FROM crm.{}").format(Identifier(name))).fetchone()
            for name in ("person", "contact_choice", "handset", "wording")
        ]
    assert counts == [(3,), (2,), (3,), (2,)]


def test_empty_database_is_repaired_by_the_statements(database: Database) -> None:
    database.run("DROP SCHEMA crm CASCADE")
    for found in database.check():
        # Each statement that is printed may be run, in the order of the lines.
        database.run(*found.repair)
    assert database.problems() == []


def test_missing_privileges_are_repaired_by_the_statements(database: Database) -> None:
    found = database.check(user=True, creates=False)
    texts = "\n".join(each.text for each in found)
    for expected in ("create a replication slot", "use the schema crm", "read crm.wording", "publication"):
        assert expected in texts
    database.run(*(statement for each in found if not each.warning for statement in each.repair))
    assert database.problems(user=True, creates=False) == []


def test_connector_that_creates_its_publication_owns_the_tables(database: Database) -> None:
    (text,) = [text for text in database.problems(user=True) if "cannot create the publication" in text]
    assert "does not own crm.person" in text
    assert f"may not create in {database.user}" in text


def test_publication_without_a_table_is_a_problem(database: Database) -> None:
    database.run(f"CREATE PUBLICATION masscomm_{database.user} FOR TABLE crm.person")
    (found,) = [each for each in database.check(creates=False) if not each.warning]
    assert "does not publish all changes of crm.contact_choice" in found.text
    database.run(*found.repair)
    assert database.problems(creates=False) == []


def test_rows_hidden_by_row_security_are_a_problem(database: Database) -> None:
    database.run("ALTER TABLE crm.person ENABLE ROW LEVEL SECURITY")
    assert any("row-level security hides rows of crm.person" in text for text in database.problems(user=True))
    assert database.problems() == [], "the owner sees every row"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"club_id": "family_name"}, "crm.person.family_name is character varying(80), and users.club_id accepts int2"),
        (
            {"locale": "joined_on"},
            "is date, and users.locale accepts bpchar, citext, enum",
        ),
        ({"email": "contact"}, "Name a value inside it: path"),
        ({"email": {"column": "plan", "path": "a"}}, "crm.person.plan is text, and users.email accepts json, jsonb"),
        ({"phone": {"column": "plan", "format": "date"}}, "crm.person.plan is text, and users.phone accepts date"),
        ({"club_id": {"constant": "one"}}, "source.yaml: users.club_id: 'one' is no long"),
        ({"locale": {"column": "language", "default": 49}}, "source.yaml: users.locale: 49 is no keyword"),
        ({"clubid": "organisation"}, "the directory's table users has no column clubid"),
    ],
)
def test_column_of_another_type_is_a_problem(database: Database, columns: Mapping[str, Any], expected: str) -> None:
    (text,) = database.problems(users=columns)
    assert expected in text


def channels(**members: Any) -> dict[str, Any]:
    return {"channels": {"object": members}}


@pytest.mark.parametrize(
    ("sql_type", "value"), [("text", "'yes'"), ("integer", "1"), ("jsonb", "'true'"), ("timestamptz", "now()")]
)
def test_channel_of_another_type_than_boolean_is_a_problem(database: Database, sql_type: str, value: str) -> None:
    """Any value but a plain true is an opt-out: a text would opt out every user, and nothing would say so."""
    database.run(f"ALTER TABLE crm.contact_choice ALTER wants_push TYPE {sql_type} USING {value}")
    (text,) = database.problems()
    assert text.startswith("crm.contact_choice.wants_push is ")
    assert "user_settings.channels accepts bool" in text


@pytest.mark.parametrize(
    ("sql_type", "values"), [("text", {"yes": True, "no": False}), ("integer", {1: True, 0: False})]
)
def test_channel_with_values_has_no_problem(database: Database, sql_type: str, values: dict[Any, bool]) -> None:
    database.run(f"ALTER TABLE crm.contact_choice ALTER wants_push TYPE {sql_type} USING NULL")
    assert database.problems(user_settings=channels(push={"column": "wants_push", "values": values})) == []


def test_channel_value_that_is_not_boolean_is_a_problem(database: Database) -> None:
    mapped = channels(push={"column": "wants_push", "values": {True: "yes", False: False}})
    assert database.problems(user_settings=mapped) == ["source.yaml: user_settings.channels: 'yes' is no boolean"]


@pytest.mark.parametrize(("sql_type", "problems"), [("boolean", 0), ("jsonb", 0), ("text", 1)])
def test_category_is_a_boolean_or_an_object(database: Database, sql_type: str, problems: int) -> None:
    database.run(f"ALTER TABLE crm.contact_choice ADD news {sql_type}")
    assert len(database.problems(user_settings={"categories": {"object": {"news": "news"}}})) == problems


@pytest.mark.parametrize("broken", ["DROP SCHEMA crm CASCADE", "ALTER TABLE crm.person DROP COLUMN organisation"])
def test_column_mapped_twice_is_added_once(database: Database, broken: str) -> None:
    """The column has a type that both of its values accept."""
    document = yaml.safe_load((SECOND / "source.yaml").read_text())
    attributes = document["tables"]["users"].pop("attributes")
    document["tables"]["users"] = {
        **document["tables"]["users"],
        "attributes": attributes | {"organisation": "organisation"},
    }
    sources = read_source(document)
    database.run(broken)
    for found in check_source(database.owner_url, "g1", sources, creates_publication=True):
        if not found.warning:
            database.run(*found.repair)
    after = check_source(database.owner_url, "g1", sources, creates_publication=True)
    assert [each.text for each in after if not each.warning] == []


@pytest.mark.parametrize("contact", ["{}", '{"club": null}', '{"club": [1]}', "[]", "null"])
def test_row_without_a_required_member_is_a_problem(database: Database, contact: str) -> None:
    mapped = {"club_id": {"column": "contact", "path": "club.id"}}
    assert database.problems(users=mapped) == []
    database.run(
        """INSERT INTO crm.person (person_no, given_name, contact) VALUES (6, 'Bo', '{"club": {"id": 3}}')""",
        f"INSERT INTO crm.person (person_no, given_name, contact) VALUES (7, 'Ada', '{contact}')",  # noqa: S608
    )
    (text,) = database.problems(users=mapped)
    assert text.startswith("crm.person.contact (club.id) is null, for example in the row person_no=7")


@pytest.mark.kills(guard="source_check.spelled_member")
@pytest.mark.parametrize(
    "contact", ['{"Club": {"ID": 3}}', '{"club": null, " CLUB ": {"id": 3}}', '{"club": {"id": 3}}']
)
def test_required_member_is_found_in_any_spelling(database: Database, contact: str) -> None:
    mapped = {"club_id": {"column": "contact", "path": "club.id"}}

    def insert(person: int, content: str) -> str:
        return f"INSERT INTO crm.person (person_no, given_name, contact) VALUES ({person}, 'Bo', '{content}')"  # noqa: S608

    database.run(insert(6, contact))
    assert database.problems(users=mapped) == []
    database.run(insert(7, "{}"), insert(8, contact))
    (text,) = database.problems(users=mapped)
    assert "for example in the row person_no=7" in text


@pytest.mark.kills(guard="source_check.members_of_objects")
@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ({"channels": {"object": {"Push": "wants_push", " e-MAIL": "wants_push"}}}, ["channels:  e-MAIL"]),
        ({"channels": {"object": {" PUSH ": "wants_push"}}}, []),
        ({"channels": {"constant": {"push": True, "pusch": True}}}, ["channels: pusch"]),
        (
            {"categories": {"object": {"news": {"object": {"Email": "wants_push", "mail": "wants_push"}}}}},
            ["categories: news.mail"],
        ),
        ({"categories": {"object": {"NEWS": "wants_push", "offers": "wants_push"}}}, ["categories: offers"]),
        ({"quiet_hours": {"object": {"from": "wants_push", "end": "wants_push"}}}, ["quiet_hours: from"]),
    ],
)
def test_unknown_member_of_an_object_is_a_problem(
    database: Database, columns: dict[str, Any], names: list[str]
) -> None:
    """It would make the settings of all users malformed."""
    found = [each for each in database.problems(user_settings=columns) if "malformed" in each]
    assert len(found) == len(names)
    for text, name in zip(found, names, strict=True):
        place, _, member = name.partition(": ")
        assert f"{place}: the name {member} is unknown" in text


def test_row_without_a_required_value_is_a_problem(database: Database) -> None:
    database.run("INSERT INTO crm.person (person_no, given_name) VALUES (7, 'Ada')")
    (text,) = database.problems()
    assert text.startswith("crm.person.organisation is null, for example in the row person_no=7")


@pytest.mark.kills(guard="source_check.unknown_settings")
def test_sample_names_unknown_settings_and_opted_out_users(database: Database) -> None:
    document = yaml.safe_load((SECOND / "source.yaml").read_text()) | {"settings_names": ["Letter"]}
    tables = document["tables"]
    tables["user_settings"]["columns"] |= {"channels": "wishes", "quiet_hours": "quiet"}
    tables["devices"]["columns"]["platform"] = "word"
    wishes = ["null", '{"Push": false}', '{"letter": true}', '{"mobile": false}', '{"mobile": null, "fax": 1}', "[]"]
    topics = ['{"News": {"enabled": false}}', '{"offers": true, "news": {"e mail": true}}', "{}"]
    database.run(
        "ALTER TABLE crm.contact_choice ADD wishes jsonb, ADD quiet json",
        "ALTER TABLE crm.handset ADD word text",
        "INSERT INTO crm.person (person_no, organisation, given_name, zone)"
        " SELECT n, 1, 'Ada', (ARRAY['Europe/Vienna', 'W. Europe Standard Time', ' ', NULL, 'Mars/Base'])[n]"
        " FROM generate_series(1, 10) n",
        "INSERT INTO crm.contact_choice (person_uuid, person_no) SELECT person_uuid, person_no FROM crm.person",
        *(
            f"UPDATE crm.contact_choice SET {column} = '{each}' WHERE person_no = {person}"  # noqa: S608
            for column, first, values in (("wishes", 1, wishes), ("topics", 7, topics))
            for person, each in enumerate(values, first)
        ),
        """UPDATE crm.contact_choice SET quiet = '{"from": "22:00"}' WHERE person_no = 10""",
        "INSERT INTO crm.handset (owner_no, kind, push_token, word)"
        " SELECT 1, 'ios', word, word FROM unnest(ARRAY['iOS', 'FCM', 'pager', 'pager']) word",
    )  # fmt: skip
    everything = "so these users are opted out of everything that is not mandatory"
    settings = "crm.contact_choice (user_settings)"
    found = sample_source(database.owner_url, read_source(document), read_settings_names(document))
    assert {each.text for each in found if each.warning} == {
        f"{settings}: names in channels unknown in 3 of 10 sampled rows (30.0%), {everything}: mobile (1), fax (1),"
        " no object (1)",
        f"{settings}: names in categories unknown in 1 of 10 sampled rows (10.0%), {everything}: offers (1)",
        f"{settings}: names in the rules for a category unknown in 1 of 10 sampled rows (10.0%),"
        " so these users are opted out of the category: News.enabled (1)",
        f"{settings}: names in quiet_hours unknown in 1 of 10 sampled rows (10.0%),"
        " so the default quiet hours apply to these users, too: from (1)",
        "crm.person (users): time zones unknown in 1 of 10 sampled rows (10.0%), so the clock of these users is UTC:"
        " Mars/Base (1)",
        "crm.handset (devices): platforms unknown in 2 of 4 sampled rows (50.0%), so these devices get no push:"
        " pager (2)",
    }


def test_sample_of_the_second_example_finds_nothing(database: Database) -> None:
    database.run((SECOND / "rows.sql").read_text())
    document = yaml.safe_load((SECOND / "source.yaml").read_text())
    assert sample_source(database.owner_url, read_source(document), ()) == []


def test_sampled_row_that_does_not_fit_is_a_warning(database: Database) -> None:
    database.run((SECOND / "rows.sql").read_text())
    document = yaml.safe_load((SECOND / "source.yaml").read_text())
    document["tables"]["devices"]["columns"]["platform"]["values"].pop("ios")
    (found,) = sample_source(database.owner_url, read_source(document), ())
    assert found.warning
    assert found.text.startswith("crm.handset (devices): 1 of 3 sampled rows would be dead-lettered, for example:")


def test_tables_that_cannot_be_captured_are_problems(database: Database) -> None:
    database.run(
        "ALTER TABLE crm.wording RENAME TO words",
        "CREATE VIEW crm.wording AS SELECT * FROM crm.words",
        "ALTER TABLE crm.person DROP COLUMN zone, ADD COLUMN zone text GENERATED ALWAYS AS ('UTC') STORED",
    )
    assert sorted(text.partition(",")[0] for text in database.problems()) == [
        "crm.person.zone is a generated column",
        "crm.wording is a view; only ordinary tables can be captured",
    ]


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("current_setting('wal_level')", "'replica'", "wal_level is replica, not logical"),
        ("current_setting('max_replication_slots')::int", "0", "max_replication_slots is 0"),
        ("current_setting('max_wal_senders')::int", "0", "max_wal_senders is 0"),
        ("current_setting('server_version_num')::int", "130010", "PostgreSQL 13 is too old"),
        ("pg_is_in_recovery()", "true", "the server is a standby"),
    ],
)
def test_server_setting_is_a_problem(
    database: Database, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, expected: str
) -> None:
    assert setting in source_check._SERVER
    monkeypatch.setattr(source_check, "_SERVER", source_check._SERVER.replace(setting, value, 1))
    (text,) = database.problems()
    assert expected in text


def test_idle_slot_of_another_reader_is_a_warning(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    slot = f"{database.user}_idle"
    database.run(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    try:
        assert not [each for each in database.check() if slot in each.text], "it keeps less than a gibibyte"
        assert "> 1073741824" in source_check._IDLE_SLOTS
        any_size = source_check._IDLE_SLOTS.replace("> 1073741824", ">= 0")
        monkeypatch.setattr(source_check, "_IDLE_SLOTS", any_size)
        (found,) = [each for each in database.check() if slot in each.text]
        assert found.warning
        assert f"the replication slot {slot} is idle and keeps" in found.text
        database.run(*found.repair)
        assert not [each for each in database.check() if slot in each.text]
    finally:
        drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name ="
        database.run(f"{drop} '{slot}'")


def test_user_that_cannot_write_heartbeats_is_granted_it(database: Database) -> None:
    """The functions' parameters differ by the server's version."""
    for function in emit_functions(database):
        database.run(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")
    (found,) = [each for each in database.check(user=True) if "heartbeats" in each.text]
    assert not found.warning
    database.run(*found.repair)
    assert not [each for each in database.check(user=True) if "heartbeats" in each.text]


def emit_functions(database: Database) -> list[str]:
    with psycopg.connect(database.owner_url) as connection:
        query = "SELECT oid::regprocedure::text FROM pg_proc WHERE proname = 'pg_logical_emit_message'"
        return [name for (name,) in connection.execute(query)]


def test_role_of_rds_is_granted_where_it_exists(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """On RDS no role may have REPLICATION; membership in rds_replication has its place."""
    role = f"{database.user}_rds"
    database.run(f"CREATE ROLE {role}")
    try:
        query = source_check._SERVER.replace("'rds_replication'", f"'{role}'")
        assert query.count(role) == 2
        monkeypatch.setattr(source_check, "_SERVER", query)
        # Warnings may be about slots of other databases of the server.
        (found,) = [each for each in database.check(user=True) if "replication slot" in each.text and not each.warning]
        assert found.repair == (f'GRANT rds_replication TO "{database.user}";',)
        database.run(found.repair[0].replace("rds_replication", role))
        after = database.check(user=True)
        assert not [each for each in after if "replication slot" in each.text and not each.warning]
    finally:
        database.run(f"DROP ROLE {role}")


def test_unlimited_wal_of_a_slot_is_a_warning(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = "current_setting('max_slot_wal_keep_size')"
    monkeypatch.setattr(source_check, "_SERVER", source_check._SERVER.replace(limit, "'-1'"))
    assert any("the WAL fills the disk" in each.text and each.warning for each in database.check())


def test_command_prints_the_repair_and_its_exit_status(database: Database) -> None:
    command = ["source", "check", "--dsn", database.owner_url, "--file", str(SECOND / "source.yaml")]
    passed = CliRunner().invoke(app, command)
    assert passed.exit_code == 0, passed.output
    assert "crm.person, crm.quiet_time, crm.wording can be captured" in passed.output
    database.run("ALTER TABLE crm.person REPLICA IDENTITY NOTHING")
    failed = CliRunner().invoke(app, command)
    assert failed.exit_code == 1
    assert 'ALTER TABLE "crm"."person" REPLICA IDENTITY FULL;' in failed.output


def test_connector_is_not_created_for_other_tables(database: Database) -> None:
    """The check comes first: the address of Kafka Connect is never used."""
    with pytest.raises(ProvisioningError, match=r"the table public\.users is missing"):
        put_connector("http://127.0.0.1:1", "g1", database.owner_url)


def test_first_example_has_no_problem(database: Database) -> None:
    database.run(MONOLITH_MIGRATION.read_text())
    outbox = outbox_table()
    found = check_source(database.owner_url, "g1", source_tables(), creates_publication=True, outbox=outbox)
    assert [each for each in found if not each.warning] == []


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ("DROP TABLE crm.events", "the table crm.events of the outbox is missing"),
        ("ALTER TABLE crm.events DROP COLUMN unit", "crm.events.unit of the outbox is missing"),
        ("REVOKE ALL ON crm.events FROM {user}", "may not read crm.events"),
    ],
)
def test_printed_statements_repair_the_outbox(database: Database, broken: str, expected: str) -> None:
    def problems() -> list[Finding]:
        sources = read_source(yaml.safe_load((SECOND / "source.yaml").read_text()))
        found = check_source(database.user_url, database.user, sources, creates_publication=False, outbox="crm.events")
        return [each for each in found if not each.warning and "crm.events" in each.text]

    (missing,) = [each for each in problems() if "publication" not in each.text]
    grant = f"GRANT SELECT ON crm.events TO {database.user}"
    database.run(*missing.repair, grant, f"GRANT USAGE ON SCHEMA crm TO {database.user}")
    database.run(f"CREATE PUBLICATION {database.user} FOR TABLES IN SCHEMA crm")
    assert problems() == []
    database.run(broken.format(user=database.user))
    found = problems()[0]
    assert expected in found.text
    database.run(*found.repair, grant)
    assert problems() == []


def test_outbox_with_a_time_without_its_zone_is_named(database: Database) -> None:
    database.run(MONOLITH_MIGRATION.read_text(), "ALTER TABLE event_outbox ALTER occurred_at TYPE timestamp")
    outbox = "public.event_outbox"
    found = check_source(database.owner_url, "g1", source_tables(), creates_publication=True, outbox=outbox)
    # Warnings may be about slots of other databases of the server.
    assert [each.text for each in found if not each.warning] == [
        "public.event_outbox.occurred_at is timestamp without time zone, and the outbox accepts timestamptz"
    ]


def test_mapping_without_its_database_names_the_variable(
    postgres: StackConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = tmp_path / "my-source.yaml"
    own.write_text(f"# mine\n{(SECOND / 'source.yaml').read_text()}")
    monkeypatch.setenv("MASSCOMM_SOURCE", str(own))
    # The mapping is read once in a process.
    monkeypatch.setattr(source_check, "source_tables", lambda: read_source(yaml.safe_load(own.read_text())))
    config = replace(postgres, source=own)
    with pytest.raises(ProvisioningError, match=r"examples/monolith.*MASSCOMM_MONOLITH=postgresql://"):
        create_monolith(config)
    create_monolith(replace(config, monolith_url=postgres.database_url("monolith")))
    monkeypatch.undo()
    create_monolith(config)


def test_key_of_several_columns_is_checked(database: Database) -> None:
    """The statements that repair it are sufficient."""
    entry = {
        "table": "crm.club_choice",
        "key": ["person_no", "club_no"],
        "columns": {
            "user_id": "person_no",
            "club_id": "club_no",
            "channels": "channels",
            "categories": "categories",
        },
    }

    def checked() -> list[Finding]:
        document = yaml.safe_load((SECOND / "source.yaml").read_text())
        document["tables"]["tenant_user_settings"] = entry
        found = check_source(database.owner_url, database.user, read_source(document), creates_publication=True)
        return [each for each in found if "club_choice" in each.text]

    (missing,) = checked()
    assert missing.text == "the table crm.club_choice is missing; tenant_user_settings derives from it"
    database.run(*missing.repair)
    assert checked() == []
    database.run(
        "ALTER TABLE crm.club_choice DROP CONSTRAINT club_choice_pkey",
        "ALTER TABLE crm.club_choice ALTER person_no DROP NOT NULL",
        "CREATE UNIQUE INDEX ON crm.club_choice (person_no, club_no, channels) INCLUDE (categories)",
    )
    problems = checked()
    assert [each.text.partition(",")[0] for each in problems if not each.warning] == [
        "crm.club_choice.person_no may be null",
        "crm.club_choice may have several rows with one (person_no",
    ]
    for each in problems:
        database.run(*each.repair)
    assert checked() == []
    database.run("INSERT INTO crm.club_choice VALUES (1, 2)", "ALTER TABLE crm.club_choice ALTER person_no TYPE text")
    (wrong,) = checked()
    assert wrong.text.startswith("crm.club_choice.person_no is text")
