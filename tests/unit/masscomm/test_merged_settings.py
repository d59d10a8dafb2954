"""User settings of several tables are merged at look-up."""

from typing import Any, cast

import pytest

from masscomm.clock import FixedClock
from masscomm.directory import opensearch
from masscomm.directory.client import OpenSearch
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.domain.preference_changes import INDEX, PreferenceChanges, Wish
from masscomm.domain.preferences import decide_by_user_settings
from masscomm.domain.statuses import Status
from masscomm.domain.users import UserSettings

TABLES = ("user_settings", "user_settings.quiet")
AT, AT_MS = "2026-05-03T10:22:00.000000Z", 1_777_803_720_000
HOURS = {"start": "22:00", "end": "07:00"}


class Cluster:
    """Answers look-ups by id from a dictionary: (index, id) → (version, document)."""

    def __init__(self, documents: dict[tuple[str, str], tuple[int, dict[str, Any]]]) -> None:
        self.documents = documents
        self.requests: list[int] = []

    def mget(self, *, body: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(len(body["docs"]))
        return {"docs": [self._document(each["_index"], each["_id"]) for each in body["docs"]]}

    def _document(self, index: str, name: str) -> dict[str, Any]:
        if (index, name) not in self.documents:
            return {"_index": index, "_id": name, "found": False}
        version, source = self.documents[index, name]
        return {"_index": index, "_id": name, "found": True, "_version": version, "_source": source}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(opensearch, "settings_tables", lambda: TABLES)
    return Cluster(
        {
            ("users", "1"): (1, {"club_id": 7}),
            (TABLES[0], "1"): (30, {"channels": {"push": False}, "quiet_hours": None, "updated_at": AT}),
            (TABLES[1], "1"): (20, {"quiet_hours": HOURS}),
            (TABLES[1], "2"): (5, {"quiet_hours": HOURS}),
            (TABLES[0], "3"): (9, {"categories": {"news": False}, "updated_at": "2026-05-03T10:22:00"}),
            (TABLES[1], "3"): (10, {"deleted": True}),
        }
    )


def test_settings_of_two_tables_are_merged(cluster: Cluster) -> None:
    directory = OpenSearchDirectory(cast(OpenSearch, cluster), progress=lambda _: None, clock=FixedClock())  # type: ignore[arg-type, return-value]
    users, settings = directory.users_and_settings([1, 2, 3, 4])
    assert settings == {
        1: UserSettings(user_id=1, channels={"push": False}, quiet_hours=HOURS, version=30, changed_at=AT_MS),
        2: UserSettings(user_id=2, quiet_hours=HOURS, version=5),
        3: UserSettings(user_id=3, categories={"news": False}, version=10),
    }
    assert users.keys() == {1}
    assert directory.user_settings([1, 2, 3, 4]) == settings
    assert cluster.requests == [16, 12], "one request for all tables and for changes through masscomm"


def test_null_of_a_later_table_replaces_no_rule(cluster: Cluster) -> None:
    cluster.documents[TABLES[1], "1"] = (20, {"channels": None, "quiet_hours": HOURS})
    directory = OpenSearchDirectory(cast(OpenSearch, cluster), progress=lambda _: None, clock=FixedClock())  # type: ignore[arg-type, return-value]
    assert directory.user_settings([1])[1].channels == {"push": False}


@pytest.mark.kills(guard="preferences.snapshot_of_settings")
def test_opt_in_does_not_apply_to_the_row_of_another_snapshot(cluster: Cluster) -> None:
    """The rows of all snapshots have one version; the monolith may have recorded an opt-out between two of them."""
    directory = OpenSearchDirectory(cast(OpenSearch, cluster), progress=lambda _: None, clock=FixedClock())  # type: ignore[arg-type, return-value]
    opted_in, opted_out = {"categories": {"news": True}}, {"categories": {"news": False}}
    cluster.documents["user_settings", "5"] = (1, opted_out | {"snapshot_lsn": 400})
    first = directory.user_settings([5])[5]
    changes = PreferenceChanges(user_id=5, club_id=7).after([Wish("news", None, True)], first, 1_000)
    cluster.documents[INDEX, "5"] = (1, changes.document)
    assert directory.user_settings([5])[5].categories == opted_in["categories"]
    cluster.documents["user_settings", "5"] = (1, opted_out | {"snapshot_lsn": 900})
    assert directory.user_settings([5])[5].categories == opted_out["categories"]


@pytest.mark.kills(guard="preferences.rules_without_an_object")
@pytest.mark.parametrize("column", ["channels", "categories"])
@pytest.mark.parametrize("rules", [False, 0, "", [], True, "unreadable"])
def test_rules_that_are_not_objects_opt_out(cluster: Cluster, column: str, rules: Any) -> None:
    """Also those that Python takes for false: a column with false is not a column without a rule."""
    cluster.documents["user_settings", "5"] = (3, {column: rules})
    directory = OpenSearchDirectory(cast(OpenSearch, cluster), progress=lambda _: None, clock=FixedClock())  # type: ignore[arg-type, return-value]
    decision = decide_by_user_settings(directory.user_settings([5])[5], type="news", channel="push")
    assert (decision.status, decision.rule) == (Status.SUPPRESSED, f"{column} malformed")
