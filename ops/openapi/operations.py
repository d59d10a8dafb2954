"""The routes of operations_handler."""

from dataclasses import replace

from functions.operations_handler.routes import (
    alarms,
    categories,
    dead_letters,
    devices,
    health,
    keys,
    suppressions,
    webhooks,
)
from functions.operations_handler.routes.suppressions import sha256
from masscomm.domain.ids import address_id
from masscomm.http import parameters as parse
from masscomm.http.idempotency import KEY, REPLAYED
from masscomm.http.tenant import parse_club_id
from ops.openapi.operation import DATE_TIME, ID, IDEMPOTENCY_KEY, Operation, Parameter, number, several

_NOON, _ONE = "2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z"
_ADDRESS_ID = address_id("ada@example.org")
_KEY_ID = "7d793037a0760186"
_CURSOR = Parameter(name="cursor", description="`next_cursor` of the previous page")
_CLUB_ID = Parameter(name="club_id", description=parse_club_id.form, schema=several(ID), example=[1])
_POSITION = Parameter(
    name="position",
    location="path",
    description="The position of the dead letter, partition@offset",
    schema={"type": "string", "minLength": 1},
    example="0@17",
)
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
    "at": _NOON,
    "club_id": 1,
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
_UNKNOWN = {404: "The dead letter is unknown"}
_CHANGED = {409: "The dead letter was replayed or discarded before, or no function consumes its source topic"}
_WORDS = {"type": "string", "minLength": 1, "maxLength": 200}
_DEVICE = {
    "device_id": 420,
    "user_id": 42,
    "club_id": 1,
    "platform": "gcm",
    "reason": "takes_nothing",
    "since": _NOON,
    "can_be_enabled": True,
}
_KEY_IN_PATH = Parameter(
    name="key_id",
    location="path",
    description="The id of the key",
    schema={"type": "string", "minLength": 1},
    example=_KEY_ID,
)
_KEY = {
    "id": _KEY_ID,
    "name": "shop",
    "clubs": [1],
    "scopes": ["read", "send"],
    "mode": "live",
    "created_at": _NOON,
    "expires_at": None,
    "last_used_at": _ONE,
    "requests_a_minute": None,
    "recipients_a_day": 100_000,
}
_NEW_KEY = {
    "key": "mc_IwbrKrXRdNrYJ6CskvPUiWSSb8N5KPO8BxbwnXNGbaE",
    "sha256": "0f2c7b3f38a3c1a0a9d8f3d1f0a5a7c4b9e1d2c3b4a5968778695a4b3c2d1e0f",
    "properties": _KEY,
}

_ENDPOINT_ID = "ep_1_4fq2m7x9c1r8w3k5t6zb"
_EVENT_ID = "evt_5b0f6c7d8e9f4a1b8c2d3e4f5a6b7c8d"
_DELIVERY_ID = f"1763726400000-{_EVENT_ID}"
_ENDPOINT_IN_PATH = Parameter(
    name="endpoint_id",
    location="path",
    description="The id of the endpoint",
    schema={"type": "string", "minLength": 1},
    example=_ENDPOINT_ID,
)
_ENDPOINT = {
    "id": _ENDPOINT_ID,
    "club_id": 1,
    "url": "https://hooks.example.org/masscomm",
    "event_types": ["send.completed", "send.cancelled"],
    "description": "shop",
    "enabled": True,
    "disabled_reason": None,
    "failing_since": None,
    "previous_secret_until": None,
    "created_at": _NOON,
}
_NEW_ENDPOINT = {"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=", "endpoint": _ENDPOINT}
_DELIVERY = {
    "id": _DELIVERY_ID,
    "event_id": _EVENT_ID,
    "event_type": "send.completed",
    "at": _NOON,
    "status": "pending",
    "attempts": 1,
    "next_attempt_at": _ONE,
    "last_attempts": [{"at": _NOON, "duration_ms": 41, "status": 503, "error": None, "body": "busy"}],
}
_NEW_DELIVERY = _DELIVERY | {"attempts": 0, "last_attempts": [], "next_attempt_at": _NOON}
_UNKNOWN_ENDPOINT = {404: "The endpoint is unknown"}
_DISABLED = {409: "The endpoint is disabled"}


