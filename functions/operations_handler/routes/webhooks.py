"""The endpoints of webhooks and their deliveries.

GET, POST /v1/webhooks                              list and create endpoints
GET, PATCH, DELETE /v1/webhooks/{endpoint_id}       read, change, enable, disable and delete one
POST /v1/webhooks/{endpoint_id}/rotate              a new secret; the previous one also signs for 24 hours
POST /v1/webhooks/{endpoint_id}/test                send the event webhook.test
POST /v1/webhooks/{endpoint_id}/test/{event_type}   send the example of an event type to which it subscribes
GET /v1/webhooks/{endpoint_id}/deliveries           its deliveries by its log, the latest first
POST /v1/webhooks/{endpoint_id}/deliveries/{delivery_id}/resend

An endpoint of another club and an unknown one have the same response.
"""

import hmac
import json
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NotRequired, TypedDict
from uuid import uuid4

from functions.operations_handler.routes import webhook_authentication
from masscomm.aws.sealed_secrets import SecretBox
from masscomm.chain.publish_subscriptions import PublishSubscriptions
from masscomm.chain.waiting_messages import WaitingMessage, WaitingMessages
from masscomm.channels.public_urls import UrlRefused, checked
from masscomm.channels.signing_keys import SigningKeys
from masscomm.clock import Clock
from masscomm.domain.audit import Action
from masscomm.domain.aws_targets import ROLE_PREFIX, AwsTarget, role_account, target_of
from masscomm.domain.events import is_event_id, is_event_type, patterns_of, with_fields
from masscomm.domain.ids import event_message_id, own_event_id
from masscomm.domain.limits import LARGEST_ID
from masscomm.domain.own_events import OWN_EVENTS
from masscomm.domain.records import EventOccurred
from masscomm.domain.subscriptions import SubscriptionKey, implicit_subscription
from masscomm.domain.time_limits import EVENT_LEAST_WAIT_S, EVENT_MOST_WAIT_S, WEBHOOK_DEAD_LETTERS_KEPT_S
from masscomm.domain.webhook_authentication import Authentication, AuthenticationType, sealing_context, server_of
from masscomm.domain.webhook_signatures import secret_of
from masscomm.domain.webhooks import (
    LEAST_BYTES,
    MAX_BYTES,
    MAX_CONCURRENCY,
    MAX_COUNT,
    MAX_DESCRIPTION,
    MAX_ENDPOINTS,
    MAX_RATE,
    AttemptResult,
    BodyFormat,
    DeliveryStatus,
    Endpoint,
    EndpointKey,
    EventType,
)
from masscomm.errors import Retry
from masscomm.fast_json import encoded
from masscomm.http import parameters as parse
from masscomm.http.body import check_empty, read_object, undefined_fields
from masscomm.http.cursor import encode_cursor, position_in
from masscomm.http.endpoints import endpoint_key, unknown_endpoint
from masscomm.http.idempotency import digest_of, key_digest, other_request
from masscomm.http.parameters import Reader, rfc3339, time_of_ms
from masscomm.http.problem import FieldError, Problem, unusable
from masscomm.http.requested_clubs import seen
from masscomm.http.tenant import Clubs, parse_club_id
from masscomm.observability import logs
from masscomm.operations.webhook_log import log_key, log_position
from masscomm.stores.audit_log.port import Audit
from masscomm.stores.event_ids.port import EventIds, EventKey
from masscomm.stores.event_types.port import EventTypes
from masscomm.stores.metrics.port import MetricsStore, WebhookLogQuery, WebhookLogRow
from masscomm.stores.subscriptions.port import Unpublished
from masscomm.stores.webhook_dead_letters.port import WebhookDeadLetters, letter_id
from masscomm.stores.webhook_endpoints.port import CreationRequest, TooManyEndpoints, WebhookEndpoints
from masscomm.texts import Text

logger = logs.logger("operations_handler")

DEFAULT_LIMIT, MAX_LIMIT = 50, 200
# The clubs whose endpoints one page lists.
_CLUBS_OF_PAGE = 20
PARAMETERS = ("club_id", "cursor")
DELIVERY_PARAMETERS = ("limit", "cursor")
_CHANGE_ATTEMPTS = 5
# The attempts that a delivery lists.
LISTED_ATTEMPTS = 10
_STATUSES = {
    AttemptResult.DELIVERED: DeliveryStatus.SUCCEEDED,
    AttemptResult.RETRIED: DeliveryStatus.PENDING,
    AttemptResult.GIVEN_UP: DeliveryStatus.FAILED,
}
# The settings that are whole numbers, each with its limits.
_SETTINGS = {
    "max_count": (1, MAX_COUNT),
    "max_bytes": (LEAST_BYTES, MAX_BYTES),
    "max_wait_s": (1, EVENT_MOST_WAIT_S),
    "max_concurrency": (1, MAX_CONCURRENCY),
    "rate_per_s": (1, MAX_RATE),
    "contact_user_id": (1, LARGEST_ID),
}
# Those that may be null.
_OPTIONAL = ("rate_per_s", "contact_user_id")


