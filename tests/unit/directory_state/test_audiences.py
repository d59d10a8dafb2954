"""Audiences over the values in memory have the users that they have over the rows."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import psutil
import pytest

from directory_state import store as store_module
from directory_state.audience_process import AudienceProcess
from directory_state.audiences import Audiences
from directory_state.store import Store, prepare
from masscomm import fast_json
from masscomm.cdc.captured_tables import DEVICES, USER_SETTINGS, USERS
from masscomm.directory import device_states, documents
from masscomm.directory.bulk_writes import VersionedDocument
from masscomm.directory.members import UsersPage, counts_of_members, members
from masscomm.domain import preference_changes
from masscomm.domain.audiences import Audience, read_audience
from masscomm.domain.channels import CHANNELS
from masscomm.domain.preference_changes import PreferenceChanges, QuietHoursWish, Wish
from masscomm.domain.users import Device, User, UserSettings
from masscomm.errors import Retry
from tests.support.until import until

ATTRIBUTES = ("plan", "points", "joined")
CLUBS = (7, 8)
IDS = range(-3, 25)
FOREVER = float("inf")
# Values that equality, JSON or Unicode may take for each other.
HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 1.0, -0.0, 0.1, "0.10", "1", "007", "", " ", "true", "NaN", 2**63, 2**70, "x" * 300),
    *("é", "e\u0301", "\ud800", "pro", "PRO", [1], [True], {"a": 1}, {"a": 1.0}, {}, "2026-01-01", "2026-02-30"),
    *("2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "1" * 60, "\0"),
)
LOCALES = (None, "", "de", "de_AT", "de-AT", "iw", "he", "nonsense", "en")
ZONES = (None, "UTC", "Europe/Vienna", "Asia/Calcutta", "asia/kolkata", "+11:00", "Etc/GMT-11", "Nowhere")
SETTINGS = ("channels.push", "channels.EMAIL", "categories.news", "categories.newsletter", "quiet_hours")
FIELDS = ("locale", "time_zone", *(f"attributes.{name}" for name in ATTRIBUTES), *(f"settings.{n}" for n in SETTINGS))


class Rows:
    """A store, and the documents that were written to it."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        prepare(folder, generations=["g1"], topic_ids={}, now_ms=0)
        self.store = Store(folder, writes=True)
        self._chance = chance
        self._version = 0
        # (Table, id) → (source, version).
        self._documents: dict[tuple[str, int], tuple[dict[str, Any], int]] = {}

    def put(self, table: str, id_: int, source: dict[str, Any]) -> None:
        self._version += 1
        own = table in (preference_changes.INDEX, device_states.INDEX)
        index = table if own else f"{table}-g1"
        with self.store.writing() as writer:
            writer.put(VersionedDocument(index=index, id=str(id_), version=self._version, source=source))
            (stored,) = writer.values_of_table(table, "g1", [id_])
        assert stored is not None
        self._documents[table, id_] = fast_json.parsed(stored)[1], self._version

    def remove(self, table: str, id_: int) -> None:
        with self.store.writing() as writer:
            writer.remove(table, str(id_))
        self._documents.pop((table, id_), None)

    def change(self) -> None:
        """Change a row of a random table."""
        any_of = self._chance.choice
        user_id, device_id = any_of(IDS), any_of(range(12))
        user = {
            "club_id": any_of((*CLUBS, *CLUBS, *CLUBS, "7", None)),
            **{name: any_of((None, "", "x")) for name in ("first_name", "last_name", "email", "phone")},
            "locale": any_of((*LOCALES, 5) if self._chance.random() < 0.1 else LOCALES),
            "time_zone": any_of(ZONES),
            "attributes": {name: any_of(HOSTILE) for name in ATTRIBUTES if self._chance.random() < 0.8},
        }
        rules: tuple[Any, ...] = (None, False, [], {}, {"push": any_of(HOSTILE), "Email": any_of(HOSTILE)})
        settings = {
            "channels": any_of(rules),
            "categories": any_of((*rules, {"news": any_of(HOSTILE)}, {"newsletter ": {"push": False}})),
            "quiet_hours": any_of((None, {"start": "22:00"}, any_of(HOSTILE))),
            "preference_version": any_of((None, 0, 2)),
        }
        device = {
            "user_id": user_id,
            "platform": "ios",
            "token": any_of(("a", "b")),
            "active": any_of((True, True, False)),
        }
        state = {
            "generation": "g1",
            "token": any_of(("a", "b")),
            "enabled": any_of((True, False)),
            "endpoint_arn": None,
        }
        wishes: list[Wish | QuietHoursWish] = [
            Wish("news", "push", any_of((True, False))),
            QuietHoursWish("22:00", "07:00"),
        ]
        changes = PreferenceChanges(user_id=user_id, club_id=7).after(wishes[: any_of((1, 2))], None, 5)
        deleted = {"deleted": True, "deleted_at_ms": 1}
        match any_of(range(16)):
            case 0 | 1 | 2 | 3:
                self.put(USERS, user_id, user)
            case 4:
                self.put(USERS, user_id, deleted)
            case 5 | 6:
                self.put(USER_SETTINGS, user_id, settings)
            case 7:
                self.put(USER_SETTINGS, user_id, deleted)
            case 8:
                self.put(preference_changes.INDEX, user_id, changes.document)
            case 9 | 10:
                self.put(DEVICES, device_id, any_of((device, device, device, deleted)))
            case 11 | 12:
                self.put(device_states.INDEX, device_id, state)
            case 13:
                self.remove(preference_changes.INDEX, user_id)
            case _:
                self.remove(device_states.INDEX, device_id)

    def users(self, club_id: int) -> list[User]:
        rows = {(table, id_): (*document, "users-g1") for (table, id_), document in self._documents.items()}
        found = documents.users_in({key: row for key, row in rows.items() if not row[0].get("deleted")})
        return sorted((user for user in found.values() if user.club_id == club_id), key=lambda user: user.user_id)

    def user_settings(self, user_ids: Sequence[int]) -> dict[int, UserSettings]:
        tables = (USER_SETTINGS, preference_changes.INDEX)
        return documents.merged_settings(
            {
                (t, id_): (*row, f"{t}-g1")
                for (t, id_), row in self._documents.items()
                if t in tables and id_ in user_ids
            }
        )

    def devices(self, user_ids: Sequence[int]) -> dict[int, list[Device]]:
        found: dict[int, list[Device]] = {user_id: [] for user_id in user_ids}
        for (table, id_), (source, _) in self._documents.items():
            if table == DEVICES and source.get("active") and source["user_id"] in found:
                states, _ = self._documents.get((device_states.INDEX, id_), ({}, 0))
                found[source["user_id"]].append(documents.device(id_, source, states, generation="g1"))
        return found


