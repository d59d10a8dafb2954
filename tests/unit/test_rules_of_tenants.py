"""The rules of a tenant hold in the check of preferences and before publishing."""

from typing import Any

import pytest

from masscomm.domain.tenant_preferences import EVERY_CLUB, TenantPreferences
from masscomm.domain.users import UserSettings
from tests.support.harness.chain import NOW, delivery, results_of, send
from tests.support.harness.delivery import Delivery
from tests.support.harness.preference_checker import Checker

NO_PUSH: dict[str, Any] = TenantPreferences(club_id=7, channels={"push": False}, categories={}, version=NOW).document
WANTS_NEWS = UserSettings(user_id=2, categories={"match_reminder": True, "news": True, "announcement": True})


@pytest.mark.parametrize("club_id", [7, EVERY_CLUB])
def test_rule_of_a_tenant_suppresses_all_without_consent(club_id: int) -> None:
    checker = Checker()
    checker.directory.put(WANTS_NEWS)
    checker.directory.tenant_preferences[club_id] = NO_PUSH
    assert checker.check(send([1, 2])) == []
    assert results_of(checker.outcomes()) == {(1, "push"): ("suppressed", "opted_out")}
    (result,) = checker.outcomes()[0].results
    layer = "tenant" if club_id else "global"
    assert (result.layer, result.rule, result.settings_version) == (layer, "channel:push", NOW)
    assert [build.user_ids for build in checker.builds()] == [[2]]


def test_rule_of_another_tenant_suppresses_no_user() -> None:
    checker = Checker()
    checker.directory.tenant_preferences[8] = NO_PUSH
    assert checker.check(send([1, 2])) == []
    assert [list(build.user_ids) for build in checker.builds()] == [[1, 2]]


def test_record_is_held_while_rules_cannot_be_read() -> None:
    checker = Checker()
    checker.directory.tenant_preferences[7] = {**NO_PUSH, "version": "1"}
    assert checker.check(send([1, 2])) != []
    assert (checker.builds(), checker.outcomes()) == ([], [])
    checker.directory.tenant_preferences[7] = NO_PUSH
    checker.check(send([1, 2]))
    assert checker.builds() == []


@pytest.mark.kills(guard="preferences.tenant_before_publishing")
def test_rule_newer_than_the_decision_is_honoured() -> None:
    chain = Delivery()
    chain.directory.put(WANTS_NEWS)
    chain.directory.tenant_preferences[7] = NO_PUSH
    assert chain.deliver(delivery([1, 2])) == []
    assert results_of(chain.outcomes())[1, "push"] == ("suppressed", "opted_out")
    assert results_of(chain.outcomes())[2, "push"] == ("sent", None)


def test_nothing_is_published_while_rules_cannot_be_read() -> None:
    chain = Delivery()
    chain.directory.tenant_preferences[EVERY_CLUB] = {"club_id": EVERY_CLUB}
    chain.deliver(delivery([1, 2]))
    assert chain.published_arns() == []
