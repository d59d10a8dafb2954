"""Implements `masscomm send`: requests one send by REST or, as the monolith does, by Kafka, and shows its progress."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

import httpx
from rich.live import Live
from rich.table import Table

from client import ApiError, Client
from client.types import DryRunBody, FieldErrorBody, SendBody
from devstack.client_log import KAFKA_LOGGER
from devstack.handle import StackHandle
from devstack.inbox import Inbox, Message
from devstack.stack import StackError
from devstack.terminal import Terminal
from examples.monolith.emit import Emitter, NotDelivered

WAIT_S = 120.0
POLL_S = 0.3
# After a send to at most this number of users, their messages are shown.
SHOWN_RECIPIENTS = 10
# The statuses of deliverable notifications that the reasons of a dry run contain: those of simulator recipients.
_AFTER_DELIVERY = ("delivered", "bounced")


def recipients(text: str) -> list[int]:
    """Return the user ids in a text such as `1,2,5-9`, in that order. Raises StackError with the invalid part."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise StackError(f"{part.strip()!r} is neither a user id nor a range as 1-100.")
        found.extend(range(int(first), int(last) + 1) if dash else [int(first)])
    if not found:
        raise StackError(f"{text!r} names no user.")
    return found


def pairs(texts: Sequence[str]) -> dict[str, str]:
    """Return `key=value` texts as a mapping. Raises StackError with the invalid text."""
    found = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not key or not separator:
            raise StackError(f"{text!r} is not KEY=VALUE.")
        found[key] = value
    return found


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
            show_dry_run(api.dry_run(**_request(type, club_id, users, channels, variables, critical=critical)), console)
            return None
        if via == "rest":
            accepted = api.send(**_request(type, club_id, users, channels, variables, critical=critical))
            send_id = accepted["send_id"]
            show_warnings(accepted.get("warnings", ()), console)
        elif via == "kafka":
            with Emitter(stack.config.kafka_bootstrap, stack.config.registry_url, logger=KAFKA_LOGGER) as emitter:
                send_id = emitter.send(type, club_id, users, critical=critical, channels=list(channels), data=variables)
        else:
            raise StackError(f"--via {via} is neither rest nor kafka.")
        console.print(f"send_id {send_id}")
        console.print(f"{stack.config.gateway_url}/v1/sends/{send_id}", soft_wrap=True)
        if wait:
            follow(api, send_id, console)
            if len(users) <= SHOWN_RECIPIENTS:
                with closing(Inbox(stack.config, users)) as inbox:
                    show_messages(inbox.of_send(send_id), console)
    except (ApiError, NotDelivered, httpx.HTTPError) as error:
        raise StackError(f"The send was not taken or cannot be followed: {error}") from error
    finally:
        api.close()
    return send_id


def follow(
    api: Client, send_id: str, console: Terminal, timeout_s: float = WAIT_S, *, through_quiet_hours: bool = False
) -> None:
    """Show the counts of a send until each of its notifications has ended or, unless through_quiet_hours, is held.
    Raises StackError after timeout_s s.
    """
    send: SendBody | None = None
    held = 0
    with Live(_table(send), console=console, transient=not console.is_terminal) as live:
        try:
            for send in api.follow(send_id, timeout_s=timeout_s, poll_s=POLL_S):
                live.update(_table(send))
                held = send["totals"]["held"]
                if held and held == send["totals"]["in_flight"] and not through_quiet_hours:
                    break
        except TimeoutError as error:
            raise StackError(f"Send {send_id} is still under way after {timeout_s:.0f} s.") from error
    if not console.is_terminal:
        console.print(_table(send))
    if held:
        console.print(
            f"{held:,} held until the end of their users' quiet hours; `masscomm sends recipients {send_id}` names it.",
            soft_wrap=True,
        )


def show_dry_run(body: DryRunBody, console: Terminal) -> None:
    """Print what would become of a send, with its samples and warnings."""
    qualifier = ", estimated from a sample" if body["estimated"] else ""
    table = Table(
        title=f"{body['requested']:,} notifications{qualifier}; nothing was sent", title_justify="left", box=None
    )
    for name in ("channel", "end", "notifications", "from", "to"):
        table.add_column(name, no_wrap=True)
    for channel in body["channels"]:
        simulated = sum(each["count_total"] for each in channel["reasons"] if each["status"] in _AFTER_DELIVERY)
        table.add_row(channel["channel"], "deliverable", f"{channel['deliverable'] - simulated:,}")
        for each in channel["reasons"]:
            end = " ".join(filter(None, (each["status"], each["reason"] and f"({each['reason']})")))
            table.add_row("", end, f"{each['count_total']:,}", each["first_at"] or "", each["last_at"] or "")
    console.print(table)
    for sample in body["samples"]:
        console.print(f"\n{sample['channel']} in {sample['locale']}, as to user {sample['user_id']}:", soft_wrap=True)
        for name, text in sample["fields"].items():
            console.print(f"  {name}: {text}", soft_wrap=True, markup=False)
    show_warnings(body["warnings"], console)


def show_warnings(warnings: Iterable[FieldErrorBody], console: Terminal) -> None:
    """Print the warnings of a send: the parts of its content that have no effect."""
    for warning in warnings:
        console.print(f"warning: {warning['field']} {warning['message']}", soft_wrap=True, style="yellow")


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


def _table(send: SendBody | None) -> Table:
    """Return the counts of a send on all channels; None is a send of which nothing is counted yet."""
    table = Table()
    for name in ("requested", "suppressed", "sent", "failed", "in flight"):
        table.add_column(name, justify="right")
    if send is None:
        table.add_row(*"00000")
        return table
    totals = send["totals"]
    suppressed = "\n".join(f"{count:,} {reason}" for reason, count in totals["suppressed"].items())
    failed = sum(totals["failed"].values())
    numbers = (f"{number:,}" for number in (totals["sent"], failed, totals["in_flight"]))
    table.add_row(f"{totals['requested']:,}", suppressed or "0", *numbers)
    return table