def condition(chance: random.Random, depth: int = 1) -> dict[str, Any]:
    kind = chance.choice(("all", "any", "not", *["field"] * 4)) if depth < 4 else "field"
    if kind == "not":
        return {"not": condition(chance, depth + 1)}
    if kind != "field":
        return {kind: [condition(chance, depth + 1) for _ in range(chance.randrange(1, 4))]}
    field = chance.choice(FIELDS)
    scalars = [each for each in HOSTILE if isinstance(each, str | int | float) and len(str(each)) < 255]
    values = {"locale": LOCALES[1:], "time_zone": ZONES[1:]}.get(field, scalars)
    match chance.choice(("is", "in", "before", "after", "exists", "personal")):
        case "is":
            return {"field": field, "is": chance.choice(values)}
        case "in":
            return {"field": field, "in": [chance.choice(values) for _ in range(3)]}
        case "exists":
            return {"field": field, "exists": chance.choice((True, False))}
        case "personal":
            name = chance.choice(("first_name", "last_name", "email", "phone"))
            return {"field": name, "exists": chance.choice((True, False))}
        case operator:
            return {"field": field, operator: chance.choice((0, 1, 0.5, 2**70, "2026-01-01", "2026-01-01T00:30:00Z"))}


def audience(chance: random.Random) -> Audience:
    document = {"all_users": True} if chance.random() < 0.1 else {"where": condition(chance)}
    excepted = [user_id for user_id in IDS if user_id > 0 and chance.random() < 0.2]
    found, errors = read_audience({**document, "except_users": excepted}, attributes=ATTRIBUTES)
    assert not errors
    return found


def check(rows: Rows, audiences: Audiences, wanted: Audience, club_id: int, after: int) -> None:
    users = rows.users(club_id)
    text = json.dumps(wanted.document)
    later = [user for user in users if user.user_id > after]
    answer = fast_json.parsed(audiences.members("g1", club_id, text, after, FOREVER))
    found = [user.user_id for user in members(wanted, later, rows)]
    assert (answer["user_ids"], answer["up_to"]) == (found, later[-1].user_id if later else after)
    answer = fast_json.parsed(audiences.count("g1", club_id, text, list(CHANNELS), FOREVER))
    pages = [UsersPage([user for user in users if user.user_id > 0], 0)]
    (count,) = counts_of_members(pages, wanted, list(CHANNELS), rows)
    assert (answer["examined"], answer["users"], answer["channels"]) == count


