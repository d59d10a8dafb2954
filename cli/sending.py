"""Shared by the commands that send: their arguments, the progress of a send, its dry run and warnings."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.columns import Columns
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cli.errors import CommandError
from cli.terminal import Terminal, print_json
from masscomm.domain.limits import NAME_PATTERN
from masscomm.domain.send_states import FINAL
from masscomm.integers import integer
from masscomm_client import Client
from masscomm_client.calls import UNKNOWN_S
from masscomm_client.types import DryRunBody, FieldErrorBody, PreviewedMessage, SendBody, Totals

WAIT_S = 120.0
_CONDITION = """'{"field": "locale", "is": "de"}'"""
_PUSH = """'{"badge": 1, "sound": "default"}'"""
POLL_S = 0.3
# The statuses of deliverable notifications that the reasons of a dry run contain: those of simulator recipients.
_AFTER_DELIVERY = ("delivered", "bounced")


def recipients(text: str) -> list[int]:
    """Return the user ids in a text such as `1,2,5-9`, in that order. Raises CommandError with the invalid part."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            lowest = integer(first, 0)
            found.extend(range(lowest, integer(last, 0) + 1) if dash else [lowest])
        except ValueError as error:
            raise CommandError(f"{part.strip()!r} is neither a user id nor a range as 1-100.") from error
    if not found:
        raise CommandError(f"{text!r} names no user.")
    return found


def pairs(texts: Sequence[str]) -> dict[str, str]:
    """Return `key=value` texts as a mapping. Raises CommandError with the invalid text."""
    found = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not key or not separator:
            raise CommandError(f"{text!r} is not KEY=VALUE.")
        found[key] = value
    return found


def audience_of(where: str | None, without: Sequence[int] | None, follows: str | None = None) -> dict[str, Any]:
    """Return the audience of a condition in JSON, or of the name of a saved audience; None and `all` are all users of
    the club, or all that follow an object. Raises CommandError.
    """
    try:
        audience: dict[str, Any] = {"all_users": True} if follows is None else {}
        if where not in (None, "all"):
            is_name = re.fullmatch(NAME_PATTERN, where)
            audience = {"saved": where} if is_name else {"where": json.loads(where)}
    except ValueError as error:
        raise CommandError(f"The condition is not JSON: {error}. Such as {_CONDITION}") from error
    if follows is not None:
        audience["follows"] = follows
    return audience | {"except_users": list(without or ())}


def fallback_of(text: str) -> dict[str, str]:
    """Return the channel with its condition in a text such as email:not_sent:10m. The API checks its values. Raises
    CommandError.
    """
    parts = text.split(":")
    if len(parts) != 3 or not all(parts):
        raise CommandError(f"{text!r} is no fallback: write --fallback email:not_sent:10m.")
    return {"channel": parts[0], "if": parts[1], "after": parts[2]}