class WebhookBody(TypedDict):
    """An endpoint, without its secret."""

    id: str
    club_id: int
    url: str
    event_types: list[EventType]
    """Empty: every type."""
    description: str
    max_count: int
    """The most messages with events of a request: 1 to 1,000. With more than one, the body is a list of them."""
    max_bytes: int
    """The most bytes of a request with several messages: 1,000 to 1,000,000. A larger message goes alone."""
    max_wait_s: int
    """The most seconds that a message waits for others of its request: 1, or 60 to 3,600."""
    ordered: bool
    """Whether a message waits until those before it with the same `key` are accepted or given up."""
    max_concurrency: int
    """The most concurrent requests with events: 1 to 32."""
    rate_per_s: int | None
    """The most messages with events a second: 1 to 10,000; null: no limit."""
    format: BodyFormat
    """The form of events of systems; those of sends have the form `masscomm`."""
    role_arn: str | None
    """The role with which messages are sent to a queue or an event bus; null: the URL is a server's."""
    external_id: str | None
    """The external id that the trust policy of the role must require."""
    contact_user_id: int | None
    """The user of the tenant who gets an e-mail when masscomm disables it; null: no e-mail is sent."""
    enabled: bool
    disabled_reason: str | None
    """Why masscomm disabled it; null if it is enabled, or disabled by a request."""
    failing_since: str | None
    """The first failed attempt since the last successful one."""
    previous_secret_until: str | None
    """The time until which the previous secret also signs."""
    authentication: webhook_authentication.AuthenticationBody | None
    """Null: requests have their signature only."""
    created_at: str


class NewWebhookBody(TypedDict):
    """An endpoint with its secret."""

    secret: str
    """The secret with which its webhooks are signed. No other response contains it."""
    endpoint: WebhookBody


class WebhooksBody(TypedDict):
    """Endpoints by club, in the order of their creation."""

    rows: list[WebhookBody]
    truncated: bool
    """Whether there are more clubs."""
    next_cursor: str | None


class CreateWebhookRequest(TypedDict):
    """A new endpoint."""

    club_id: int
    url: str
    """An address with https in the Internet, or the ARN of an SQS queue or of an EventBridge event bus."""
    event_types: NotRequired[list[EventType]]
    """Empty or missing: every type."""
    description: NotRequired[str]
    max_count: NotRequired[int]
    """The most messages with events of a request: 1 (the default) to 1,000."""
    max_bytes: NotRequired[int]
    """The most bytes of a request with several messages: 1,000 to 1,000,000, by default 256,000."""
    max_wait_s: NotRequired[int]
    """The most seconds that a message waits for others of its request: 1 (the default), or 60 to 3,600."""
    ordered: NotRequired[bool]
    """Whether a message waits until those before it with the same `key` are accepted or given up; by default not."""
    max_concurrency: NotRequired[int]
    """The most concurrent requests with events: 1 to 32, by default 8."""
    rate_per_s: NotRequired[int | None]
    """The most messages with events a second: 1 to 10,000; null or missing: no limit."""
    format: NotRequired[BodyFormat]
    """The form of events of systems: `masscomm` (the default), or CloudEvents 1.0 in the structured form."""
    role_arn: NotRequired[str | None]
    """For an ARN: the role in its account that masscomm assumes; its name begins with `masscomm-`."""
    authentication: NotRequired[webhook_authentication.AuthenticationFields | None]
    """Null or missing: requests have their signature only."""
    contact_user_id: NotRequired[int | None]
    """The user of the tenant who gets an e-mail when masscomm disables it; null or missing: no e-mail is sent."""


class ChangeWebhookRequest(TypedDict):
    """The fields that change."""

    url: NotRequired[str]
    event_types: NotRequired[list[EventType]]
    description: NotRequired[str]
    max_count: NotRequired[int]
    max_bytes: NotRequired[int]
    max_wait_s: NotRequired[int]
    ordered: NotRequired[bool]
    max_concurrency: NotRequired[int]
    rate_per_s: NotRequired[int | None]
    """Null: no limit."""
    format: NotRequired[BodyFormat]
    role_arn: NotRequired[str | None]
    authentication: NotRequired[webhook_authentication.AuthenticationFields | None]
    """The previous one is used for 24 hours for requests that are refused. Null: none, at once."""
    contact_user_id: NotRequired[int | None]
    """Null: no e-mail is sent."""
    enabled: NotRequired[bool]


class DeletedWebhookBody(TypedDict):
    """A deleted endpoint."""

    id: str
    status: Literal["deleted"]


