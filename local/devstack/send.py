"""Implements `masscomm send`: requests one send by REST or, as the monolith does, by Kafka, and shows its progress."""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import httpx

from cli.client_log import KAFKA_LOGGER
from cli.sending import WAIT_S, follow, pairs, recipients, show_dry_run, show_warnings
from cli.terminal import Terminal, print_json
from examples.monolith.emit import Emitter, NotDelivered
from local.devstack.handle import StackHandle
from local.devstack.inbox import Inbox, Message
from local.devstack.stack import StackError
from masscomm_client import ApiError, Client

# After a send to at most this number of users, their messages are shown.
SHOWN_RECIPIENTS = 10


def send(
    stack: StackHandle,
    *,
    to: str,
    club_id: int = 1,
    type: str = "news",
    via: str = "rest",
    data: Sequence[str] = (),
    channels: Sequence[str] = (),
    critical: bool = False,
    wait: bool = False,
    dry_run: bool = False,
    as_json: bool = False,
    console: Terminal | None = None,
) -> str | None:
    """Request a send, print its id and where to follow it, and return the id; None after a dry run.

    Args:
        stack: The running stack.
        to: User ids and ranges, `1,2,5-9`.
        club_id: The tenant.
        type: The category.
        via: rest or kafka.
        data: KEY=VALUE for the template.
        channels: Empty for the category's own.
        critical: Use the critical lane.
        wait: Follow the send until nothing is in flight, and print the messages of a small send.
        dry_run: Send nothing, and print what would become of the send.
        as_json: Print JSON objects: what a dry run found; or the accepted send and, while it is followed, its changes.
        console: The terminal.

    Raises:
        StackError: The API, Kafka or the registry refused the send; the message has their reason.
    """
    console = console or Terminal()
    users, variables = recipients(to), pairs(data)
    api = Client(stack.config.gateway_url, key=os.environ.get("MASSCOMM_API_KEY") or stack.config.api_key)
    try:
        if dry_run and via != "rest":
            raise StackError("A dry run is by REST: leave --via out.")
        if dry_run:
            found = api.dry_run(**_request(type, club_id, users, channels, variables, critical=critical))
            print_json(found) if as_json else show_dry_run(found, console)
            return None
        accepted: Mapping[str, Any]
        if via == "rest":
            accepted = api.send(**_request(type, club_id, users, channels, variables, critical=critical))
            send_id = str(accepted["send_id"])
            if not as_json:
                show_warnings(accepted.get("warnings", ()), console)
        elif via == "kafka":
            with Emitter(stack.config.kafka_bootstrap, stack.config.registry_url, logger=KAFKA_LOGGER) as emitter:
                send_id = emitter.send(type, club_id, users, critical=critical, channels=list(channels), data=variables)
            accepted = {"send_id": send_id, "links": {"self": f"/v1/sends/{send_id}"}}
        else:
            raise StackError(f"--via {via} is neither rest nor kafka.")
        if as_json:
            print_json(accepted)
        else:
            console.print(f"send_id {send_id}")
            console.print(f"{stack.config.gateway_url}/v1/sends/{send_id}", soft_wrap=True)
        if wait:
            # The send exists, even while the metrics job has not counted it.
            follow(api, send_id, console, as_json=as_json, unknown_s=WAIT_S)
            if not as_json and len(users) <= SHOWN_RECIPIENTS:
                with closing(Inbox(stack.config, users)) as inbox:
                    show_messages(inbox.of_send(send_id), console)
    except (ApiError, NotDelivered, httpx.HTTPError) as error:
        raise StackError(f"The send was not taken or cannot be followed: {error}") from error
    finally:
        api.close()
    return send_id


def show_messages(messages: Sequence[Message], console: Terminal) -> None:
    """Print messages as the recipients received them."""
    if not messages:
        console.print("No message reached a device or a mailbox.")
    for message in messages:
        console.print(message.rendered(), soft_wrap=True)


def _request(
    type_: str, club_id: int, users: Sequence[int], channels: Sequence[str], data: Mapping[str, str], *, critical: bool
) -> dict[str, Any]:
    request: dict[str, Any] = {"type": type_, "club_id": club_id, "to_users": list(users)}
    if channels:
        request["channels"] = list(channels)
    if data:
        request["data"] = dict(data)
    if critical:
        request["priority"] = "critical"
    return request