def push_of(text: str) -> dict[str, Any]:
    """Return the JSON object in a text. Raises CommandError."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CommandError(f"--push is not JSON: {error}. Such as {_PUSH}") from error
    if not isinstance(found, dict):
        raise CommandError(f"--push is not a JSON object. Such as {_PUSH}")
    return found


def follow(
    api: Client,
    send_id: str,
    console: Terminal,
    timeout_s: float = WAIT_S,
    *,
    through_quiet_hours: bool = False,
    as_json: bool = False,
    unknown_s: float = UNKNOWN_S,
    messages: Iterator[list[Text]] | None = None,
) -> None:
    """Show the counts of a send and the share of notifications that have ended, until each has ended or, unless
    through_quiet_hours, is held or collected. With as_json, print the send whenever its status or its counts have
    changed. Raises CommandError after timeout_s s, and ApiError if the send is unknown for unknown_s s.

    Args:
        messages: At each step, the messages that have reached their receivers since the step before: they arrive
            some seconds before the metrics have counted them.
    """
    reads = _reads(
        api.follow(send_id, timeout_s=timeout_s, poll_s=POLL_S, unknown_s=unknown_s),
        through_quiet_hours=through_quiet_hours,
    )
    if as_json:
        shown: object = None
        for send in reads:
            if (seen := (send.get("status"), send["totals"])) != shown:
                print_json(send)
            shown = seen
        return
    last: SendBody | None = None
    arrived = 0
    with Live(_progress(last), console=console, transient=not console.is_terminal) as live:
        for last in reads:
            for message in next(messages) if messages is not None else ():
                console.print(message, soft_wrap=True)
                arrived += 1
            live.update(_progress(last))
    if messages is not None and not arrived:
        console.print("No message reached a device or a mailbox.")
    if not console.is_terminal:
        console.print(_progress(last))
    totals = None if last is None else last["totals"]
    if collected := 0 if totals is None else totals["collected"]:
        console.print(f"{collected:,} collected in digests of their users.", soft_wrap=True)
    if held := 0 if totals is None else totals["held"]:
        console.print(
            f"{held:,} held until the end of their users' quiet hours; `masscomm sends recipients {send_id}` names it.",
            soft_wrap=True,
        )


def _reads(followed: Iterator[SendBody], *, through_quiet_hours: bool) -> Iterator[SendBody]:
    """Yield a send until each notification has ended, counted or not, or, unless through_quiet_hours, is held or
    collected. Raises CommandError.
    """
    try:
        for send in followed:
            yield send
            if send.get("status") in FINAL:
                return
            totals = send["totals"]
            waiting = totals["held"] + totals["collected"] if totals else 0
            if totals and 0 < waiting == totals["in_flight"] and not through_quiet_hours:
                return
    except TimeoutError as error:
        raise CommandError(str(error)) from error


def show_dry_run(body: DryRunBody, console: Terminal) -> None:
    """Print what would become of a send, with its samples and warnings."""
    qualifier = ", estimated from a sample" if body["estimated"] else ""
    table = Table(
        title=f"{body['requested']:,} notifications{qualifier}, as of {body['counted_at']}; nothing was sent",
        title_justify="left",
        box=None,
    )
    for name in ("channel", "end", "notifications", "from", "to"):
        table.add_column(name, no_wrap=True)
    for channel in body["channels"]:
        simulated = sum(each["count_total"] for each in channel["reasons"] if each["status"] in _AFTER_DELIVERY)
        table.add_row(channel["channel"], "deliverable", f"{channel['deliverable'] - simulated:,}")
        if channel["if_needed"]:
            table.add_row("", "if the channel before it is not sent", f"{channel['if_needed']:,}")
        for each in channel["reasons"]:
            end = " ".join(filter(None, (each["status"], each["reason"] and f"({each['reason']})")))
            table.add_row("", end, f"{each['count_total']:,}", each["first_at"] or "", each["last_at"] or "")
    console.print(table)
    if body["minutes"] is not None:
        console.print(f"It takes {body['minutes']:,} minutes at its pace.")
    if (sms := body["sms"]) is not None:
        console.print(
            f"{sms['segments']:,} segments of SMS, ${sms['usd']:,.2f} at the prices of {sms['prices_as_of']}:"
        )
        for country in sms["countries"]:
            console.print(f"  {country['country']}: {country['segments']:,} segments, ${country['usd']:,.2f}")
        for refused in sms["refused"]:
            console.print(f"  {refused['country'] or 'no country'}: {refused['messages']:,} SMS not sent there")
    for sample in body["samples"]:
        console.print(f"\n{sample['channel']} in {sample['locale']}, as to user {sample['user_id']}:", soft_wrap=True)
        for name, text in sample["fields"].items():
            console.print(f"  {name}: {text}", soft_wrap=True, markup=False)
    show_warnings(body["warnings"], console)


def show_warnings(warnings: Iterable[FieldErrorBody], console: Terminal) -> None:
    """Print the warnings of a send: the parts of its content that have no effect."""
    for warning in warnings:
        console.print(f"warning: {warning['field']} {warning['message']}", soft_wrap=True, style="yellow")


def _progress(send: SendBody | None) -> Group:
    """Return the share of a send's notifications with a final status as a bar, and its counts."""
    if send is not None and send["totals"] is None:
        return Group(Text(f"{send['status']}; the counts are not available now"))
    totals = None if send is None else send["totals"]
    requested = 0 if totals is None else totals["requested"]
    ended = 0 if totals is None else requested - totals["in_flight"]
    share = f"{ended / requested:.0%} of {requested:,} notifications have ended" if requested else "not counted yet"
    bar = ProgressBar(total=max(1, requested), completed=ended, width=40)
    return Group(Columns([bar, Text(share)]), _table(totals))


def _table(totals: Totals | None) -> Table:
    """Return the counts of a send on all channels; None is a send of which nothing is counted yet."""
    table = Table()
    for name in ("requested", "suppressed", "sent", "failed", "in flight"):
        table.add_column(name, justify="right")
    if totals is None:
        table.add_row(*"00000")
        return table
    suppressed = "\n".join(f"{count:,} {reason}" for reason, count in totals["suppressed"].items())
    failed = sum(totals["failed"].values())
    numbers = (f"{number:,}" for number in (totals["sent"], failed, totals["in_flight"]))
    table.add_row(f"{totals['requested']:,}", suppressed or "0", *numbers)
    return table


def shown_message(message: PreviewedMessage) -> Text:
    """Return a message as text for a terminal."""
    of = message["template"]
    source = "" if of is None else f", template {of['id']} ({of['locale']})"
    shown = Text.assemble((f"{message['channel']}{source}", "cyan"))
    for name, text in (message["fields"] or {}).items():
        shown.append(f"\n  {name}: ", "dim")
        shown.append("\n    ".join(text.splitlines()))
    for each in message["platforms"]:
        if each["shortened"] or each["too_large"]:
            end = "is shortened" if each["shortened"] else "is too large"
            shown.append(f"\n  on {each['platform']} it {end}: {each['payload_bytes']:,} bytes", "yellow")
    if (sms := message["sms"]) is not None:
        usd = [each["usd"] for each in sms["countries"]]
        price = f", ${min(usd):.4f} to ${max(usd):.4f} at the prices of {sms['prices_as_of']}" if usd else ""
        end = ", too large" if sms["too_large"] else ""
        shown.append(f"\n  {sms['segments']} segments ({sms['encoding']}){price}{end}", "yellow" if end else "dim")
    if message["problem"] is not None:
        shown.append(f"\n  {message['problem']}", "red")
    return shown
