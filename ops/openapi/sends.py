"""The routes of send_handler."""

from dataclasses import replace

from functions.send_handler import list_templates as templates
from functions.send_handler.dry_run import DryRunBody
from functions.send_handler.preview_messages import PreviewBody, PreviewRequest
from functions.send_handler.request_batch import BatchBody, BatchRequest
from functions.send_handler.request_send import AcceptedBody
from functions.send_handler.send_request import SendRequest
from masscomm.domain.limits import SMALLEST_GROUP
from masscomm.http.idempotency import KEY, REPLAYED
from ops.openapi.operation import IDEMPOTENCY_KEY, Operation
from ops.openapi.parameters import CHANNEL, CLUB_ID, TYPE, page

_PROBLEMS = {
    409: f"A request with this {KEY} is in progress (with Retry-After), or the send_id belongs to another send",
    413: "The send is larger than Kafka accepts, or the body is larger than 10 MB",
    415: "The Content-Type is not JSON",
    422: f"The {KEY} belongs to another request",
}

OPERATIONS = {
    ("POST", "/v1/sends"): Operation(
        description="Further scopes: `send:critical` for the priority critical; `send:mandatory` for a mandatory "
        "category, or else `send:content` for own texts (`title` and `body` in `data`, or `image` and `actions` in "
        "`push`). An audience with `except_users` needs `users:read`.",
        parameters=(IDEMPOTENCY_KEY,),
        request=SendRequest,
        requests={
            "text": {"type": "news", "club_id": 1, "to_users": [42], "data": {"title": "Hello", "body": "It works."}},
            "reminder": {
                "type": "match_reminder",
                "club_id": 1,
                "to_users": [42, 43, 44],
                "channels": ["push", "email"],
                "data": {"title": "Today at 18:00", "body": "Your match begins in an hour."},
                "locale": "de-CH",
                "expires_at": "2099-11-24T20:00:00+01:00",
                "collapse_key": "match-4711",
                "reference": "match-4711",
            },
            "rich_push": {
                "type": "news",
                "club_id": 1,
                "to_users": [42],
                "data": {"title": "Goal", "body": "2:1 for Riverside"},
                "push": {
                    "image": "https://club.example/goal.jpg",
                    "badge": 1,
                    "sound": "default",
                    "interruption_level": "time_sensitive",
                    "actions": [{"id": "watch", "title": "Watch", "url": "riverside://matches/7"}],
                    "data": {"match": "7"},
                },
            },
            "silent_push": {
                "type": "news",
                "club_id": 1,
                "to_users": [42],
                "channels": ["push"],
                "push": {"silent": True, "data": {"refresh": "scores"}},
            },
            "one_time_password": {
                "type": "one_time_password",
                "club_id": 1,
                "to_users": [42],
                "data": {"title": "Your code", "body": "123456"},
                "priority": "critical",
            },
        },
        response=AcceptedBody,
        status=202,
        success="Every chunk of the send is on its topic",
        headers={
            "Location": "The path of the send",
            REPLAYED: "`true` if this is the stored response to an earlier request with the same key",
        },
        example={"requested": 1},
        problems=_PROBLEMS,
    ),
    ("POST", "/v1/sends/batch"): Operation(
        description="A send that is invalid or not permitted is refused in its result; the others are accepted. The "
        f"{KEY} applies to the whole batch. Scopes are those of single sends.",
        parameters=(replace(IDEMPOTENCY_KEY, required=True),),
        request=BatchRequest,
        requests={
            "two_sends": {
                "sends": [
                    {
                        "type": "match_reminder",
                        "club_id": 1,
                        "to_users": [42],
                        "data": {"title": "Today at 18:00", "body": "Your match begins in an hour."},
                        "reference": "match-4711",
                    },
                    {
                        "type": "match_reminder",
                        "club_id": 1,
                        "to_users": [43],
                        "data": {"title": "Today at 19:00", "body": "Your match begins in two hours."},
                        "reference": "match-4712",
                    },
                ]
            }
        },
        response=BatchBody,
        success="Every chunk of the accepted sends is on its topic",
        headers={REPLAYED: "`true` if the batch was executed by an earlier request with the same key"},
        example={
            "accepted": 1,
            "refused": 1,
            "results": [
                {"status": 202, "send": {"requested": 1}},
                {
                    "status": 400,
                    "problem": {
                        "type": "about:blank",
                        "title": "Bad Request",
                        "status": 400,
                        "detail": "to_users[0]: Input should be a valid integer",
                        "code": "field_invalid",
                        "parameters": {"field": "to_users[0]", "reason": "Input should be a valid integer"},
                        "texts": {"reason": {"code": "type_integer", "parameters": {}}},
                        "errors": [
                            {
                                "field": "to_users[0]",
                                "message": "Input should be a valid integer",
                                "code": "type_integer",
                                "parameters": {},
                            }
                        ],
                    },
                },
            ],
        },
        problems=_PROBLEMS,
    ),
    ("POST", "/v1/dry-runs"): Operation(
        description="Needs the scopes of the send and `read`, and "
        f"`users:read` for samples and for fewer than {SMALLEST_GROUP} users.",
        request=SendRequest,
        requests={
            "text": {
                "type": "news",
                "club_id": 1,
                "to_users": [42, 43],
                "data": {"title": "Hello", "body": "It works."},
            },
        },
        response=DryRunBody,
        success="What would become of the send; nothing is sent",
        example={
            "requested": 2,
            "reached": 1,
            "channels": [
                {
                    "requested": 2,
                    "deliverable": 1,
                    "suppressed": 1,
                    "reasons": [{"status": "suppressed", "reason": "opted_out", "count_total": 1}],
                }
            ],
            "sms": None,
            "samples": [{"locale": "en", "fields": {"title": "Hello", "body": "It works."}}],
            "warnings": [],
        },
        problems={415: "The Content-Type is not JSON"},
    ),
    ("POST", "/v1/previews"): Operation(
        description="With `user_id`, the key also needs the scope `users:read`.",
        request=PreviewRequest,
        requests={
            "given_values": {
                "type": "match_reminder",
                "club_id": 1,
                "data": {"opponent": "FC Riverside", "kick_off": "19:30"},
                "user": {"first_name": "Ada", "locale": "de-AT", "attributes": {"plan": "gold"}},
            },
            "user": {"type": "news", "club_id": 1, "user_id": 42, "data": {"title": "Hello", "body": "It works."}},
            "draft": {
                "type": "news",
                "club_id": 1,
                "channels": ["push"],
                "draft": {"title": "{{ data.headline }}", "body": "Hello {{ user.first_name or 'there' }}"},
            },
        },
        response=PreviewBody,
        success="The messages; nothing is sent",
        example={
            "messages": [
                {
                    "fields": {"title": "[headline]", "body": "Hello there"},
                    "missing": ["data.headline"],
                    "problem": "a value is missing: data.headline",
                    "problem_text": {"code": "values_missing", "parameters": {"names": "data.headline"}},
                    "platforms": [
                        {"platform": "ios", "body": "Hello there", "payload_bytes": 199},
                        {"platform": "android", "body": "Hello there", "payload_bytes": 223},
                    ],
                }
            ],
            "warnings": [],
        },
        problems={415: "The Content-Type is not JSON"},
    ),
    ("GET", "/v1/templates"): Operation(
        description=(
            "The texts of a category by channel and language, with the variables that each needs. The monolith writes "
            "them; this route only reads."
        ),
        parameters=(CLUB_ID, TYPE, CHANNEL, *page(templates.DEFAULT_LIMIT, templates.MAX_LIMIT)),
        response=templates.TemplatesBody,
        example={
            "rows": [
                {
                    "id": 1001,
                    "type": "match_reminder",
                    "locale": "de-CH",
                    "title": "{{ data.opponent }}",
                    "variables": ["data.kick_off", "data.opponent", "user.first_name"],
                }
            ]
        },
        revalidated=True,
    ),
}
