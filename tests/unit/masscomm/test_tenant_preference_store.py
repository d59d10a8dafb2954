"""The store of tenants' rules in memory fulfils the contract."""

import pytest

from masscomm.directory.tenant_preference_store import InMemoryTenantPreferences
from tests.support.contracts.tenant_preferences import TenantPreferenceStoreContract


class TestInMemoryTenantPreferences(TenantPreferenceStoreContract):
    @pytest.fixture
    def store(self) -> InMemoryTenantPreferences:
        return InMemoryTenantPreferences()
