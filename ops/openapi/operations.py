"""The routes of operations_handler."""

from dataclasses import replace

from functions.operations_handler.routes import (
    alarms,
    audit,
    categories,
    dead_letters,
    devices,
    health,
    keys,
    overview,
    suppressions,
    webhooks,
)
from functions.operations_handler.routes import webhook_dead_letters as undelivered
from functions.operations_handler.routes.suppressions import sha256
from masscomm.http.idempotency import KEY, REPLAYED
from masscomm.http.tenant import parse_club_id
from ops.openapi.examples import NOON, ONE, SEND_ID
from ops.openapi.operation import ID, IDEMPOTENCY_KEY, IF_MATCH, IF_NONE_MATCH, TEXT, Operation, Parameter, number
from ops.openapi.parameters import (
    ADDRESS_ID,
    CLUB_ID,
    CURSOR,
    DELIVERY_ID,
    END,
    ENDPOINT_ID,
    EVENT_ID,
    KEY_ID,
    START,
    WORDS,
    page,
)
from ops.openapi.sends_api import LISTED_SEND

_REPEATABLE = replace(
    IDEMPOTENCY_KEY,
    description="Chosen by the caller. A repeated request with the same key within 24 hours makes no second API key; "
    "its response has `key: null`.",
)
_REPEATED_OPERATION = replace(
    IDEMPOTENCY_KEY,
    description="Chosen by the caller. A repeated request with the same key has no further effect, and gets the first "
    "response.",
)
_REPLAYED = {REPLAYED: "`true` if an earlier request with this Idempotency-Key was executed"}
_REPEATED = {
    409: "The key has ended, or ends within the hours of the rotation",
    422: f"The {KEY} belongs to another request",
}
_LETTER = {
    "position": "0@17",
    "topic": "send.api",
    "partition": "2",
    "offset": "4711",
    "reason": "invalid",
    "error": "unknown category",
    "function": "preference_checker",
    "replayed_from": "",
    "size": 120,
    "status": "open",
}
_ALARM = {
    "name": "builder-dead-letters",
    "since": NOON,
    "description": "builder dead-letters many records.",
    "runbook": "dead-letters",
}
_UNKNOWN = {404: "The dead letter is unknown"}
_CHANGED = {409: "The dead letter was replayed or discarded before, or no function consumes its source topic"}
_DEVICE = {
    "device_id": 420,
    "platform": "gcm",
    "reason": "takes_nothing",
    "since": NOON,
    "can_be_enabled": True,
}
_KEY = {
    "id": KEY_ID,
    "name": "shop",
    "clubs": [1],
    "scopes": ["read", "send"],
    "mode": "live",
    "last_used_at": ONE,
    "recipients_a_day": 100_000,
}
_NEW_KEY = {
    "key": "mc_IwbrKrXRdNrYJ6CskvPUiWSSb8N5KPO8BxbwnXNGbaE",
    "sha256": "0f2c7b3f38a3c1a0a9d8f3d1f0a5a7c4b9e1d2c3b4a5968778695a4b3c2d1e0f",
    "properties": _KEY,
}

