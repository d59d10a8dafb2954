"""The routes of operations_handler."""

from functions.operations_handler.routes import alarms, categories, dead_letters, devices, health, keys, suppressions
from functions.operations_handler.routes.suppressions import sha256
from masscomm.domain.ids import address_id
from masscomm.http import parameters as parse
from masscomm.http.tenant import parse_club_id
from openapi.operation import DATE_TIME, ID, Operation, Parameter, number, several

_NOON, _ONE = "2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z"
_ADDRESS_ID = address_id("ada@example.org")
_KEY_ID = "7d793037a0760186"
_CURSOR = Parameter(name="cursor", description="`next_cursor` of the previous page")
_CLUB_ID = Parameter(name="club_id", description=parse_club_id.__doc__ or "", schema=several(ID), example=[1])
_POSITION = Parameter(
    name="position",
    location="path",
    description="The position of the dead letter, partition@offset",
    schema={"type": "string", "minLength": 1},
    example="0@17",
)
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
        description="A letter without a readable club is visible to callers who may see every club.",
        parameters=(
            Parameter(name="club_id", description=parse_club_id.__doc__ or "", schema=ID, example=1),
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
                description=dead_letters.status.__doc__ or "",
                schema={"enum": list(dead_letters.STATUSES)},
                example="open",
            ),
            Parameter(name="start", description=parse.time.__doc__ or "", schema=DATE_TIME, example=_NOON),
            Parameter(name="end", description=parse.time.__doc__ or "", schema=DATE_TIME, example=_ONE),
            _limit(dead_letters.DEFAULT_LIMIT, dead_letters.MAX_LIMIT),
            _CURSOR,
        ),
        response=dead_letters.DeadLettersBody,
        example={"rows": [_LETTER], "truncated": False, "next_cursor": None},
    ),
    ("GET", "/v1/dead-letters/{position}"): Operation(
        tag="Operations",
        parameters=(_POSITION,),
        response=dead_letters.DeadLetterBody,
        example={
            "letter": _LETTER,
            "history": [],
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
        parameters=(_POSITION,),
        response=dead_letters.ReplayedBody,
        success="The record is on its source topic",
        example={"position": "0@17", "status": "replayed", "topic": "send.api"},
        problems=_UNKNOWN | _CHANGED,
    ),
    ("POST", "/v1/dead-letters/{position}/discard"): Operation(
        tag="Operations",
        parameters=(_POSITION,),
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
                description=devices.reason.__doc__ or "",
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
                description=f"The SHA-256 of the address in small letters: {sha256.__doc__}",
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
        example={"id": f"1-{_ADDRESS_ID}", "status": "removed", "remains_for_every_club": False},
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
        request=keys.CreateKeyRequest,
        requests={
            "shop": {"name": "shop", "clubs": [1], "scopes": ["send", "read"], "recipients_a_day": 100_000},
            "tests": {"name": "shop-tests", "clubs": [1], "scopes": ["send"], "mode": "test"},
        },
        response=keys.NewKeyBody,
        status=201,
        success="The key is stored. Its text is in this response only",
        example=_NEW_KEY,
    ),
    ("POST", "/v1/keys/{key_id}/rotate"): Operation(
        tag="Operations",
        parameters=(_KEY_IN_PATH,),
        request=keys.RotateKeyRequest,
        requests={"tomorrow": {"hours": 24}},
        response=keys.NewKeyBody,
        status=201,
        success="The new key is stored. Its text is in this response only",
        example=_NEW_KEY,
        problems={404: "The key is unknown", 409: "The key has ended"},
    ),
    ("POST", "/v1/keys/{key_id}/revoke"): Operation(
        tag="Operations",
        parameters=(_KEY_IN_PATH,),
        response=keys.RevokedKeyBody,
        example={"id": _KEY_ID, "status": "revoked", "expires_at": _ONE},
        problems={404: "The key is unknown"},
    ),
}
