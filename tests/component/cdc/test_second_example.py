"""The second example's tables reach the directory through the real Debezium: MASSCOMM_SOURCE names its file."""

import json

from local.devstack.config import ROOT, StackConfig
from tests.support.changed_tree import printed_json

SECOND = ROOT / "examples" / "crm"

CAPTURED = """
import json
from pathlib import Path
from local.devstack.config import StackConfig
from masscomm.kafka.producer import InMemoryProducer
from ops.provisioning.source_check import require_source
from tests.support.harness.change_data_capture import RunningGeneration

config = StackConfig.from_dict(json.loads(CONFIG))
with RunningGeneration.made(config, Path("examples/crm/schema.sql")) as made, made.sql() as sql:
    sql.execute(
        "INSERT INTO crm.person (person_no, organisation, given_name, contact, plan, joined_on, balance, password_hash)"
        " SELECT n, 3, 'p' || n, jsonb_build_object('mail', jsonb_build_object('address', n || '@example.org')),"
        " 'gold', '2024-10-04', 12.5, 'secret' FROM generate_series(1, 4) n"
    )
    sql.execute(
        "INSERT INTO crm.contact_choice (person_uuid, person_no, no_mail)"
        " SELECT person_uuid, person_no, true FROM crm.person WHERE person_no IN (1, 3)"
    )
    # Debezium has another unit for a time of this precision, unless the connector's configuration says otherwise.
    sql.execute("ALTER TABLE crm.quiet_time ALTER starts TYPE time(0)")
    sql.execute("INSERT INTO crm.quiet_time VALUES (1, '22:00', '07:00'), (2, '23:30', '06:00')")
    sql.execute("INSERT INTO crm.handset (handset_no, owner_no, kind, push_token) VALUES (11, 1, 'ios', 'a')")
    sql.execute("INSERT INTO crm.wording VALUES (1, 'news', 'app', 'de', 'Neues', '{{ user.attributes.plan }}')")
    require_source(config.database_url(made.database), made.name)
    made.start_connector()
    made.consume_until(made.complete)

    with sql.transaction():
        sql.execute("UPDATE crm.person SET given_name = 'changed', plan = NULL WHERE person_no = 2")
        sql.execute("DELETE FROM crm.quiet_time WHERE person_no = 2")
    sql.execute("UPDATE crm.person SET person_no = 44 WHERE person_no = 4")
    sql.execute("DELETE FROM crm.contact_choice WHERE person_no = 3")
    sql.execute("UPDATE crm.person SET given_name = NULL WHERE person_no = 3")
    sql.execute("INSERT INTO crm.person (person_no, organisation, given_name) VALUES (5, 3, 'last')")
    made.consume_until(lambda: "5" in made.documents("users") and made.producer.produced)
    made.consume_until(lambda: "3" not in made.documents("user_settings"))
    made.consume_until(lambda: "2" not in made.documents("user_settings.quiet"))
    sql.execute("ALTER TABLE crm.contact_choice DROP COLUMN wants_push")
    sql.execute(
        "INSERT INTO crm.contact_choice (person_uuid, person_no)"
        " SELECT person_uuid, person_no FROM crm.person WHERE person_no IN (3, 5)"
    )
    made.consume_until(lambda: made.documents("user_settings").keys() >= {"3", "5"})

    directory = made.directory()
    users, settings = directory.users_and_settings([1, 2, 3, 4, 5, 44])
    print(json.dumps({
        "users": {number: user._asdict() for number, user in users.items()},
        "settings": {number: each._asdict() for number, each in settings.items() if not each.is_absent},
        "settings_alone": sorted(
            number for number, each in directory.user_settings([1, 2, 3]).items() if not each.is_absent
        ),
        "devices": [each._asdict() for each in directory.devices([1])[1]],
        "tokens": [each["token"] for each in made.documents("devices").values()],
        "templates": [each._asdict() for each in directory.templates([(3, "news", "push")])[3, "news", "push"]],
        "dead_letters": [
            {name: value.decode() for name, value in headers} for _, _, _, headers in made.producer.produced
        ],
        "secrets": sum(b"secret" in (record.value or b"") or b"person_uuid" in (record.value or b"")
                       for record in made.records),
    }, default=str))
"""


def test_second_example_is_captured_from_end_to_end(stack: StackConfig) -> None:
    source = str(SECOND / "source.yaml")
    found = printed_json(ROOT, f"CONFIG = {json.dumps(stack.as_dict())!r}\n" + CAPTURED, MASSCOMM_SOURCE=source)

    users = found["users"]
    assert users["1"] == {
        "user_id": 1,
        "club_id": 3,
        "first_name": "p1",
        "last_name": "",
        "email": "1@example.org",
        "phone": None,
        "locale": "de",
        "time_zone": "Europe/Vienna",
        "attributes": {"plan": "gold", "joined_on": "2024-10-04", "balance": "12.50"},
    }
    assert users["2"]["first_name"] == "changed"
    assert users["2"]["attributes"]["plan"] == "free"
    assert users.keys() == {"1", "2", "3", "5", "44"}, "a changed key removes the document of the old one"

    settings = found["settings"]
    assert settings["1"]["channels"] == {"email": False}
    assert settings["1"]["quiet_hours"] == {"start": "22:00", "end": "07:00"}, "two tables are merged"
    assert settings.keys() == {"1", "3", "5"}, "deleted rows are no settings"
    assert settings["3"]["channels"] == settings["5"]["channels"] == "unreadable", "refused first settings opt out"
    assert found["settings_alone"] == [1, 3]

    (device,) = found["devices"]
    assert (device["device_id"], device["platform"]) == (11, "apns")
    assert found["tokens"] == ["a"]
    (template,) = found["templates"]
    assert (template["club_id"], template["channel"], template["title"]) == (None, "push", "Neues")

    dead_letter, *refused = found["dead_letters"]
    assert len(refused) == 2
    assert "users.first_name (crm.person.given_name) is missing in the row person_no=3" in dead_letter.values()
    assert users["3"]["first_name"] == "p3", "the last valid version is kept"
    assert found["secrets"] == 0, "columns that are not mapped never leave the database"
