"""Relays a function's long poll as server-sent events: a connection that stays open, with an event for each change.

A function that is invoked by API Gateway's REST APIs returns its response as a whole, so the deployed API has the long
poll alone. The relay repeats the long poll: each answer with `changed` is an event, whose id is the answer's `version`.
An answer without a change is a comment, so that a broken connection is noticed. After `complete` the stream ends.

The events end where a poll is refused: a caller who loses its access or its free slot gets no further event.

Source: HTML Living Standard, "Server-sent events": fields id, data and retry; 204 ends reconnection.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from masscomm.http.accept import chosen
from masscomm.http.rest import JSON

EVENT_STREAM = "text/event-stream"
# The long polls that are relayed.
EVENT_ROUTES = frozenset({("GET", "/v1/sends/{send_id}/events")})
# The seconds of one poll, and so the longest time without a byte.
HEARTBEAT_S = 10
_HEADERS = {"Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}

# Returns the response of one poll with these query parameters, authorised anew.
Poll = Callable[[Mapping[str, str]], Awaitable[web.Response]]


def asks_for_events(method: str, path: str, request: web.Request) -> bool:
    """Return whether a request for a route prefers events to one answer. `*/*` prefers the answer."""
    accept = ", ".join(request.headers.getall("Accept", []))
    return (method, path) in EVENT_ROUTES and chosen(accept, (JSON, EVENT_STREAM)) == EVENT_STREAM


def as_poll(event: Mapping[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return the proxy event of a request for events as that of a long poll with these query parameters."""
    query = {**(event["multiValueQueryStringParameters"] or {}), **{name: [text] for name, text in parameters.items()}}
    headers = {name: values for name, values in event["multiValueHeaders"].items() if name.lower() != "accept"}
    headers["Accept"] = [JSON]
    return {
        **event,
        "queryStringParameters": {name: values[-1] for name, values in query.items()},
        "multiValueQueryStringParameters": query,
        "headers": {name: values[-1] for name, values in headers.items()},
        "multiValueHeaders": headers,
    }


async def relay(request: web.Request, poll: Poll) -> web.StreamResponse:
    """Return the response to a request for events: the stream after it has ended, or the refusal of the first poll."""
    after = request.headers.get("Last-Event-ID") or request.query.get("after")
    first = await poll({**({"after": after} if after else {}), "wait": "0"})
    if first.status != web.HTTPOk.status_code:
        return first
    found = _read(first)
    if found["complete"] and not found["changed"]:
        return web.Response(status=web.HTTPNoContent.status_code)
    stream = web.StreamResponse(headers=_HEADERS)
    await stream.prepare(request)
    try:
        while True:
            await stream.write(_event(found))
            if found["complete"]:
                break
            answer = await poll({"after": found["version"], "wait": str(HEARTBEAT_S)})
            if answer.status != web.HTTPOk.status_code:
                retry_after_s = answer.headers.get("Retry-After", "")
                if retry_after_s.isdecimal():
                    await stream.write(f"retry: {int(retry_after_s) * 1000}\n\n".encode())
                break
            found = _read(answer)
        await stream.write_eof()
    except ConnectionResetError:
        # The caller has closed the connection.
        return stream
    return stream


def _read(response: web.Response) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(response.text or "")
    return found


def _event(found: Mapping[str, Any]) -> bytes:
    if not found["changed"]:
        return b": no change\n\n"
    # JSON contains no line break.
    return f"id: {found['version']}\ndata: {json.dumps(found)}\n\n".encode()