def values_in(audiences: Audiences) -> dict[tuple[int, int], list[Any]]:
    """Return the values in memory by (club, user)."""
    return {
        (club_id, user_id): [audiences._values[name][codes[place]] for name, codes in club.codes.items()]
        for club_id, club in audiences._clubs.items()
        for place, user_id in enumerate(club.ids)
    }


def _rounds(request: pytest.FixtureRequest) -> int:
    return 60 if request.config.getoption("--nightly") else 1


@pytest.mark.kills(guard="directory_state.exceptions")
@pytest.mark.kills(guard="directory_state.counted_exceptions")
@pytest.mark.kills(guard="directory_state.changes_kept")
def test_audience_has_the_users_with_matching_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """With hostile values, damaged and deleted rows, users that move, and more changes than the store keeps."""
    monkeypatch.setattr(store_module, "CHANGES_KEPT", 40)
    for seed in range(_rounds(request)):
        chance = random.Random(seed)  # noqa: S311 - nothing secret
        rows = Rows(tmp_path / str(seed), chance)
        audiences = Audiences(rows.store, ATTRIBUTES)
        for _ in range(40):
            for _ in range(chance.choice((0, 1, 2, 10, 60))):
                rows.change()
            for _ in range(4):
                check(rows, audiences, audience(chance), chance.choice(CLUBS), chance.choice((0, *IDS)))
            anew = Audiences(rows.store, ATTRIBUTES)
            anew.refresh("g1")
            assert values_in(audiences) == values_in(anew)
        rows.store.close()


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    made = Rows(tmp_path / "state", random.Random(1))  # noqa: S311
    yield made
    made.store.close()


EVERYBODY = json.dumps({"all_users": True})


@pytest.mark.kills(guard="directory_state.audience_time")
def test_audience_after_its_time_is_a_retry(rows: Rows) -> None:
    rows.put(USERS, 1, {"club_id": 7})
    with pytest.raises(Retry, match="in time"):
        Audiences(rows.store).count("g1", 7, EVERYBODY, [], 0.0)


def test_audience_may_name_a_category_of_an_operator(rows: Rows) -> None:
    rows.put(USERS, 1, {"club_id": 7})
    rows.put(USERS, 2, {"club_id": 7})
    rows.put("user_settings", 2, {"categories": {"Offers": True}})
    audience = json.dumps({"where": {"field": "settings.categories.offers", "is": True}})
    answer = fast_json.parsed(Audiences(rows.store).members("g1", 7, audience, 0, FOREVER))
    assert answer["user_ids"] == [2]


def test_changed_state_of_a_device_is_seen(rows: Rows) -> None:
    rows.put(USERS, 1, {"club_id": 7})
    rows.put(DEVICES, 5, {"user_id": 1, "platform": "ios", "token": "a", "active": True})
    audiences = Audiences(rows.store)

    def counted() -> int:
        answer = fast_json.parsed(audiences.count("g1", 7, EVERYBODY, ["push"], FOREVER))
        return int(answer["channels"]["push"])

    assert counted() == 1
    rows.put(device_states.INDEX, 5, {"generation": "g1", "token": "a", "enabled": False})
    assert counted() == 0
    rows.remove(device_states.INDEX, 5)
    assert counted() == 1


def test_unused_values_are_forgotten(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an attribute that changes with each visit would use up the memory."""
    monkeypatch.setattr("directory_state.audiences._UNUSED_VALUES", 10)
    audiences = Audiences(rows.store, ATTRIBUTES)
    for number in range(100):
        rows.put(USERS, 1, {"club_id": 7, "attributes": {"points": number}})
        audiences.refresh("g1")
        assert len(audiences._values["attributes.points"]) <= 12


def test_ended_process_is_replaced_and_a_busy_one_ended(rows: Rows) -> None:
    rows.put(USERS, 1, {"club_id": 7})
    process = AudienceProcess(rows.folder)

    def counted() -> int | None:
        try:
            answer = process.submit("count", "g1", 7, EVERYBODY, [], FOREVER).result(60)
        except BrokenProcessPool:
            return None
        return int(fast_json.parsed(answer)["users"])

    assert counted() == 1
    (pid,) = process._pool._processes
    os.kill(pid, signal.SIGKILL)
    rows.put(USERS, 2, {"club_id": 7})
    until("another process counts", lambda: counted() == 2)
    (pid,) = process._pool._processes
    process._pool.submit(time.sleep, 600)
    process.close()
    until("the busy process has ended", lambda: not psutil.pid_exists(pid))