_ENDPOINT = {
    "id": ENDPOINT_ID,
    "url": "https://hooks.example.org/masscomm",
    "event_types": ["send.completed", "send.cancelled"],
    "description": "shop",
    "max_count": 1,
    "max_bytes": 256_000,
    "max_wait_s": 1,
    "ordered": False,
    "max_concurrency": 8,
    "rate_per_s": None,
    "format": "masscomm",
    "role_arn": None,
    "external_id": None,
    "contact_user_id": 42,
    "enabled": True,
}
_NEW_ENDPOINT = {"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=", "endpoint": _ENDPOINT}
_DELIVERY = {
    "id": DELIVERY_ID,
    "event_id": EVENT_ID,
    "event_type": "send.completed",
    "status": "pending",
    "attempts": 1,
    "next_attempt_at": None,
    "last_attempts": [{"duration_ms": 41, "status": 503, "body": ""}],
}
_NEW_DELIVERY = _DELIVERY | {"attempts": 0, "last_attempts": [], "next_attempt_at": NOON}
_UNDELIVERED = {
    "id": f"1600000000000-{EVENT_ID}",
    "message_id": EVENT_ID,
    "event_id": "match-4711-finished",
    "type": "match.finished",
    "club_id": 1,
    "data": {"goals": [2, 1]},
    "occurred_at": NOON,
    "at": ONE,
    "reason": "all attempts failed",
    "attempts": 8,
    "status": 503,
}
_CATEGORY = {
    "channels": ["push"],
    "mandatory": False,
    "opt_in": [],
    "titles": {"en": "News", "de": "Nachrichten"},
    "descriptions": {"en": "What happens in the club", "de": "Was im Verein geschieht"},
    "retired": False,
    "clubs": [{"club_id": 7, "channels": ["push", "email"], "opt_in": ["email"]}],
}
_ETAG = '"6f1ed002ab5595859014ebf0951522d9"'
_UNKNOWN_ENDPOINT = {404: "The endpoint is unknown"}
_DISABLED = {409: "The endpoint is disabled"}