class AttemptBody(TypedDict):
    """One attempt of a delivery."""

    at: str
    duration_ms: int
    status: int | None
    """The status of the response; null if there was none."""
    error: str | None
    """Why there was no response, or no attempt."""
    body: str
    """Empty: the response's body is not kept."""


class DeliveryBody(TypedDict):
    """The delivery of one event to one endpoint."""

    id: str
    event_id: str
    """The value of the header webhook-id, in each request with this message only."""
    event_type: str
    at: str
    """The time of the event, or of its first attempt."""
    status: DeliveryStatus
    attempts: int
    next_attempt_at: str | None
    """Null: unknown."""
    last_attempts: list[AttemptBody]
    """The latest first."""


class DeliveriesBody(TypedDict):
    """Deliveries, the latest first."""

    rows: list[DeliveryBody]
    truncated: bool
    """Whether the list continues. A page may have fewer rows than its limit: follow next_cursor."""
    next_cursor: str | None


@dataclass(frozen=True, kw_only=True)
class WebhooksRoute:
    endpoints: WebhookEndpoints
    event_ids: EventIds
    event_types: EventTypes
    # The log of attempts.
    log: MetricsStore
    dead_letters: WebhookDeadLetters
    waiting: WaitingMessages
    publishing: PublishSubscriptions
    # Seals the credentials of endpoints. It cannot open them in a deployment.
    box: SecretBox
    keys: SigningKeys
    clock: Clock
    # Whether servers on this machine are permitted, for the local stack.
    loopback: bool = False

    def answer(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> WebhooksBody:
        """Return the endpoints of the caller's clubs. Raises Problem (400, 403) or Retry."""
        read = Reader(parameters, PARAMETERS)
        asked = read.several("club_id", parse_club_id)
        cursor = read.single("cursor", parse.cursor)
        if clubs.every and not read.given("club_id"):
            read.refuse("club_id", Text.CLUB_MISSING.filled())
        read.check()
        chosen = sorted(seen(asked, clubs))  # guard: tenancy.webhooks
        after = None if cursor is None else position_in(cursor, chosen, read, _club)
        left = [club_id for club_id in chosen if after is None or club_id > after]
        page, more = left[:_CLUBS_OF_PAGE], len(left) > _CLUBS_OF_PAGE
        return {
            "rows": [row for club_id in page for row in self.of_club(club_id)],
            "truncated": more,
            "next_cursor": encode_cursor(chosen, page[-1]) if more else None,
        }

    def of_club(self, club_id: int) -> list[WebhookBody]:
        """Return the endpoints of a club that the caller may see. Raises Retry."""
        return [_row(each) for each in self.endpoints.of_club(club_id)]

    def show(self, endpoint_id: str, clubs: Clubs) -> WebhookBody:
        """Return an endpoint. Raises Problem with status 404, or Retry."""
        return _row(self._visible(endpoint_id, clubs))

    def create(
        self, content: str | None, clubs: Clubs, principal: str, audit: Audit, key: str | None = None
    ) -> tuple[NewWebhookBody, bool]:
        """Store a new endpoint, under an idempotency key if there is one. Return the response body, and whether an
        earlier request of the principal with the key has created the endpoint.

        Raises Problem (400, 403, 409 if the club has too many, 422 for another request with the key, or another
        principal's), or Retry.
        """
        fields = read_object(content)
        errors = self._wrong(fields, CreateWebhookRequest)
        club_id = fields.get("club_id")
        if not isinstance(club_id, int) or isinstance(club_id, bool) or not 1 <= club_id <= LARGEST_ID:
            errors.append(FieldError("club_id", Text.MUST_BE_CLUB.filled()))
        if "url" not in fields:
            errors.append(FieldError("url", Text.MISSING.filled()))
        errors += _role_errors(fields.get("url"), fields.get("role_arn"))
        if errors:
            raise unusable(errors)
        if club_id not in clubs:  # guard: tenancy.created_webhook
            problem = Text.CLUBS_NOT_SEEN.filled(clubs=str(club_id))
            raise Problem(403, Text.CLUB_NOT_PERMITTED.filled(), errors=[FieldError("club_id", problem)])
        club = int(club_id or 0)
        request = self._creation(fields, principal, key)
        endpoint = Endpoint(
            key=EndpointKey.new(club, secrets.token_bytes(32)),
            url=fields["url"],
            event_types=_types(fields.get("event_types", [])),
            description=fields.get("description", ""),
            format=BodyFormat(fields.get("format", BodyFormat.MASSCOMM)),
            **{name: fields[name] for name in _SETTINGS if name in fields},
            created_at_ms=self.clock.now_ms(),
            ordered_since_ms=self.clock.now_ms() if fields.get("ordered") else None,
            key_id=self.keys.now().current,
            role_arn=fields.get("role_arn"),
        )
        _check_order(endpoint)
        endpoint = replace(endpoint, authentication=self._sealed(fields, endpoint))
        body = self._with_secret(endpoint)
        changes = self._mark(endpoint.key)
        try:
            before = self.endpoints.create(endpoint, request)
        except TooManyEndpoints as error:
            raise Problem(409, Text.ENDPOINTS_TOO_MANY.filled(maximum=MAX_ENDPOINTS)) from error
        if before is None:
            self._publish(changes)
            audit(Action.WEBHOOK_CREATED, subject=endpoint.key.id, clubs=[club], detail=_host(endpoint.url))
            return body, False
        if request is None or before.digest != request.digest:  # guard: webhooks.other_request
            raise other_request()
        stored = self.endpoints.find(before.key)
        if stored is None:
            raise Problem(409, Text.ENDPOINT_DELETED.filled())
        return self._with_secret(stored), True

    def _creation(self, fields: Mapping[str, Any], principal: str, key: str | None) -> CreationRequest | None:
        """Return the creation of an endpoint under an idempotency key; None without one."""
        if key is None:
            return None
        # The response to a repeated request has the secret, which is shown only to its maker.
        request = {"fields": self._comparable(fields), "principal": principal}  # guard: webhooks.other_principal
        digest = digest_of("POST", "/v1/webhooks", request)
        return CreationRequest(id=key_digest(key), digest=digest, at_s=self.clock.now_ms() // 1000)

    def _comparable(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields of a request with a keyed digest of the credentials: passwords could be guessed from the
        digest of the request, which is stored.
        """
        if fields.get("authentication") is None:
            return fields
        keys = self.keys.now()
        text = json.dumps(fields["authentication"], sort_keys=True).encode()
        # guard: webhook_authentication.digest
        return {**fields, "authentication": hmac.new(keys.keys[keys.current], text, "sha256").hexdigest()}

    def change(self, endpoint_id: str, content: str | None, clubs: Clubs, audit: Audit) -> WebhookBody:
        """Change fields of an endpoint. Raises Problem (400, 404) or Retry."""
        fields = read_object(content)
        errors = self._wrong(fields, ChangeWebhookRequest)
        if errors:
            raise unusable(errors)

        def changed(endpoint: Endpoint) -> Endpoint:
            new = replace(
                endpoint,
                url=fields.get("url", endpoint.url),
                event_types=_types(fields["event_types"]) if "event_types" in fields else endpoint.event_types,
                description=fields.get("description", endpoint.description),
                format=BodyFormat(fields.get("format", endpoint.format)),
                role_arn=fields.get("role_arn", endpoint.role_arn),
                **{name: fields[name] for name in _SETTINGS if name in fields},
            )
            if wrong := _role_errors(new.url, new.role_arn):
                raise unusable(wrong)
            if fields.get("ordered", endpoint.is_ordered) != endpoint.is_ordered:
                new = replace(new, ordered_since_ms=self.clock.now_ms() if fields["ordered"] else None)
            _check_order(new)
            is_other = server_of(new.url) != server_of(endpoint.url)
            # guard: webhook_authentication.other_server
            if is_other and endpoint.authentication is not None and "authentication" not in fields:
                raise unusable([FieldError("authentication", Text.AUTHENTICATION_OF_OTHER_SERVER.filled())])
            if "authentication" in fields:
                # The previous credentials are sealed for the previous server.
                known = replace(new, authentication=None) if is_other else new
                new = known.authenticated(self._sealed(fields, new), self.clock.now_ms())
            if (new.url, new.role_arn) != (endpoint.url, endpoint.role_arn) or "authentication" in fields:
                new = new.without_failures()
            if "enabled" in fields and fields["enabled"] != endpoint.enabled:
                new = replace(new.without_failures(), enabled=fields["enabled"], disabled_reason="")
                new = replace(new, enabled_at_ms=self.clock.now_ms()) if new.enabled else new
            return new

        changes = self._mark(self._visible(endpoint_id, clubs).key, explicit="max_count" in fields)
        endpoint, _ = self._changed(endpoint_id, clubs, changed)
        self._publish(changes)
        detail = f"{', '.join(sorted(fields))}: {_host(endpoint.url)}, {'enabled' if endpoint.enabled else 'disabled'}"
        audit(Action.WEBHOOK_CHANGED, subject=endpoint_id, clubs=[endpoint.key.club_id], detail=detail)
        return _row(endpoint)

    def delete(self, endpoint_id: str, clubs: Clubs, audit: Audit) -> DeletedWebhookBody:
        """Delete an endpoint with its subscriptions. Raises Problem with status 404, or Retry."""
        endpoint = self._visible(endpoint_id, clubs)
        # Without their endpoint, marked subscriptions are deleted: by this request, or by a sweep if it is killed. The
        # marks after the deletion are of subscriptions that were created meanwhile, too.
        self._mark(endpoint.key, explicit=True)  # guard: subscriptions.marked_before_deletion
        if not self.endpoints.delete(endpoint.key):
            raise unknown_endpoint()
        # guard: subscriptions.marked_after_deletion
        self._publish(self._mark(endpoint.key, explicit=True))
        audit(Action.WEBHOOK_DELETED, subject=endpoint_id, clubs=[endpoint.key.club_id], detail=_host(endpoint.url))
        return {"id": endpoint_id, "status": "deleted"}

    def rotate(
        self, endpoint_id: str, content: str | None, clubs: Clubs, principal: str, audit: Audit, key: str | None = None
    ) -> tuple[NewWebhookBody, bool]:
        """Give an endpoint a new secret; the previous one also signs for 24 hours. Return the response body, and
        whether an earlier request of the principal with the idempotency key has made the secret.

        Raises Problem (400, 404, 422 for another principal's request with the key) or Retry.
        """
        check_empty(content)
        key_id, now_ms = self.keys.now().current, self.clock.now_ms()
        digest = "" if key is None else key_digest(key)
        request = digest_of("POST", f"/v1/webhooks/{endpoint_id}/rotate", {"principal": principal})

        def rotated(endpoint: Endpoint) -> Endpoint:
            # guard: webhooks.rotated_once
            if digest and endpoint.rotation_under(digest, now_ms) is not None:
                return endpoint
            return endpoint.rotated(key_id=key_id, now_ms=now_ms, rotation_digest=digest, rotation_request=request)

        endpoint, is_changed = self._changed(endpoint_id, clubs, rotated)
        if is_changed:
            audit(Action.WEBHOOK_ROTATED, subject=endpoint_id, clubs=[endpoint.key.club_id])
            return self._with_secret(endpoint), False
        made = endpoint.rotation_under(digest, now_ms)
        # The response has the secret, which is shown only to its maker.
        if made is None or made.request != request:  # guard: webhooks.rotation_of_another_principal
            raise other_request()
        return self._with_secret(endpoint, (made.key_id, made.version)), True

    def test(
        self,
        endpoint_id: str,
        content: str | None,
        clubs: Clubs,
        audit: Audit,
        key: str | None = None,
        *,
        event_type: str = EventType.TEST,
    ) -> tuple[DeliveryBody, bool]:
        """Send an endpoint the event webhook.test, or the example of an event type to which it subscribes, within a
        minute. Return its delivery, and whether an earlier request with the idempotency key has sent it. Raises Problem
        (400, 404, 409 if the endpoint is disabled) or Retry.
        """
        check_empty(content)
        endpoint = self._enabled(endpoint_id, clubs)
        club_id, now_ms = endpoint.key.club_id, self.clock.now_ms()
        # guard: webhooks.tested_once
        name = str(uuid4()) if key is None else key_digest(key)
        event = EventOccurred(
            event_id=own_event_id(club_id, endpoint_id, f"{EventType.TEST}/{event_type}/{name}"),
            type=event_type,
            club_id=club_id,
            occurred_at=now_ms,
            data=self._test_data(endpoint, event_type),
        )
        if (before := self._kept(club_id, event.event_id)) is not None:
            return _pending(endpoint, before), True
        self._send(endpoint, event, clubs)
        # A crash in between repeats the event under the same id.
        self.event_ids.keep([event], now_ms // 1000)
        audit(Action.WEBHOOK_TESTED, subject=endpoint_id, clubs=[club_id])
        return _pending(endpoint, event), False

    def _test_data(self, endpoint: Endpoint, event_type: str) -> str:
        """Return the data of a test event, with the fields that the endpoint receives of its type. Raises Problem (404,
        409 if it does not subscribe to the type) or Retry.
        """
        if event_type == EventType.TEST:
            return encoded({"club_id": endpoint.key.club_id, "endpoint_id": endpoint.key.id}).decode()
        described = OWN_EVENTS.get(event_type)
        if described is None and is_event_type(event_type):
            described = self.event_types.find([event_type]).get(event_type)
        if described is None:
            raise Problem(404, Text.EVENT_TYPE_UNKNOWN.filled())
        patterns = set(patterns_of(event_type))
        implicit = implicit_subscription(endpoint)
        subscriptions = [*self.publishing.store.of_endpoint(endpoint.key), *([implicit] if implicit else ())]
        subscribed = [each for each in subscriptions if not patterns.isdisjoint(each.types)]
        if not subscribed:  # guard: webhooks.test_of_a_subscribed_type
            raise Problem(409, Text.TEST_WITHOUT_SUBSCRIPTION.filled())
        every = any(not each.fields for each in subscribed)
        fields = () if every else tuple(dict.fromkeys(path for each in subscribed for path in each.fields))
        return with_fields(encoded(described.example).decode(), fields)

    def list_deliveries(self, endpoint_id: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> DeliveriesBody:
        """Return a page of the deliveries of an endpoint, as its log has them. Raises Problem (400, 403, 404) or
        Retry.
        """
        read = Reader(parameters, DELIVERY_PARAMETERS)
        limit = read.single("limit", _limit) or DEFAULT_LIMIT
        cursor = read.single("cursor", parse.cursor)
        read.check()
        self._visible(endpoint_id, clubs)
        of_clubs = seen((), clubs)
        query = WebhookLogQuery(
            endpoint_id=endpoint_id,
            club_id=of_clubs,  # guard: tenancy.deliveries
            is_latest=True,
            limit=limit,
        )
        if cursor is not None:
            query = replace(query, after=position_in(cursor, endpoint_id, read, log_key))
        page = self.log.webhook_log(query)
        attempts: defaultdict[str, list[WebhookLogRow]] = defaultdict(list)
        if page.rows:
            ids = tuple(row.key.message_id for row in page.rows)
            every = replace(query, is_latest=False, after=None, message_id=ids, limit=LISTED_ATTEMPTS * len(ids))
            for row in self.log.webhook_log(every).rows:
                attempts[row.key.message_id].append(row)
        return {
            "rows": [_delivery(row, attempts[row.key.message_id]) for row in page.rows],
            "truncated": page.more,
            "next_cursor": encode_cursor(endpoint_id, *log_position(page.rows[-1].key)) if page.more else None,
        }

    def resend(
        self,
        endpoint_id: str,
        delivery_id: str,
        content: str | None,
        clubs: Clubs,
        audit: Audit,
        key: str | None = None,
    ) -> tuple[DeliveryBody, bool]:
        """Attempt the delivery of one of masscomm's own events again, now, or of an event with a dead letter, which
        stays until it is acknowledged. Return it, and whether an earlier request with the idempotency key has done so.

        Raises Problem (400, 404, 409 if the endpoint is disabled, 422 for another request with the key) or Retry.
        """
        check_empty(content)
        endpoint, now_ms = self._enabled(endpoint_id, clubs), self.clock.now_ms()
        club_id = endpoint.key.club_id
        event = self._kept(club_id, delivery_id) if is_event_id(delivery_id) else None
        if event is None:
            event = self._given_up(endpoint, delivery_id, clubs)
        request = digest_of("POST", f"/v1/webhooks/{endpoint_id}/deliveries/{delivery_id}/resend", None)
        requested = {EventKey(club_id, f"resend/{key_digest(key)}"): request} if key is not None else {}
        before = self.event_ids.known(requested, now_ms // 1000) if requested else {}
        if before and before != requested:
            raise other_request()
        if event is None:
            raise Problem(404, Text.DELIVERY_UNKNOWN.filled())
        if before:  # guard: webhooks.resent_once
            return _pending(endpoint, event), True
        self._send(endpoint, event, clubs)
        self.event_ids.record(requested, now_ms // 1000)
        audit(Action.WEBHOOK_RESENT, subject=endpoint_id, clubs=[club_id], detail=delivery_id)
        return _pending(endpoint, event), False

    def _given_up(self, endpoint: Endpoint, event: str, clubs: Clubs) -> EventOccurred | None:
        """Return an event of the endpoint's club by its dead letter, which the log names; None if there is none."""
        query = WebhookLogQuery(
            endpoint_id=endpoint.key.id,
            club_id=seen((), clubs),
            message_id=(event_message_id(endpoint.key.club_id, event, endpoint.key.id),),
            status=(AttemptResult.GIVEN_UP,),
            limit=1,
        )
        ids = [
            letter_id(round(row.key.at.timestamp() * 1000), row.key.message_id)
            for row in self.log.webhook_log(query).rows
        ]
        earliest_ms = self.clock.now_ms() - WEBHOOK_DEAD_LETTERS_KEPT_S * 1000
        found = self.dead_letters.find(endpoint.key, ids) if ids else []
        return next((each.event for each in found if each.at_ms > earliest_ms), None)

    def _kept(self, club_id: int, event: str) -> EventOccurred | None:
        """Return one of masscomm's own events by its id; None if it is unknown."""
        key = EventKey(club_id, event)
        return self.event_ids.kept([key], self.clock.now_ms() // 1000).get(key)

    def _send(self, endpoint: Endpoint, event: EventOccurred, clubs: Clubs) -> None:
        """Send an event to an endpoint alone, even if it fails."""
        now_ms = self.clock.now_ms()
        if endpoint.failing_since_ms is not None:
            # The event probes the endpoint.
            self._changed(endpoint.key.id, clubs, lambda each: replace(each, probe_at_ms=now_ms))
        message = WaitingMessage(event, now_ms)
        self.waiting.put(endpoint.key, [message], attempt=0, due_ms=now_ms, first_tried_at=now_ms)

    def _mark(self, key: EndpointKey, *, explicit: bool = False) -> Sequence[Unpublished]:
        """Mark that the implicit subscription of an endpoint, or each of its subscriptions, changes. The marks precede
        the change: a sweep publishes it after this request, even if the request is killed.
        """
        store = self.publishing.store
        keys = [SubscriptionKey.implicit(key)]
        if explicit:
            keys += [SubscriptionKey(key, each.id) for each in store.of_endpoint(key)]
        return store.mark(keys, self.clock.now_ms())

    def _publish(self, changes: Iterable[Unpublished]) -> None:
        """Publish changed subscriptions; a sweep publishes those that Kafka does not take now."""
        try:
            for change in changes:
                self.publishing.publish(change)
        except Retry as error:
            logger.warning("the change of an endpoint is published later", error=str(error))

    def _visible(self, endpoint_id: str, clubs: Clubs) -> Endpoint:
        """Return an endpoint of the caller's clubs. Raises Problem with status 404."""
        endpoint = self.endpoints.find(endpoint_key(endpoint_id, clubs))
        if endpoint is None:
            raise unknown_endpoint()
        return endpoint

    def _enabled(self, endpoint_id: str, clubs: Clubs) -> Endpoint:
        endpoint = self._visible(endpoint_id, clubs)
        if not endpoint.enabled:
            raise Problem(409, Text.ENDPOINT_DISABLED.filled())
        return endpoint

    def _changed(self, endpoint_id: str, clubs: Clubs, change: Callable[[Endpoint], Endpoint]) -> tuple[Endpoint, bool]:
        """Store a change of an endpoint, even if other requests change it concurrently. Return the endpoint, and
        whether it is changed.
        """
        for _ in range(_CHANGE_ATTEMPTS):
            stored = self._visible(endpoint_id, clubs)
            new = change(stored)
            if new == stored:
                return stored, False
            new = replace(new, revision=stored.revision + 1)
            if self.endpoints.replace(new):
                return new, True
        raise _busy()

    def _sealed(self, fields: Mapping[str, Any], endpoint: Endpoint) -> Authentication | None:
        """Return the authentication in a valid request, sealed for an endpoint; None: it has none. Raises Problem with
        status 400, Retry or Stop.
        """
        now_ms = self.clock.now_ms()
        if (value := fields.get("authentication")) is None:
            return None
        given = webhook_authentication.read(value, now_ms=now_ms, loopback=self.loopback)
        if isinstance(given, list):
            raise unusable(given)
        # A queue or an event bus has a role, and a client certificate needs TLS.
        is_http = endpoint.role_arn is None and checked(endpoint.url, loopback=self.loopback).scheme == "http"
        if endpoint.role_arn is not None or (given.type is AuthenticationType.MTLS and is_http):
            raise unusable([FieldError("url", Text.URL_NOT_HTTPS.filled())])
        sealed = self.box.seal(given.secrets, sealing_context(endpoint.key.id, endpoint.url))
        return Authentication(type=given.type, shown=given.shown, sealed=sealed, since_ms=now_ms)

    def _with_secret(self, endpoint: Endpoint, version: tuple[str, int] | None = None) -> NewWebhookBody:
        """Return an endpoint with a secret, by default the current one."""
        key_id, number = version or (endpoint.key_id, endpoint.secret_version)
        secret = secret_of(self.keys.now(), key_id=key_id, endpoint_id=endpoint.key.id, version=number)
        return {"secret": secret, "endpoint": _row(endpoint)}

    def _wrong(self, fields: Mapping[str, Any], request: Any) -> list[FieldError]:
        """Return an error for each field that cannot be used."""
        errors = undefined_fields(fields, request)
        if "url" in fields and _target_of(fields["url"]) is None:
            try:
                checked(fields["url"] if isinstance(fields["url"], str) else "", loopback=self.loopback)
            except UrlRefused as refused:
                errors.append(FieldError("url", refused.text))
        types = fields.get("event_types", [])
        if not isinstance(types, list) or not all(isinstance(each, str) and each in set(EventType) for each in types):
            errors.append(FieldError("event_types", Text.MUST_BE_LIST_OF.filled(choices=", ".join(EventType))))
        if fields.get("format", BodyFormat.MASSCOMM) not in list(BodyFormat):
            errors.append(FieldError("format", Text.MUST_BE.filled(form=" or ".join(BodyFormat))))
        description = fields.get("description", "")
        if not isinstance(description, str) or len(description) > MAX_DESCRIPTION or not description.isprintable():
            message = Text.MUST_BE_PRINTABLE_OR_EMPTY.filled(maximum=MAX_DESCRIPTION)
            errors.append(FieldError("description", message))
        flags = (name for name in ("enabled", "ordered") if not isinstance(fields.get(name, False), bool))
        errors += (FieldError(name, Text.MUST_BE_BOOLEAN.filled()) for name in flags)
        for name, (least, most) in _SETTINGS.items():
            value = fields.get(name, least)
            is_number = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
            if not is_number and not (name in _OPTIONAL and value is None):
                errors.append(FieldError(name, Text.FORM_NUMBER.filled(lowest=least, highest=most)))
        if fields.get("max_wait_s") in range(2, EVENT_LEAST_WAIT_S):
            longer = f"{EVENT_LEAST_WAIT_S}-{EVENT_MOST_WAIT_S}"
            errors.append(FieldError("max_wait_s", Text.MUST_BE_EITHER.filled(first="1", second=longer)))
        if (authentication := fields.get("authentication")) is not None:
            given = webhook_authentication.read(authentication, now_ms=self.clock.now_ms(), loopback=self.loopback)
            errors += given if isinstance(given, list) else []
        return errors


_limit = parse.whole_number(1, MAX_LIMIT)


def _club(key: list[Any]) -> int:
    match key:
        case [int() as club_id]:
            return club_id
    raise ValueError("not a club")


def _types(given: list[str]) -> tuple[str, ...]:
    return tuple(sorted(set(given)))


def _host(url: str) -> str:
    """Return the host of a URL, for the audit log; path and query may contain a credential."""
    return checked(url, loopback=True).host if target_of(url) is None else url


def _target_of(url: object) -> AwsTarget | None:
    return target_of(url) if isinstance(url, str) else None


def _role_errors(url: object, role_arn: object) -> list[FieldError]:
    """Return an error if a queue or an event bus has no role of its account, or a server has one."""
    target = _target_of(url)
    if target is None:
        return [] if role_arn is None else [FieldError("role_arn", Text.ROLE_WITHOUT_TARGET.filled())]
    # guard: aws_targets.role_of_the_account
    if role_account(role_arn) != target.account:
        return [FieldError("role_arn", Text.ROLE_FORM.filled(account=target.account, prefix=ROLE_PREFIX))]
    return []


def _check_order(endpoint: Endpoint) -> None:
    """Check that an ordered endpoint does not gather messages: each would need a queue. Raises Problem (400)."""
    if endpoint.is_ordered and endpoint.max_wait_s > 1:  # guard: webhooks.order_of_gathered
        raise unusable([FieldError("max_wait_s", Text.MUST_BE.filled(form="1"))])


def _busy() -> Retry:
    return Retry("the endpoint is changed by other requests at the same time")


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else time_of_ms(at_ms)


def _row(endpoint: Endpoint) -> WebhookBody:
    return {
        "id": endpoint.key.id,
        "club_id": endpoint.key.club_id,
        "url": endpoint.url,
        "event_types": [EventType(each) for each in endpoint.event_types],
        "description": endpoint.description,
        "max_count": endpoint.max_count,
        "max_bytes": endpoint.max_bytes,
        "max_wait_s": endpoint.max_wait_s,
        "ordered": endpoint.is_ordered,
        "max_concurrency": endpoint.max_concurrency,
        "rate_per_s": endpoint.rate_per_s,
        "format": endpoint.format,
        "role_arn": endpoint.role_arn,
        "external_id": None if endpoint.role_arn is None else endpoint.key.id,
        "contact_user_id": endpoint.contact_user_id,
        "enabled": endpoint.enabled,
        "disabled_reason": endpoint.disabled_reason or None,
        "failing_since": _time(endpoint.failing_since_ms),
        "previous_secret_until": _time(endpoint.previous_until_ms),
        "authentication": webhook_authentication.shown(
            endpoint.authentication, endpoint.previous_authentication_until_ms
        ),
        "created_at": time_of_ms(endpoint.created_at_ms),
    }


def _pending(endpoint: Endpoint, event: EventOccurred) -> DeliveryBody:
    """Return the delivery of an event that is sent within a minute."""
    return {
        "id": event.event_id,
        "event_id": event_message_id(event.club_id, event.event_id, endpoint.key.id),
        "event_type": event.type,
        "at": time_of_ms(event.occurred_at),
        "status": DeliveryStatus.PENDING,
        "attempts": 0,
        "next_attempt_at": time_of_ms(event.occurred_at),
        "last_attempts": [],
    }


def _delivery(latest: WebhookLogRow, attempts: Sequence[WebhookLogRow]) -> DeliveryBody:
    """Return a delivery by its attempts in the log, the latest first."""
    return {
        "id": latest.event_id,
        "event_id": latest.key.message_id,
        "event_type": latest.type,
        "at": rfc3339((attempts or [latest])[-1].key.at),
        "status": _STATUSES[AttemptResult(latest.status)],
        "attempts": latest.key.attempt,
        "next_attempt_at": None,
        "last_attempts": [
            {
                "at": rfc3339(row.key.at),
                "duration_ms": row.duration_ms,
                "status": row.http_status,
                "error": row.error or None,
                "body": "",
            }
            for row in attempts[:LISTED_ATTEMPTS]
        ],
    }
