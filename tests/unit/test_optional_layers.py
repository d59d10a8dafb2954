"""Settings of users for one tenant, and rules of tenants, in tables of the monolith, are read where they are mapped."""

from collections.abc import Iterator
from typing import Any

import pytest

from masscomm.domain.users import DirectoryPosition, UserSettings
from tests.support.harness.chain import NOW, delivery, results_of, send
from tests.support.harness.delivery import Delivery
from tests.support.harness.preference_checker import Checker
from tests.support.inputs.optional_tables import ENTRIES, mapped

NO_PUSH: dict[str, Any] = {"channels": {"push": False}, "categories": {}}
OWN, OF_CLUB = ("tenant_user_settings", "1:7"), ("tenant_settings", "7")


@pytest.fixture
def _mapped() -> Iterator[None]:
    with mapped(*ENTRIES):
        yield


@pytest.mark.usefixtures("_mapped")
def test_settings_for_the_club_precede_the_users_own() -> None:
    checker = Checker()
    checker.directory.put(UserSettings(user_id=1, channels={"push": True}), UserSettings(user_id=2))
    checker.directory.rows = {OWN: NO_PUSH, ("tenant_user_settings", "2:8"): NO_PUSH}
    assert checker.check(send([1, 2])) == []
    assert results_of(checker.outcomes()) == {(1, "push"): ("suppressed", "opted_out")}
    assert checker.outcomes()[0].results[0].layer == "tenant_user"
    assert [build.user_ids for build in checker.builds()] == [[2]]


@pytest.mark.usefixtures("_mapped")
def test_mapped_rules_of_the_club_apply() -> None:
    checker = Checker()
    checker.directory.rows = {OF_CLUB: NO_PUSH}
    assert checker.check(send([1, 2])) == []
    assert {result.layer for outcome in checker.outcomes() for result in outcome.results} == {"tenant"}
    assert checker.builds() == []


@pytest.mark.parametrize("table", ["tenant_user_settings", "tenant_settings"])
@pytest.mark.kills(guard="preferences.missing_layers")
def test_missing_row_of_a_mapped_table_is_confirmed(table: str) -> None:
    """A row that another transaction committed before the send may not have arrived."""
    for is_mapped in (True, False):
        with mapped(*((table,) if is_mapped else ())):
            checker = Checker()
            checker.directory.put(UserSettings(user_id=1), UserSettings(user_id=2))
            checker.directory.caught_up = DirectoryPosition(lsn=1, ts_ms=NOW - 60_000)
            checker.check(send([1, 2]))
            assert bool(checker.builds()) is not is_mapped


@pytest.mark.usefixtures("_mapped")
@pytest.mark.kills(guard="preferences.tenant_user_before_publishing")
def test_settings_for_the_club_are_read_before_publishing() -> None:
    chain = Delivery()
    chain.directory.rows = {OWN: NO_PUSH}
    assert chain.deliver(delivery([1, 2])) == []
    assert results_of(chain.outcomes())[1, "push"] == ("suppressed", "opted_out")
    assert results_of(chain.outcomes())[2, "push"] == ("sent", None)


def test_unmapped_tables_are_not_read() -> None:
    checker = Checker()
    checker.directory.rows = {OWN: NO_PUSH, OF_CLUB: NO_PUSH}
    assert checker.check(send([1, 2])) == []
    assert [build.user_ids for build in checker.builds()] == [[1, 2]]
