"""The contract of the stores of tenants' rules."""

from dataclasses import replace

from masscomm.directory.tenant_preference_store import TenantPreferenceStore
from masscomm.domain.tenant_preferences import TenantPreferences

RULES = TenantPreferences(club_id=8_471, channels={"push": False}, categories={"news": {"email": True}}, version=5)


class TenantPreferenceStoreContract:
    def test_no_rules_are_read_before_the_first(self, store: TenantPreferenceStore) -> None:
        assert store.read(8_471) is None

    def test_written_rules_are_read_at_once(self, store: TenantPreferenceStore) -> None:
        assert store.write(RULES, after=None)
        found = store.read(8_471)
        assert found is not None
        assert found.preferences == RULES
        assert store.read(8_472) is None

    def test_change_needs_the_rules_as_they_were_read(self, store: TenantPreferenceStore) -> None:
        assert store.write(RULES, after=None)
        assert not store.write(replace(RULES, version=6), after=None)
        first = store.read(8_471)
        assert store.write(replace(RULES, version=7), after=first)
        assert not store.write(replace(RULES, version=8), after=first)
        found = store.read(8_471)
        assert found is not None
        assert found.preferences is not None
        assert found.preferences.version == 7