OPERATIONS = {
    ("GET", "/v1/categories"): Operation(
        response=categories.CategoriesBody,
        description="Of the tenants for which a category differs, the caller's own are returned.",
        example={
            "rows": [
                {
                    **_CATEGORY,
                    "valid_from": None,
                }
            ]
        },
    ),
    ("GET", "/v1/categories/{category}"): Operation(
        description="Of the tenants for which a version differs, the caller's own are returned.",
        response=categories.CategoryBody,
        example={"type": "news", "versions": [{**_CATEGORY, "valid_from": NOON}], "etag": _ETAG},
        headers={"ETag": "`etag` of the body"},
        problems={404: "The category is unknown"},
    ),
    ("PUT", "/v1/categories/{category}"): Operation(
        description=(
            "Categories concern every tenant, so that credentials for single tenants may not change them. The request "
            "replaces the category. A version begins a minute after its request, for sends with a later timestamp; "
            "sends over REST may name a new category at once. The response has all versions, the latest first."
        ),
        parameters=(IF_MATCH, IF_NONE_MATCH),
        request=categories.CategoryFields,
        requests={"news": {key: value for key, value in _CATEGORY.items() if key != "retired"}},
        response=categories.CategoryBody,
        success="The category is stored",
        example={"type": "news", "versions": [{**_CATEGORY, "valid_from": NOON}], "etag": _ETAG},
        headers={"ETag": "`etag` of the body"},
        problems={
            404: "The name contains a control character",
            409: "The category has been changed too often",
            412: "The category has changed since it was read, or it exists",
        },
    ),
    ("GET", "/v1/overview"): Operation(
        description=(
            "One request for the first page of a console. The parts need the scopes of their own routes, and are read"
            " at the same time: a part whose server does not answer is named in `unavailable`. Sends and webhook"
            f" endpoints are those of at most {overview.CLUBS} tenants, the ones with the most notifications today;"
            " `club_id` chooses others."
        ),
        parameters=(
            replace(CLUB_ID, description="Only these tenants; without it, all that the key may see"),
            Parameter(
                "hours",
                "The hours that count as today, the present one included; by default those since midnight in UTC",
                number(1, overview.MAX_HOURS),
                13,
            ),
        ),
        response=overview.OverviewBody,
        example={
            "sends": [LISTED_SEND],
            "counts_known": True,
            "today": {
                "since": "2026-11-21T00:00:00Z",
                "requested": 3,
                "sent": 2,
                "delivered": 0,
                "suppressed": 1,
                "failed": 0,
                "bounced": 0,
            },
            "dead_letters": 1,
            "alarms": [_ALARM],
            "webhooks": [],
            "health": {"lag_total": 3, "staleness_s": 1.5},
            "unavailable": [],
        },
    ),
    ("GET", "/v1/health"): Operation(
        description="The figures concern the installation, and no tenant.",
        response=health.HealthBody,
        example={
            "lag": [{"function": "builder", "topic": "build", "records": 3}],
            "lag_total": 3,
            "directory": [{"generation": "g1", "heartbeat_at": NOON, "staleness_s": 1.5}],
            "open_dead_letters": 1,
            "categories_without_unsubscribe": [],
        },
    ),
    ("GET", "/v1/alarms"): Operation(
        description="The alarms concern the installation, and no tenant.",
        response=alarms.AlarmsBody,
        example={
            "evaluated": True,
            "rows": [_ALARM],
        },
    ),
    ("GET", "/v1/dead-letters"): Operation(
        description="A letter without a readable tenant is visible to callers who may see every tenant. `error` needs "
        "the scope `users:read`.",
        parameters=(
            Parameter("club_id", parse_club_id.form, ID, 1),
            Parameter("topic", "The source topic", WORDS, "send.api"),
            Parameter("reason", "Why the record was dead-lettered", WORDS, "invalid"),
            Parameter("function", "The function that dead-lettered it", WORDS, "preference_checker"),
            Parameter("status", dead_letters.status.form, {"enum": list(dead_letters.STATUSES)}, "open"),
            START,
            END,
            *page(dead_letters.DEFAULT_LIMIT, dead_letters.MAX_LIMIT),
        ),
        response=dead_letters.DeadLettersBody,
        example={"rows": [_LETTER]},
    ),
    ("GET", "/v1/dead-letters/{position}"): Operation(
        description="Without the scope `users:read`, the letter has names and types of its fields in place of their "
        "values. With it, the request is audited.",
        response=dead_letters.DeadLetterBody,
        example={
            "letter": _LETTER,
            "history": [],
            "headers": [{"name": "masscomm.reason", "value": "invalid"}],
            "payload": '{"type": "news", "club_id": 1}',
        },
        problems=_UNKNOWN,
    ),
    ("POST", "/v1/dead-letters/{position}/replay"): Operation(
        description=(
            "The original bytes are produced again, in one transaction with a mark, so that a second replay gets a "
            "409. A record of a send is replayed within 6 days after it was produced: later it could be counted and "
            "published twice."
        ),
        parameters=(_REPEATED_OPERATION,),
        response=dead_letters.ReplayedBody,
        headers=_REPLAYED,
        success="The record is on its source topic",
        example={"position": "0@17", "topic": "send.api"},
        problems=_UNKNOWN | _CHANGED,
    ),
    ("POST", "/v1/dead-letters/{position}/discard"): Operation(
        description=(
            "The reason and the principal are stored with the letter and in the audit log. A letter that was replayed "
            "or discarded before gets a 409."
        ),
        parameters=(_REPEATED_OPERATION,),
        headers=_REPLAYED,
        request=dead_letters.DiscardRequest,
        requests={"obsolete": {"reason": "the match is over"}},
        response=dead_letters.DiscardedBody,
        example={"position": "0@17", "reason": "the match is over"},
        problems=_UNKNOWN | _CHANGED,
    ),
    ("GET", "/v1/devices"): Operation(
        description="A device whose row is gone has no tenant: it is visible to callers who may see every tenant.",
        parameters=(
            CLUB_ID,
            Parameter("reason", devices.reason.form, {"enum": list(devices.REASONS)}, "takes_nothing"),
            *page(devices.DEFAULT_LIMIT, devices.MAX_LIMIT),
        ),
        response=devices.DisabledDevicesBody,
        example={"rows": [_DEVICE]},
    ),
    ("GET", "/v1/devices/counts"): Operation(
        description=(
            "At most 10,000 devices are examined: `complete` says whether these were all. `takes_nothing` can be "
            "enabled again; the other reasons end with a newer row of the monolith."
        ),
        parameters=(CLUB_ID,),
        response=devices.DisabledCountsBody,
        example={
            "rows": [{"reason": "takes_nothing", "devices": 1}],
            "examined": 1,
            "complete": True,
        },
    ),
    ("POST", "/v1/devices/{device_id}/enable"): Operation(
        description=(
            "Use it if endpoints were disabled by mistake, such as by a wrong credential of the push provider. If the "
            "provider still refuses the token, the next push disables the device again."
        ),
        response=devices.EnabledDeviceBody,
        status=202,
        success="The device registrar will register the token again",
        example={"device_id": 420},
        problems={404: "The device is unknown, or it is not disabled", 409: "Only the monolith's row enables it"},
    ),
    ("GET", "/v1/suppressions"): Operation(
        description=(
            "An address is suppressed for a tenant after a permanent bounce or a complaint. Only the SHA-256 of an "
            "address is stored: with `address_id`, the suppressions of one address are found."
        ),
        parameters=(
            CLUB_ID,
            Parameter(
                "address_id",
                f"The SHA-256 of the address in small letters: {sha256.form}",
                TEXT | {"pattern": "^[0-9a-f]{64}$"},
                ADDRESS_ID,
            ),
            *page(suppressions.DEFAULT_LIMIT, suppressions.MAX_LIMIT),
        ),
        response=suppressions.SuppressionsBody,
        example={
            "rows": [
                {
                    "id": f"1-{ADDRESS_ID}",
                    "address_id": ADDRESS_ID,
                    "reason": "bounced_permanent",
                    "expires_at": "2027-05-20T12:00:00Z",
                }
            ],
        },
    ),
    ("DELETE", "/v1/suppressions/{suppression}"): Operation(
        description="Remove it only if the owner agreed to receive e-mail again. The removal is in the audit log.",
        response=suppressions.RemovedSuppressionBody,
        example={"id": f"1-{ADDRESS_ID}"},
        problems={404: "The suppression is unknown"},
    ),
    ("GET", "/v1/keys"): Operation(
        description="A key of several tenants is listed for callers who may see all of them.",
        parameters=page(keys.DEFAULT_LIMIT, keys.MAX_LIMIT),
        response=keys.KeysBody,
        example={"rows": [_KEY]},
    ),
    ("POST", "/v1/keys"): Operation(
        description="A key gets no more authority than the key of the request has: tenants, scopes, limits and end.",
        parameters=(_REPEATABLE,),
        request=keys.CreateKeyRequest,
        requests={
            "shop": {"name": "shop", "clubs": [1], "scopes": ["send", "read"], "recipients_a_day": 100_000},
            "tests": {"name": "shop-tests", "clubs": [1], "scopes": ["send"], "mode": "test"},
        },
        response=keys.NewKeyBody,
        status=201,
        success="The key is stored. Its text is in this response only",
        headers={REPLAYED: "`true` if an earlier request with this Idempotency-Key made the key"},
        example=_NEW_KEY,
        problems=_REPEATED,
    ),
    ("POST", "/v1/keys/{key_id}/rotate"): Operation(
        description=(
            "The new key has the name, tenants, scopes, limits and end of the previous one, which works for `hours` "
            "more. After a leak, use 0 hours."
        ),
        parameters=(_REPEATABLE,),
        request=keys.RotateKeyRequest,
        requests={"tomorrow": {"hours": 24}},
        response=keys.NewKeyBody,
        status=201,
        success="The new key is stored. Its text is in this response only",
        headers={REPLAYED: "`true` if an earlier request with this Idempotency-Key made the key"},
        example=_NEW_KEY,
        problems={404: "The key is unknown", **_REPEATED},
    ),
    ("POST", "/v1/keys/{key_id}/revoke"): Operation(
        description=(
            "The key ends now, even if a rotation is in progress. API Gateway may accept it for one more minute."
        ),
        response=keys.RevokedKeyBody,
        example={"id": KEY_ID, "expires_at": ONE},
        problems={404: "The key is unknown"},
    ),
    ("GET", "/v1/audit"): Operation(
        description=(
            "An entry names the principal (a key, a person or an operator), the action, its subject and its result. "
            "Entries are kept for 400 days; nothing changes or deletes them."
        ),
        parameters=(
            Parameter(
                "club_id",
                "The tenant; required if the key may see several. Without it, a key that may see every tenant gets "
                "the entries that concern all of them",
                ID,
                1,
            ),
            START,
            END,
            *page(audit.DEFAULT_LIMIT, audit.MAX_LIMIT),
        ),
        response=audit.AuditBody,
        example={
            "rows": [
                {
                    "principal": KEY_ID,
                    "action": "send.requested",
                    "subject": SEND_ID,
                    "result": "ok",
                    "detail": "news, 3 recipients",
                }
            ]
        },
    ),
    ("GET", "/v1/webhooks"): Operation(
        description="Without `club_id`, the endpoints of all tenants of the caller. Secrets are not shown.",
        parameters=(CLUB_ID, CURSOR),
        response=webhooks.WebhooksBody,
        example={"rows": [_ENDPOINT]},
    ),
    ("POST", "/v1/webhooks"): Operation(
        description=(
            "Events of the tenant's sends are posted to `url`, signed as the specification Standard Webhooks says. "
            "`url` must be a public https address. Without `event_types`, the endpoint gets the events of each type."
        ),
        parameters=(IDEMPOTENCY_KEY,),
        request=webhooks.CreateWebhookRequest,
        requests={
            "shop": {
                "club_id": 1,
                "url": "https://hooks.example.org/masscomm",
                "event_types": ["send.completed", "send.cancelled"],
                "description": "shop",
            }
        },
        response=webhooks.NewWebhookBody,
        status=201,
        success="The endpoint is stored. Its secret is in this response only",
        example=_NEW_ENDPOINT,
        headers={REPLAYED: "`true` if an earlier request with the same key has created the endpoint"},
        problems={
            409: "The tenant has too many endpoints, or the endpoint that the request created is deleted",
            422: f"The {KEY} belongs to another request",
        },
    ),
    ("GET", "/v1/webhooks/{endpoint_id}"): Operation(
        description="It has the event types, whether it is enabled, and why it was disabled. The secret is not shown.",
        response=webhooks.WebhookBody,
        example=_ENDPOINT,
        problems=_UNKNOWN_ENDPOINT,
    ),
    ("PATCH", "/v1/webhooks/{endpoint_id}"): Operation(
        description=(
            "Fields that the body does not name stay as they are. Events that occur while an endpoint is disabled are "
            "dead letters of the endpoint."
        ),
        request=webhooks.ChangeWebhookRequest,
        requests={"off": {"enabled": False}, "moved": {"url": "https://hooks.example.org/v2"}},
        response=webhooks.WebhookBody,
        example=_ENDPOINT,
        problems=_UNKNOWN_ENDPOINT,
    ),
    ("DELETE", "/v1/webhooks/{endpoint_id}"): Operation(
        description="Nothing more is sent to it, not even messages that wait for an attempt.",
        response=webhooks.DeletedWebhookBody,
        example={"id": ENDPOINT_ID},
        problems=_UNKNOWN_ENDPOINT,
    ),
    ("POST", "/v1/webhooks/{endpoint_id}/rotate"): Operation(
        description=(
            "Messages have a signature of each secret for 24 hours, so that the receiver can change without a gap."
        ),
        parameters=(_REPEATED_OPERATION,),
        headers=_REPLAYED,
        response=webhooks.NewWebhookBody,
        status=201,
        success="The endpoint has a new secret, which is in this response only",
        example=_NEW_ENDPOINT | {"endpoint": _ENDPOINT | {"previous_secret_until": "2026-11-22T12:00:00Z"}},
        problems=_UNKNOWN_ENDPOINT | {422: f"The {KEY} belongs to another principal's request"},
    ),
    ("POST", "/v1/webhooks/{endpoint_id}/test"): Operation(
        description="The event contains no data of a send. Its delivery shows the response of the receiver.",
        parameters=(_REPEATED_OPERATION,),
        headers=_REPLAYED,
        response=webhooks.DeliveryBody,
        status=202,
        success="The event is sent within a minute",
        example=_NEW_DELIVERY | {"event_type": "webhook.test"},
        problems=_UNKNOWN_ENDPOINT | _DISABLED,
    ),
    ("POST", "/v1/webhooks/{endpoint_id}/test/{event_type}"): Operation(
        description=(
            "The event has the example of the type as data, with the fields that the endpoint receives of it. Tenants, "
            "units and filters of its subscriptions are ignored."
        ),
        parameters=(_REPEATED_OPERATION,),
        headers=_REPLAYED,
        response=webhooks.DeliveryBody,
        status=202,
        success="The event is sent within a minute",
        example=_NEW_DELIVERY | {"event_type": "match.finished"},
        problems={
            404: "The endpoint or the event type is unknown",
            409: "The endpoint is disabled, or does not subscribe to the event type",
        },
    ),
    ("GET", "/v1/webhooks/{endpoint_id}/deliveries"): Operation(
        description=(
            "Each row has the event, its status and the last attempts, with the status and the duration of each "
            "response. Deliveries are listed after their first attempt, as the log has them: all that failed, and of "
            "each hour the first others."
        ),
        parameters=page(webhooks.DEFAULT_LIMIT, webhooks.MAX_LIMIT),
        response=webhooks.DeliveriesBody,
        example={"rows": [_DELIVERY]},
        problems=_UNKNOWN_ENDPOINT,
    ),
    ("POST", "/v1/webhooks/{endpoint_id}/deliveries/{delivery_id}/resend"): Operation(
        description=(
            "An event of a send, or a test, of the last 30 days is attempted again within a minute, under the same "
            "`webhook-id`. The receiver can recognise a repetition by it. Other events have dead letters."
        ),
        parameters=(_REPEATED_OPERATION,),
        headers=_REPLAYED,
        response=webhooks.DeliveryBody,
        status=202,
        success="The event is sent again within a minute, under the same webhook-id",
        example=_NEW_DELIVERY,
        problems={404: "The endpoint or the delivery is unknown", 422: f"The {KEY} belongs to another request"}
        | _DISABLED,
    ),
    ("GET", "/v1/webhooks/{endpoint_id}/dead-letters"): Operation(
        description=(
            "Messages with events that are not attempted any more, in the order in which they became dead letters. One "
            "is listed a minute later, so that `last` can be the `after` of the next poll for ever."
        ),
        parameters=(
            Parameter("after", "The id or the time after which the list begins", TEXT, _UNDELIVERED["id"]),
            Parameter("up_to", "The id of the last one that may be listed, or a time", TEXT, NOON),
            Parameter("type", "The type of the events", TEXT, "match.finished"),
            *page(undelivered.DEFAULT_LIMIT, undelivered.MAX_LIMIT),
        ),
        response=undelivered.WebhookDeadLettersBody,
        example={"rows": [_UNDELIVERED], "last": _UNDELIVERED["id"]},
        problems=_UNKNOWN_ENDPOINT,
    ),
    ("POST", "/v1/webhooks/{endpoint_id}/dead-letters/ack"): Operation(
        description="Those up to `up_to` are deleted, at most 500 a request.",
        request=undelivered.AcknowledgeWebhooksRequest,
        requests={"processed": {"up_to": _UNDELIVERED["id"]}},
        response=undelivered.AcknowledgedWebhooksBody,
        success="The dead letters are deleted",
        example={"acknowledged": 1},
        problems=_UNKNOWN_ENDPOINT,
    ),
    ("POST", "/v1/webhooks/{endpoint_id}/dead-letters/replay"): Operation(
        description=(
            "They are attempted again within a minute or two, under the same `webhook-id`, with a new schedule of "
            "repetitions. At most 500 a request."
        ),
        request=undelivered.ReplayWebhooksRequest,
        requests={"one": {"ids": [_UNDELIVERED["id"]]}, "type": {"type": "match.finished"}},
        response=undelivered.ReplayedWebhooksBody,
        status=202,
        success="The messages wait for their attempts",
        example={"replayed": 1},
        problems=_UNKNOWN_ENDPOINT | _DISABLED,
    ),
}
