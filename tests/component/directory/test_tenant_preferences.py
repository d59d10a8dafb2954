"""The store of tenants' rules in OpenSearch fulfils the contract."""

import pytest

from masscomm.directory.tenant_preference_store import OpenSearchTenantPreferences
from tests.support.contracts.tenant_preferences import TenantPreferenceStoreContract
from tests.support.servers.directory_tables import OpenSearchTables


class TestOpenSearchTenantPreferences(TenantPreferenceStoreContract):
    @pytest.fixture
    def store(self, tables: OpenSearchTables) -> OpenSearchTenantPreferences:
        return OpenSearchTenantPreferences(tables.client)
