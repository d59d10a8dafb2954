"""The routes of the events_api function."""

from typing import Any

from functions.events_api.routes import event_types, events, sources, subscriptions
from masscomm.domain import cloud_events
from masscomm.domain.events import EVENT_TYPE_PATTERN, MAX_EVENT_DATA_BYTES, MAX_EVENTS_A_REQUEST
from ops.openapi.operation import ID, Operation, Parameter, Schema
from ops.openapi.parameters import ENDPOINT_ID, SOURCE_ID, SUBSCRIPTION_ID

_SCHEMA = {
    "type": "object",
    "required": ["goals"],
    "properties": {"goals": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
}
_TYPE: dict[str, Any] = {
    "description": "A match has finished",
    "example": {"goals": [2, 1]},
    "schema": _SCHEMA,
    "user_path": None,
}
_SUBSCRIPTION: dict[str, Any] = {
    "endpoint_id": ENDPOINT_ID,
    "types": ["match.*"],
    "club_ids": [1],
    "units": ["100"],
    "filter": {"kind": ["league", "cup"]},
    "fields": ["kind", "goals"],
}
_TO_ENDPOINT: dict[str, Any] = {**_SUBSCRIPTION, "notification": None, "owner": None, "refused": []}
_RULE: dict[str, Any] = {
    "types": ["match.finished"],
    "club_ids": [1],
    "notification": {"type": "announcement", "users_path": "fans", "data": {"goals": "score.goals"}},
}
_UNKNOWN_TYPE = {404: "The event type is unknown"}
_UNKNOWN_SUBSCRIPTION = {404: "The subscription is unknown"}
_EVENT = {"event_id": "match-4711-finished", "type": "match.finished", "club_id": 1, "data": {"goals": [2, 1]}}
# An event in the structured form of CloudEvents.
_CLOUD_EVENT: Schema = {
    "type": "object",
    "required": ["specversion", "id", "source", "type", "clubid", "data"],
    "additionalProperties": False,
    "properties": {
        "specversion": {"const": cloud_events.VERSION},
        "id": {"type": "string", "minLength": 1, "maxLength": cloud_events.MAX_ID, "pattern": "^[!-~]+$"},
        "source": {"type": "string", "minLength": 1, "maxLength": cloud_events.MAX_SOURCE},
        "type": {"type": "string", "pattern": EVENT_TYPE_PATTERN},
        "time": {"type": "string", "format": "date-time"},
        "subject": {"type": "string"},
        "datacontenttype": {"const": "application/json"},
        "clubid": {"type": ["integer", "string"], "description": "The tenant"},
        "unit": {"type": "string", "description": "The path of the unit, such as 100/7"},
        "data": {"type": "object"},
        "dataschema": {"type": "string", "description": "Ignored: the type has the schema"},
        "traceparent": {"type": "string"},
        "tracestate": {"type": "string"},
    },
}

_UNKNOWN_SOURCE = {404: "The source is unknown, or belongs to another club"}
_SOURCE = {
    "club_id": 1,
    "scheme": "stripe",
    "secret": "whsec_a-secret-of-stripe",
    "mapping": {
        "type": {"value": "match.finished"},
        "club_id": {"path": "data.object.metadata.club"},
        "occurred_at": {"path": "created", "unit": "s"},
        "data": {"path": "data.object"},
    },
}
_OWN_HEADER = {
    "club_id": 1,
    "scheme": "hmac",
    "secret": "a-secret-of-the-shop",
    "header": "x-shop-hmac-sha256",
    "encoding": "base64",
    "id_header": "x-shop-webhook-id",
    "description": "The shop",
    "mapping": {"type": {"value": "match.finished"}, "club_id": {"value": 1}},
}
_STORED_SOURCE = {
    "id": SOURCE_ID,
    "url": f"https://in.masscomm.example/v1/in/{SOURCE_ID}",
    "club_ids": [1],
    "description": "",
    "header": "",
    "encoding": "hex",
    "prefix": "",
    "id_header": "",
    **{name: value for name, value in _SOURCE.items() if name != "secret"},
}

OPERATIONS = {
    ("POST", "/v1/events"): Operation(
        description=(
            f"A request has up to {MAX_EVENTS_A_REQUEST} events. The data of each has at most "
            f"{MAX_EVENT_DATA_BYTES // 1024} kB, and fits the schema of its type. An invalid event refuses all. "
            "A request may be repeated: an event that was accepted in the last 24 hours is answered as `repeated`. "
            "A CloudEvent's tenant is its attribute `clubid`, and its unit is `unit`. Its `event_id` contains its `id` "
            "and a digest of its `source`."
        ),
        other_requests={
            cloud_events.CONTENT_TYPE: _CLOUD_EVENT,
            cloud_events.BATCH_CONTENT_TYPE: {
                "type": "array",
                "items": _CLOUD_EVENT,
                "minItems": 1,
                "maxItems": MAX_EVENTS_A_REQUEST,
            },
        },
        request=events.EventsRequest,
        requests={
            "one": {"events": [_EVENT]},
            "of_a_unit": {
                "events": [
                    _EVENT | {"unit": "100/7", "key": "match-4711", "occurred_at": "2026-11-21T12:00:00Z"},
                    _EVENT | {"event_id": "match-4712-finished"},
                ]
            },
        },
        response=events.AcceptedEvents,
        status=202,
        success="Each event is on its topic",
        example={"events": [{"event_id": "match-4711-finished", "club_id": 1, "status": "accepted"}]},
        problems={422: "An event of the last 24 hours has the same `event_id` and other fields"},
    ),
    ("GET", "/v1/event-types"): Operation(
        description=(
            "Each type has a description, an example, and the JSON Schema of the data of its events, if any. Those of "
            "masscomm's own events are among them."
        ),
        response=event_types.EventTypesBody,
        example={"rows": [{"name": "match.finished", **_TYPE}]},
    ),
    ("GET", "/v1/event-types/{event_type}"): Operation(
        description="It has a description, an example, and the JSON Schema of the data of its events, if any.",
        response=event_types.EventTypeBody,
        example={"name": "match.finished", **_TYPE},
        problems=_UNKNOWN_TYPE,
    ),
    ("PUT", "/v1/event-types/{event_type}"): Operation(
        description=(
            "Types concern every tenant, so that credentials for single tenants may not change them. A name has up to "
            "8 parts with dots between them. The example must fit the schema; patterns are matched in linear time, and "
            "references to other documents are refused. Within ten seconds, events are checked against the new schema."
        ),
        request=event_types.EventTypeFields,
        requests={"match_finished": _TYPE},
        response=event_types.EventTypeBody,
        success="The type is stored",
        example={"name": "match.finished", **_TYPE},
        problems={404: "The name contains a control character"},
    ),
    ("DELETE", "/v1/event-types/{event_type}"): Operation(
        description="Further events of the type are refused; subscriptions that name it stay.",
        response=event_types.DeletedEventTypeBody,
        example={"name": "match.finished"},
        problems=_UNKNOWN_TYPE,
    ),
    ("GET", "/v1/sources"): Operation(
        description="No response has the secret of a source.",
        parameters=(Parameter("club_id", "The tenant", ID, 1, required=True),),
        response=sources.SourcesBody,
        example={"rows": [_STORED_SOURCE]},
    ),
    ("POST", "/v1/sources"): Operation(
        description=(
            "The sender posts to the `url` of the source. A POST is answered with 202 before it is checked; one with a "
            "wrong signature, or without an event that the mapping finds, is listed by `GET /v1/sources/{source_id}`. "
            "For each field of an event, `mapping` has a `value`, or the `path` of its value in the body (or "
            "`headers.` and the name of a header); for `occurred_at` also the `unit`: ms, s or iso8601."
        ),
        request=sources.SourceFields,
        requests={"stripe": _SOURCE, "own_header": _OWN_HEADER},
        response=sources.SourceBody,
        status=201,
        success="The source is stored",
        example=_STORED_SOURCE,
        problems={409: "The club has too many sources"},
    ),
    ("GET", "/v1/sources/{source_id}"): Operation(
        description=(
            "`accepted` has the last ten webhooks that became events, `refusals` the last 100 that became none, each "
            "with its reason; both for 14 days."
        ),
        response=sources.ShownSourceBody,
        example=_STORED_SOURCE
        | {
            "accepted": [{"at": "2026-11-21T12:00:05Z", "event_id": "evt_1", "type": "payment.received", "club_id": 7}],
            "refused": 1,
            "refusals": [
                {
                    "at": "2026-11-21T12:00:00Z",
                    "reason": "unmapped",
                    "detail": "club_id at data.object.metadata.club: is missing",
                }
            ],
        },
        problems=_UNKNOWN_SOURCE,
    ),
    ("PUT", "/v1/sources/{source_id}"): Operation(
        description=(
            "All fields are replaced; without `secret` the source keeps its own. The previous secret is accepted for a "
            "day. A change applies within ten seconds."
        ),
        request=sources.SourceFields,
        requests={"stripe": _SOURCE},
        response=sources.SourceBody,
        success="The source is changed",
        example=_STORED_SOURCE,
        problems=_UNKNOWN_SOURCE,
    ),
    ("DELETE", "/v1/sources/{source_id}"): Operation(
        description="Webhooks that are sent to it afterwards are answered with 202, and counted only.",
        response=sources.DeletedSourceBody,
        example={"id": SOURCE_ID},
        problems=_UNKNOWN_SOURCE,
    ),
    ("GET", "/v1/subscriptions"): Operation(
        description=(
            "An endpoint gets an event once, however many of its subscriptions match. Without `endpoint_id`, the "
            "subscriptions are those whose events become notifications: of the caller's clubs, of `club_id`, or, for "
            "credentials of every club, those for all."
        ),
        parameters=(
            Parameter("endpoint_id", "The id of the endpoint", example=ENDPOINT_ID),
            Parameter("club_id", "The club of the notifications", ID),
        ),
        response=subscriptions.SubscriptionsBody,
        example={"rows": [{"id": SUBSCRIPTION_ID, **_TO_ENDPOINT}]},
        problems={404: "The endpoint is unknown"},
    ),
    ("POST", "/v1/subscriptions"): Operation(
        description=(
            "The endpoint gets events of these types, tenants and units whose data passes the filter, and of data the "
            "`fields`. A unit includes the units below it. Events that occur before the subscription are not sent. "
            "With `notification` in the place of an endpoint, each event becomes a send to users of its club, under an "
            "id derived from the event. The caller also needs the scopes of such sends, and each send is made with its "
            "permissions and limits at that time; those of a person are the present ones."
        ),
        request=subscriptions.SubscriptionFields,
        requests={
            "everything": {"endpoint_id": ENDPOINT_ID, "types": ["*"]},
            "units": _SUBSCRIPTION,
            "notification": _RULE,
        },
        response=subscriptions.SubscriptionBody,
        status=201,
        success="The subscription is stored, and applies to events from now on",
        example={"id": SUBSCRIPTION_ID, **_TO_ENDPOINT},
        problems={404: "The endpoint is unknown", 409: "The endpoint has too many subscriptions"},
    ),
    ("POST", "/v1/subscriptions/matches"): Operation(
        description=(
            "The request is an event as `POST /v1/events` takes it, and is checked in the same way. The rows are the "
            "subscriptions of the endpoints of the event's club that match it, and the rules that would make a "
            "notification of it. Disabled endpoints are among them."
        ),
        request=events.EventFields,
        requests={"finished": _EVENT | {"unit": "100/7"}},
        response=subscriptions.SubscriptionsBody,
        example={"rows": [{"id": SUBSCRIPTION_ID, **_TO_ENDPOINT}]},
    ),
    ("GET", "/v1/subscriptions/{subscription_id}"): Operation(
        description="It has the types, tenants, units and the filter of the events that its endpoint, or users, get.",
        response=subscriptions.SubscriptionBody,
        example={"id": SUBSCRIPTION_ID, **_TO_ENDPOINT},
        problems=_UNKNOWN_SUBSCRIPTION,
    ),
    ("DELETE", "/v1/subscriptions/{subscription_id}"): Operation(
        description="Messages that are on their way are sent.",
        response=subscriptions.DeletedSubscriptionBody,
        example={"id": SUBSCRIPTION_ID},
        problems=_UNKNOWN_SUBSCRIPTION,
    ),
}