def _limit(default: int, highest: int) -> Parameter:
    schema = number(1, highest, default)
    return Parameter(name="limit", description="The maximum number of rows", schema=schema, example=10)


OPERATIONS = {
    ("GET", "/v1/categories"): Operation(
        tag="Operations",
        response=categories.CategoriesBody,
        description="Of the clubs for which a category differs, the caller's own are returned.",
        example={
            "rows": [
                {
                    "type": "news",
                    "channels": ["push"],
                    "mandatory": False,
                    "opt_in": [],
                    "clubs": [{"club_id": 7, "channels": ["push", "email"], "opt_in": ["email"]}],
                }
            ]
        },
    ),
    ("GET", "/v1/health"): Operation(
        tag="Operations",
        description="The figures concern the installation, and no tenant.",
        response=health.HealthBody,
        example={
            "lag": [{"function": "builder", "topic": "build", "records": 3}],
            "lag_total": 3,
            "directory": [{"generation": "g1", "heartbeat_at": _NOON, "staleness_s": 1.5}],
            "open_dead_letters": 1,
            "categories_without_unsubscribe": [],
            "generated_at": _ONE,
        },
    ),
    ("GET", "/v1/alarms"): Operation(
        tag="Operations",
        description="The alarms concern the installation, and no tenant.",
        response=alarms.AlarmsBody,
        example={
            "evaluated": True,
            "rows": [
                {
                    "name": "builder-dead-letters",
                    "state": "alarm",
                    "since": _NOON,
                    "description": "builder dead-letters many records.",
                    "runbook": "dead-letters",
                }
            ],
            "generated_at": _ONE,
        },
    ),
    ("GET", "/v1/dead-letters"): Operation(
        tag="Operations",
        description="A letter without a readable club is visible to callers who may see every club. `error` needs the "
        "scope `users:read`.",
        parameters=(
            Parameter(name="club_id", description=parse_club_id.form, schema=ID, example=1),
            Parameter(name="topic", description="The source topic", schema=_WORDS, example="send.api"),
            Parameter(name="reason", description="Why the record was dead-lettered", schema=_WORDS, example="invalid"),
            Parameter(
                name="function",
                description="The function that dead-lettered it",
                schema=_WORDS,
                example="preference_checker",
            ),
            Parameter(
                name="status",
                description=dead_letters.status.form,
                schema={"enum": list(dead_letters.STATUSES)},
                example="open",
            ),
            Parameter(name="start", description=parse.time.form, schema=DATE_TIME, example=_NOON),
            Parameter(name="end", description=parse.time.form, schema=DATE_TIME, example=_ONE),
            _limit(dead_letters.DEFAULT_LIMIT, dead_letters.MAX_LIMIT),
            _CURSOR,
        ),
        response=dead_letters.DeadLettersBody,
        example={"rows": [_LETTER], "truncated": False, "next_cursor": None},
    ),
    ("GET", "/v1/dead-letters/{position}"): Operation(
        tag="Operations",
        description="Without the scope `users:read`, the letter has names and types of its fields in place of their "
        "values. With it, the request is audited.",
        parameters=(_POSITION,),
        response=dead_letters.DeadLetterBody,
        example={
            "letter": _LETTER,
            "history": [],
            "outlined": False,
            "key": None,
            "headers": [{"name": "masscomm.reason", "value": "invalid"}],
            "payload": '{"type": "news", "club_id": 1}',
            "payload_error": None,
            "payload_base64": None,
            "payload_truncated": False,
        },
        problems=_UNKNOWN,
    ),
    ("POST", "/v1/dead-letters/{position}/replay"): Operation(
        tag="Operations",
        parameters=(_POSITION, _REPEATED_OPERATION),
        response=dead_letters.ReplayedBody,
        headers=_REPLAYED,
        success="The record is on its source topic",
        example={"position": "0@17", "status": "replayed", "topic": "send.api"},
        problems=_UNKNOWN | _CHANGED,
    ),
    ("POST", "/v1/dead-letters/{position}/discard"): Operation(
        tag="Operations",
        parameters=(_POSITION, _REPEATED_OPERATION),
        headers=_REPLAYED,
        request=dead_letters.DiscardRequest,
        requests={"obsolete": {"reason": "the match is over"}},
        response=dead_letters.DiscardedBody,
        example={"position": "0@17", "status": "discarded", "reason": "the match is over"},
        problems=_UNKNOWN | _CHANGED,
    ),
    ("GET", "/v1/devices"): Operation(
        tag="Operations",
        description="A device whose row is gone has no club: it is visible to callers who may see every club.",
        parameters=(
            _CLUB_ID,
            Parameter(
                name="reason",
                description=devices.reason.form,
                schema={"enum": list(devices.REASONS)},
                example="takes_nothing",
            ),
            _limit(devices.DEFAULT_LIMIT, devices.MAX_LIMIT),
            _CURSOR,
        ),
        response=devices.DisabledDevicesBody,
        example={"rows": [_DEVICE], "truncated": False, "next_cursor": None},
    ),
    ("GET", "/v1/devices/counts"): Operation(
        tag="Operations",
        parameters=(_CLUB_ID,),
        response=devices.DisabledCountsBody,
        example={
            "rows": [{"club_id": 1, "reason": "takes_nothing", "devices": 1}],
            "examined": 1,
            "complete": True,
        },
    ),
    ("POST", "/v1/devices/{device_id}/enable"): Operation(
        tag="Operations",
        parameters=(
            Parameter(
                name="device_id",
                location="path",
                description="The id of the device in the monolith",
                schema={"type": "string", "minLength": 1},
                example="420",
            ),
        ),
        response=devices.EnabledDeviceBody,
        status=202,
        success="The device registrar will register the token again",
        example={"device_id": 420, "status": "requested"},
        problems={404: "The device is unknown, or it is not disabled", 409: "Only the monolith's row enables it"},
    ),
    ("GET", "/v1/suppressions"): Operation(
        tag="Operations",
        parameters=(
            _CLUB_ID,
            Parameter(
                name="address_id",
                description=f"The SHA-256 of the address in small letters: {sha256.form}",
                schema={"type": "string", "pattern": "^[0-9a-f]{64}$"},
                example=_ADDRESS_ID,
            ),
            _limit(suppressions.DEFAULT_LIMIT, suppressions.MAX_LIMIT),
            _CURSOR,
        ),
        response=suppressions.SuppressionsBody,
        example={
            "rows": [
                {
                    "id": f"1-{_ADDRESS_ID}",
                    "club_id": 1,
                    "address_id": _ADDRESS_ID,
                    "reason": "bounced_permanent",
                    "at": _NOON,
                    "expires_at": "2027-05-20T12:00:00Z",
                }
            ],
            "truncated": False,
            "next_cursor": None,
        },
    ),
    ("DELETE", "/v1/suppressions/{suppression}"): Operation(
        tag="Operations",
        parameters=(
            Parameter(
                name="suppression",
                location="path",
                description="The id of the suppression",
                schema={"type": "string", "minLength": 1},
                example=f"1-{_ADDRESS_ID}",
            ),
        ),
        response=suppressions.RemovedSuppressionBody,
        example={"id": f"1-{_ADDRESS_ID}", "status": "removed"},
        problems={404: "The suppression is unknown"},
    ),
    ("GET", "/v1/keys"): Operation(
        tag="Operations",
        description="A key of several clubs is listed for callers who may see all of them.",
        parameters=(_limit(keys.DEFAULT_LIMIT, keys.MAX_LIMIT), _CURSOR),
        response=keys.KeysBody,
        example={"rows": [_KEY], "truncated": False, "next_cursor": None},
    ),
    ("POST", "/v1/keys"): Operation(
        tag="Operations",
        description="A key gets no more authority than the key of the request has: clubs, scopes, limits and end.",
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
        tag="Operations",
        parameters=(_KEY_IN_PATH, _REPEATABLE),
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
        tag="Operations",
        parameters=(_KEY_IN_PATH,),
        response=keys.RevokedKeyBody,
        example={"id": _KEY_ID, "status": "revoked", "expires_at": _ONE},
        problems={404: "The key is unknown"},
    ),
    ("GET", "/v1/webhooks"): Operation(
        tag="Webhooks",
        parameters=(_CLUB_ID, _CURSOR),
        response=webhooks.WebhooksBody,
        example={"rows": [_ENDPOINT], "truncated": False, "next_cursor": None},
    ),
    ("POST", "/v1/webhooks"): Operation(
        tag="Webhooks",
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
            409: "The club has too many endpoints, or the endpoint that the request created is deleted",
            422: f"The {KEY} belongs to another request",
        },
    ),
    ("GET", "/v1/webhooks/{endpoint_id}"): Operation(
        tag="Webhooks",
        parameters=(_ENDPOINT_IN_PATH,),
        response=webhooks.WebhookBody,
        example=_ENDPOINT,
        problems=_UNKNOWN_ENDPOINT,
    ),
    ("PATCH", "/v1/webhooks/{endpoint_id}"): Operation(
        tag="Webhooks",
        parameters=(_ENDPOINT_IN_PATH,),
        request=webhooks.ChangeWebhookRequest,
        requests={"off": {"enabled": False}, "moved": {"url": "https://hooks.example.org/v2"}},
        response=webhooks.WebhookBody,
        example=_ENDPOINT,
        problems=_UNKNOWN_ENDPOINT,
    ),
    ("DELETE", "/v1/webhooks/{endpoint_id}"): Operation(
        tag="Webhooks",
        parameters=(_ENDPOINT_IN_PATH,),
        response=webhooks.DeletedWebhookBody,
        example={"id": _ENDPOINT_ID, "status": "deleted"},
        problems=_UNKNOWN_ENDPOINT,
    ),
    ("POST", "/v1/webhooks/{endpoint_id}/rotate"): Operation(
        tag="Webhooks",
        parameters=(_ENDPOINT_IN_PATH, _REPEATED_OPERATION),
        headers=_REPLAYED,
        response=webhooks.NewWebhookBody,
        status=201,
        success="The endpoint has a new secret, which is in this response only",
        example=_NEW_ENDPOINT | {"endpoint": _ENDPOINT | {"previous_secret_until": "2026-11-22T12:00:00Z"}},
        problems=_UNKNOWN_ENDPOINT | {422: f"The {KEY} belongs to another principal's request"},
    ),
    ("POST", "/v1/webhooks/{endpoint_id}/test"): Operation(
        tag="Webhooks",
        parameters=(_ENDPOINT_IN_PATH, _REPEATED_OPERATION),
        headers=_REPLAYED,
        response=webhooks.DeliveryBody,
        status=202,
        success="The event is sent within a minute",
        example=_NEW_DELIVERY | {"event_type": "webhook.test"},
        problems=_UNKNOWN_ENDPOINT | _DISABLED,
    ),
    ("GET", "/v1/webhooks/{endpoint_id}/deliveries"): Operation(
        tag="Webhooks",
        parameters=(_ENDPOINT_IN_PATH, _limit(webhooks.DEFAULT_LIMIT, webhooks.MAX_LIMIT), _CURSOR),
        response=webhooks.DeliveriesBody,
        example={"rows": [_DELIVERY], "truncated": False, "next_cursor": None},
        problems=_UNKNOWN_ENDPOINT,
    ),
    ("POST", "/v1/webhooks/{endpoint_id}/deliveries/{delivery_id}/resend"): Operation(
        tag="Webhooks",
        parameters=(
            _ENDPOINT_IN_PATH,
            Parameter(
                name="delivery_id",
                location="path",
                description="The id of the delivery",
                schema={"type": "string", "minLength": 1},
                example=_DELIVERY_ID,
            ),
            _REPEATED_OPERATION,
        ),
        headers=_REPLAYED,
        response=webhooks.DeliveryBody,
        status=202,
        success="The event is sent again within a minute, under the same webhook-id",
        example=_NEW_DELIVERY,
        problems={404: "The endpoint or the delivery is unknown"} | _DISABLED,
    ),
}
