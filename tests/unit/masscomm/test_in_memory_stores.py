"""A store in memory fails as the server that it replaces."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from masscomm.errors import Retry
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.audit_log.port import AuditLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.delayed_records.port import DelayStore
from masscomm.stores.idempotency_keys.in_memory import InMemoryIdempotencyKeys
from masscomm.stores.idempotency_keys.port import IdempotencyKeys
from masscomm.stores.sends.in_memory import InMemorySends
from masscomm.stores.sends.port import Sends
from masscomm.stores.webhook_endpoints.in_memory import InMemoryWebhookEndpoints
from masscomm.stores.webhook_endpoints.port import WebhookEndpoints

STORES: dict[Any, type[Any]] = {
    AuditLog: InMemoryAuditLog,
    DelayStore: InMemoryDelayStore,
    IdempotencyKeys: InMemoryIdempotencyKeys,
    Sends: InMemorySends,
    WebhookEndpoints: InMemoryWebhookEndpoints,
}
METHODS = [(port, name) for port in STORES for name in vars(port) if not name.startswith("_")]


@pytest.mark.parametrize(("port", "name"), METHODS)
def test_each_method_of_a_failing_store_fails(port: Any, name: str) -> None:
    store = STORES[port]()
    store.failing = Retry("the store does not answer")
    parameters = vars(port)[name].__annotations__.keys() - {"return"}
    arguments = {each: Mock() for each in parameters}
    with pytest.raises(Retry):
        _exhaust(getattr(store, name)(**arguments))


def _exhaust(answer: object) -> None:
    if isinstance(answer, Iterator):
        list(answer)
