"""Suppressions over HTTP: a caller reads and removes those of its clubs."""

from typing import Any

import pytest

from functions.operations_handler import handler as operations_handler
from functions.operations_handler.routes.suppressions import SuppressionsRoute
from masscomm.clock import FixedClock
from masscomm.directory.suppression_list import InMemorySuppressionList
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS, Clubs
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from tests.support.contracts.suppression_list import HASH, OTHER_HASH, suppression

SEVEN = Clubs(frozenset({7}))


class Setting:
    """Suppressions of the clubs 7 and 8."""

    def __init__(self) -> None:
        self.list = InMemorySuppressionList([suppression(7), suppression(8, HASH), suppression(7, OTHER_HASH)])
        self.route, self.audit_log = SuppressionsRoute(self.list), InMemoryAuditLog()
        self.audit = operations_handler.audits(self.audit_log, FixedClock())("k7")

    def ids(self, clubs: Clubs = SEVEN, **parameters: Any) -> list[str]:
        body = self.route.answer({name: [str(value)] for name, value in parameters.items()}, clubs)
        return [row["id"] for row in body["rows"]]


@pytest.fixture
def setting() -> Setting:
    return Setting()


@pytest.mark.guarantee("suppressions.own_tenant_only")
@pytest.mark.kills(guard="tenancy.suppressions")
def test_a_caller_reads_the_suppressions_of_its_clubs(setting: Setting) -> None:
    assert setting.ids() == [f"7-{OTHER_HASH}", f"7-{HASH}"]
    assert setting.ids(ALL_CLUBS) == [f"7-{OTHER_HASH}", f"8-{HASH}", f"7-{HASH}"]
    assert setting.ids(ALL_CLUBS, club_id=8, address_id=HASH) == [f"8-{HASH}"]
    with pytest.raises(Problem) as raised:
        setting.ids(club_id=8)
    assert raised.value.status == 403


def test_pages_of_suppressions_continue_by_cursor(setting: Setting) -> None:
    first = setting.route.answer({"limit": ["1"]}, SEVEN)
    assert first["truncated"]
    assert setting.ids(limit=1, cursor=first["next_cursor"]) == [f"7-{HASH}"]
    with pytest.raises(Problem, match="cursor"):
        setting.ids(limit=1, cursor=first["next_cursor"], address_id=HASH)


def test_a_removed_suppression_is_audited(setting: Setting) -> None:
    body = setting.route.remove(f"7-{HASH}", SEVEN, setting.audit)
    assert body == {"id": f"7-{HASH}", "status": "removed"}
    assert setting.ids() == [f"7-{OTHER_HASH}"]
    (entry,) = setting.audit_log.entries
    assert (entry.action, entry.club_id, entry.principal, entry.subject) == ("suppression.removed", 7, "k7", HASH)


@pytest.mark.kills(guard="tenancy.removed_suppression")
@pytest.mark.parametrize("id_", [f"8-{HASH}", HASH, f"7-{'0' * 64}", "7", f"7-{HASH}x", f"-{HASH}", f"007-{HASH}"])
def test_other_and_unknown_suppressions_are_not_removed(setting: Setting, id_: str) -> None:
    with pytest.raises(Problem, match="unknown") as raised:
        setting.route.remove(id_, SEVEN, setting.audit)
    assert raised.value.status == 404
    assert len(setting.ids(ALL_CLUBS)) == 3
    assert setting.audit_log.entries == []


@pytest.mark.parametrize("parameters", [{"address_id": "ada@example.org"}, {"club_id": "x"}, {"cursor": "x"}, {"a": 1}])
def test_wrong_parameters_are_named(setting: Setting, parameters: dict[str, Any]) -> None:
    with pytest.raises(Problem) as raised:
        setting.ids(**parameters)
    assert (raised.value.status, [error.field for error in raised.value.errors]) == (400, list(parameters))
