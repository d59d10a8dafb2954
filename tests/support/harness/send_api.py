import json
from typing import Any

import pytest

from functions.send_handler import handler as module
from functions.send_handler import previews
from functions.send_handler.dry_run import DryRunSend
from functions.send_handler.registration import Registration
from functions.send_handler.request_once import RequestOnce
from functions.send_handler.request_send import RequestSend
from functions.send_handler.schedules import SchedulesRoute
from functions.send_handler.send_warnings import SendWarnings
from functions.send_handler.sender_checks import SenderChecks
from masscomm.clock import Clock
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.directory.port import Directory
from masscomm.domain.email_settings import read_emails
from masscomm.domain.records import SendRequested
from masscomm.http.rate_limits import RateLimiter
from masscomm.http.unused_content import ContentChecks
from masscomm.kafka import topics
from masscomm.rendering.templates import TemplateCache
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.audit_log.port import AuditLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.delayed_records.port import DelayStore
from masscomm.stores.frequency_caps.in_memory import InMemoryFrequencyCaps
from masscomm.stores.idempotency_keys.in_memory import InMemoryIdempotencyKeys
from masscomm.stores.key_usage.in_memory import InMemoryKeyUsage
from masscomm.stores.request_slots.in_memory import InMemoryRequestSlots
from masscomm.stores.saved_audiences.in_memory import InMemorySavedAudiences
from masscomm.stores.saved_audiences.port import SavedAudiences
from masscomm.stores.schedules.in_memory import InMemorySchedules
from masscomm.stores.schedules.port import Schedules
from masscomm.stores.sends.in_memory import InMemorySends
from masscomm.stores.sends.port import Sends
from tests.support.harness.chain import Chain, Context
from tests.support.harness.slots import use_slots
from tests.support.inputs.api_gateway_events import EVERY_CLUB

VALID: dict[str, Any] = {"type": "news", "club_id": 7, "to_users": [1, 2, 3]}
# The time limit of the function in functions/functions.yaml.
TIMEOUT_S = 29.0

type Answered = tuple[int, dict[str, Any], dict[str, Any]]


def use_cases(
    chain: Chain,
    keys: InMemoryIdempotencyKeys,
    audit_log: AuditLog | None = None,
    sends: InMemorySends | None = None,
    directory: Directory | None = None,
    saved: SavedAudiences | None = None,
    schedules: Schedules | None = None,
    delayed: DelayStore | None = None,
    senders: SenderChecks | None = None,
) -> module.UseCases:
    """Return the use cases of the function, with in-memory topics and an in-memory store of idempotency keys."""
    requests = RequestSend(
        codec=chain.codec,
        producer=chain.producer,
        clock=chain.clock,
        registration=Registration(sends=sends or InMemorySends(chain.clock)),
        audit_log=audit_log or InMemoryAuditLog(),
    )
    templates = TemplateCache(directory or InMemoryDirectory(ready=False), chain.clock, keep_empty=True)
    saved = saved or InMemorySavedAudiences()
    return module.UseCases(
        requests=requests,
        once=RequestOnce(keys=keys, clock=chain.clock),
        warnings=SendWarnings(lambda: ContentChecks(templates)),
        senders=senders or SenderChecks(lambda: read_emails({}), lambda: None),  # type: ignore[arg-type, return-value]
        saved_audiences=saved,
        schedules=SchedulesRoute(
            store=schedules or InMemorySchedules(),
            saved_audiences=saved,
            delay_store=delayed or InMemoryDelayStore(),
            codec=chain.codec,
            clock=chain.clock,
        ),
    )


def dry_runs(clock: Clock, directory: Directory, sends: Sends | None = None) -> DryRunSend:
    """Return the use case of dry runs."""
    templates = TemplateCache(directory, clock, keep_empty=True)
    return DryRunSend(
        directory=directory,
        templates=templates,
        clock=clock,
        sends=sends or InMemorySends(clock),
        frequency_caps=InMemoryFrequencyCaps(),
    )


class SendApi(Chain):
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.keys = InMemoryIdempotencyKeys()
        self.register = InMemorySends(self.clock)
        self.audit_log = InMemoryAuditLog()
        # Without a complete snapshot, responses have no warnings.
        self.directory = InMemoryDirectory(ready=False)
        self.slots = InMemoryRequestSlots()
        self.saved_audiences = InMemorySavedAudiences()
        self.schedules, self.delayed = InMemorySchedules(), InMemoryDelayStore()
        self.use_cases = use_cases(
            self,
            self.keys,
            self.audit_log,
            self.register,
            self.directory,
            self.saved_audiences,
            self.schedules,
            self.delayed,
        )
        self.dry_runs = dry_runs(self.clock, self.directory, self.register)
        self.usage = InMemoryKeyUsage()
        limiter = RateLimiter(usage=self.usage, clock=self.clock)
        monkeypatch.setattr(module, "bootstrap", lambda: self.use_cases)
        monkeypatch.setattr(previews, "dry_runs", lambda: self.dry_runs)
        monkeypatch.setattr(previews, "saved_audiences", lambda: self.saved_audiences)
        use_slots(monkeypatch, self.clock, self.slots)
        for each in (module, previews):
            monkeypatch.setattr(each.api, "_limiter", lambda: limiter)

    def call(
        self,
        body: str | None,
        *,
        method: str = "POST",
        path: str = "/v1/sends",
        is_base64: bool = False,
        authorizer: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        several: dict[str, list[str]] | None = None,
        query: dict[str, str] | None = None,
    ) -> Answered:
        """Return (status, body, headers) of a request. `several` has headers with all of their values."""
        event: dict[str, Any] = {
            "resource": path,
            "path": path,
            "httpMethod": method,
            "headers": {"Content-Type": "application/json", **(headers or {})},
            "multiValueHeaders": {"Content-Type": ["application/json"], **(several or {})},
            "queryStringParameters": query,
            "multiValueQueryStringParameters": None,
            "pathParameters": None,
            "stageVariables": None,
            "requestContext": {
                "authorizer": EVERY_CLUB if authorizer is None else authorizer,
                "requestId": "r",
                "path": path,
                "httpMethod": method,
                "stage": "v1",
            },
            "body": body,
            "isBase64Encoded": is_base64,
        }
        serving = previews if (method, path) in previews.api.routes else module
        answer = serving.handler(event, Context(self.clock, TIMEOUT_S))
        answered = {name: values[0] for name, values in answer["multiValueHeaders"].items()}
        return answer["statusCode"], json.loads(answer["body"]), answered

    def valid(self, **values: Any) -> dict[str, Any]:
        """Return the body of a valid request, changed by these values."""
        return VALID | values

    def post(self, **values: Any) -> Answered:
        """Send a valid request, changed by these values."""
        return self.call(json.dumps(self.valid(**values)))

    def post_with(self, key: str, **values: Any) -> Answered:
        """Send a valid request, changed by these values, with an Idempotency-Key."""
        return self.call(json.dumps(VALID | values), headers={"Idempotency-Key": key})

    def sends(self, topic: str = topics.SEND_API) -> list[SendRequested]:
        return self._decoded(SendRequested, topic)
