"""Rows with a key of several columns reach the directory through the real Debezium, also when the key changes."""

import json
from pathlib import Path

import pytest
import yaml

from local.devstack.config import ROOT, StackConfig
from tests.support.changed_tree import printed_json

# The kind is the same for every row, and the object is a number.
FOLLOWS = {
    "table": "crm.fan",
    "key": ["person_no", "team_no"],
    "columns": {
        "user_id": "person_no",
        "kind": {"constant": "team"},
        "object": {"column": "team_no", "format": "text"},
        "muted": "quiet",
    },
}
CAPTURED = """
import json
from pathlib import Path
from local.devstack.config import StackConfig
from masscomm.directory.layers import related_to
from masscomm.domain.audiences import read_audience
from ops.provisioning.source_check import require_source
from tests.support.harness.change_data_capture import RunningGeneration

config = StackConfig.from_dict(json.loads(CONFIG))
with RunningGeneration.made(config, Path("examples/crm/schema.sql")) as made, made.sql() as sql:
    sql.execute(
        "INSERT INTO crm.person (person_no, organisation, given_name)"
        " SELECT n, 3, 'p' || n FROM generate_series(1, 4) n"
    )
    sql.execute("CREATE TABLE crm.fan (person_no bigint, team_no bigint, quiet boolean)")
    sql.execute("ALTER TABLE crm.fan ADD PRIMARY KEY (person_no, team_no)")
    sql.execute("ALTER TABLE crm.fan REPLICA IDENTITY FULL")
    sql.execute("INSERT INTO crm.fan VALUES (1, 42, false), (2, 42, null), (3, 42, true), (4, 43, false)")
    require_source(config.database_url(made.database), made.name)
    made.start_connector()
    made.consume_until(made.complete)
    sql.execute("DELETE FROM crm.fan WHERE person_no = 1")
    sql.execute("UPDATE crm.fan SET team_no = 42 WHERE person_no = 4")
    sql.execute("UPDATE crm.fan SET quiet = true WHERE person_no = 2")
    sql.execute("INSERT INTO crm.fan VALUES (1, 44, false)")
    made.consume_until(lambda: "1:team:44" in made.documents("memberships"))

    directory = made.directory()
    audience, errors = read_audience({"follows": "team:42"})
    assert not errors
    pages = directory.members_of_club(3, audience)
    found = directory.layers([1, 2, 3, 4], [3], related_to([([1, 2, 3, 4], 3, "team:42")]))
    print(json.dumps({
        "documents": sorted(made.documents("memberships")),
        "members": [user_id for page in pages for user_id in page.user_ids],
        "muted": {id_: each.muted for id_, each in found.memberships.items()},
        "dead_letters": len(made.producer.produced),
    }))
"""


@pytest.mark.nightly
def test_key_of_several_columns_is_captured(stack: StackConfig, tmp_path: Path) -> None:
    document = yaml.safe_load((ROOT / "examples" / "crm" / "source.yaml").read_text())
    source = tmp_path / "source.yaml"
    source.write_text(yaml.safe_dump(document | {"tables": document["tables"] | {"memberships": FOLLOWS}}))
    config = json.dumps(stack.as_dict())
    found = printed_json(ROOT, f"CONFIG = {config!r}\n" + CAPTURED, MASSCOMM_SOURCE=str(source))
    assert found == {
        "documents": ["1:team:44", "2:team:42", "3:team:42", "4:team:42"],
        "members": [2, 3, 4],
        "muted": {"2:team:42": True, "3:team:42": True, "4:team:42": False},
        "dead_letters": 0,
    }
