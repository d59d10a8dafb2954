"""The function preferences_handler in memory."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from functions.preferences_handler import handler as module
from functions.preferences_handler.read_users import ReadUsers
from functions.preferences_handler.tenant_preferences import TenantPreferencesRoute
from masscomm.clock import Clock
from masscomm.directory.change_preferences import ChangePreferences
from masscomm.directory.document_publisher import InMemoryDocumentPublisher
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.directory.preference_changes import InMemoryPreferenceChanges
from masscomm.directory.tenant_preference_store import InMemoryTenantPreferences
from masscomm.domain.records import PreferenceChanged
from masscomm.domain.users import User
from masscomm.http.rate_limits import RateLimiter
from masscomm.kafka import topics
from masscomm.operations.waiting import Waiting
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.audit_log.port import AuditLog
from masscomm.stores.key_usage.in_memory import InMemoryKeyUsage
from masscomm.stores.request_slots.in_memory import InMemoryRequestSlots
from masscomm.stores.request_slots.port import RequestSlots
from tests.support.harness.chain import Chain, Context
from tests.support.inputs.api_gateway_events import EVERY_CLUB, get

TIMEOUT_S = 29.0
# A user of club 7.
USER = 42
ADA = User(user_id=USER, club_id=7, email="ada@example.org")

type Answered = tuple[int, dict[str, Any]]


def use_case(chain: Chain, directory: InMemoryDirectory, publisher: InMemoryDocumentPublisher) -> ChangePreferences:
    return ChangePreferences(
        directory=directory,
        changes=InMemoryPreferenceChanges(directory.preference_changes),
        publisher=publisher,
        codec=chain.codec,
        producer=chain.producer,
        clock=chain.clock,
    )


def tenant_route(clock: Clock, directory: InMemoryDirectory) -> TenantPreferencesRoute:
    store = InMemoryTenantPreferences(directory.tenant_preferences)
    return TenantPreferencesRoute(directory=directory, store=store, publisher=InMemoryDocumentPublisher(), clock=clock)


def read_users(clock: Clock, directory: InMemoryDirectory, audit_log: AuditLog, slots: RequestSlots) -> ReadUsers:
    return ReadUsers(directory=directory, audit_log=audit_log, clock=clock, waiting=Waiting(clock, slots, 2))


class PreferencesApi(Chain):
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.directory = InMemoryDirectory()
        self.directory.put(ADA)
        self.publisher = InMemoryDocumentPublisher()
        self.use_case = use_case(self, self.directory, self.publisher)
        self.tenants = InMemoryTenantPreferences(self.directory.tenant_preferences)
        route = TenantPreferencesRoute(
            directory=self.directory, store=self.tenants, publisher=self.publisher, clock=self.clock
        )
        self.audit_log = InMemoryAuditLog()
        self.slots = InMemoryRequestSlots()
        reading = read_users(self.clock, self.directory, self.audit_log, self.slots)
        self.usage = InMemoryKeyUsage()
        limiter = RateLimiter(usage=self.usage, clock=self.clock)
        monkeypatch.setattr(module, "bootstrap", lambda: self.use_case)
        monkeypatch.setattr(module, "reading", lambda: reading)
        monkeypatch.setattr(module, "tenant_preferences", lambda: route)
        monkeypatch.setattr(module.api, "_limiter", lambda: limiter)

    def respond(self, method: str, path: str, **values: Any) -> dict[str, Any]:
        """Return the proxy response to a request; `values` are parts of the event."""
        event = get(path) | {"httpMethod": method} | values
        return module.handler(event, Context(self.clock, TIMEOUT_S))

    def read(self, path: str, authorizer: Mapping[str, str], **parameters: str) -> Answered:
        """Return (status, body) of a GET with these query parameters."""
        query = {name: [value] for name, value in parameters.items()}
        context = {"authorizer": authorizer}
        answer = self.respond("GET", path, multiValueQueryStringParameters=query, requestContext=context)
        return answer["statusCode"], json.loads(answer["body"])

    def call(
        self, method: str, body: Any = None, *, user_id: object = USER, authorizer: dict[str, str] | None = None
    ) -> Answered:
        """Return (status, body) of a request about a user's preferences."""
        answer = self.respond(
            method,
            f"/v1/users/{user_id}/preferences",
            body=body if isinstance(body, str | None) else json.dumps(body),
            requestContext={"authorizer": authorizer or EVERY_CLUB},
        )
        return answer["statusCode"], json.loads(answer["body"])

    def put(self, **body: Any) -> Answered:
        return self.call("PUT", body)

    def records(self) -> list[PreferenceChanged]:
        values = self.values(topics.PREFERENCE_CHANGE)
        return [PreferenceChanged.from_avro(self.codec.decode("PreferenceChanged", value)) for value in values]
