"""The commands `masscomm preferences`: they show and change the preferences of one user, and the rules of a tenant,
through the REST API.
"""

from typing import Annotated, Any

import typer
from rich.table import Table

from cli.errors import CommandError
from cli.options import JsonOption
from cli.sends import calling
from cli.terminal import Terminal, print_json
from masscomm.domain.channels import CHANNELS
from masscomm_client import Client
from masscomm_client.types import (
    PreferencesBody,
    PreferencesRequest,
    QuietHoursBody,
    TenantPreferencesBody,
    TenantPreferencesFields,
)

app = typer.Typer(no_args_is_help=True)
tenant_app = typer.Typer(no_args_is_help=True)
app.add_typer(tenant_app, name="tenant")
console = Terminal()

QUIET_HOURS = "quiet_hours"
_WORDS = {"on": True, "off": False}

UserOption = Annotated[int, typer.Option("--user", help="The user's id.")]


@app.command()
@calling
def show(*, api: Client, user: UserOption, as_json: JsonOption = False) -> None:
    """Show for each category and channel whether notifications reach the user."""
    found = api.preferences(user)
    _print(found, as_json=as_json)


@app.command("set")
@calling
def set_preferences(
    rules: Annotated[
        list[str],
        typer.Argument(
            metavar="RULE...",
            help="CATEGORY=on, CATEGORY.CHANNEL=off, or CHANNEL=off for categories without a rule;"
            " quiet_hours=22:00-07:00 or quiet_hours=off.",
        ),
    ],
    *,
    api: Client,
    user: UserOption,
    as_json: JsonOption = False,
) -> None:
    """Set rules of a user. Other rules stay as they are."""
    body = body_of(rules)
    found = api.set_preferences(user, **body)
    _print(found, as_json=as_json)


TenantArgument = Annotated[
    str, typer.Argument(metavar="TENANT", help="The id of the tenant, or default for the rules of every tenant.")
]
EtagOption = Annotated[
    str | None, typer.Option("--if-match", metavar="ETAG", help="Only if the rules still have this etag.")
]


@tenant_app.callback()
def _tenant() -> None:
    """The rules of a tenant, which apply to users without a rule."""


@tenant_app.command("show")
@calling
def show_tenant(tenant: TenantArgument, *, api: Client, as_json: JsonOption = False) -> None:
    """Show the rules of a tenant."""
    _print_tenant(api.tenant_preferences(tenant), as_json=as_json)


@tenant_app.command("put")
@calling
def put_tenant(
    tenant: TenantArgument,
    rules: Annotated[
        list[str],
        typer.Argument(
            metavar="RULE...",
            help="CATEGORY=on, CATEGORY.CHANNEL=off, or CHANNEL=off for categories without a rule.",
        ),
    ],
    *,
    api: Client,
    if_match: EtagOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replace all rules of a tenant."""
    body = body_of(rules)
    if QUIET_HOURS in body:
        raise CommandError("A tenant has no quiet hours.")
    fields: TenantPreferencesFields = {"channels": body.get("channels", {}), "categories": body.get("categories", {})}
    found = api.set_tenant_preferences(tenant, if_match=if_match, **fields)
    _print_tenant(found, as_json=as_json)


@tenant_app.command("delete")
@calling
def delete_tenant(
    tenant: TenantArgument, *, api: Client, if_match: EtagOption = None, as_json: JsonOption = False
) -> None:
    """Remove all rules of a tenant."""
    _print_tenant(api.delete_tenant_preferences(tenant, if_match=if_match), as_json=as_json)


def _print_tenant(found: TenantPreferencesBody, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    club_id = found["club_id"]
    console.print("Every tenant" if club_id is None else f"Tenant {club_id}")
    rules: dict[str, bool] = {}
    for category, rule in found["categories"].items():
        named = {"": rule} if isinstance(rule, bool) else rule
        rules |= {f"{category}.{channel}" if channel else category: wanted for channel, wanted in named.items()}
    rules |= found["channels"]
    for name, wanted in rules.items():
        console.print(f"{name}={'on' if wanted else 'off'}")
    if not rules:
        console.print("no rules")


def body_of(rules: list[str]) -> PreferencesRequest:
    """Return the body of a request for these rules. Raises CommandError for an invalid one."""
    body: PreferencesRequest = {}
    channels: dict[str, bool] = {}
    categories: dict[str, Any] = {}
    for rule in rules:
        name, _, word = rule.partition("=")
        if name == QUIET_HOURS:
            body["quiet_hours"] = _hours_in(rule, word)
            continue
        if not name or word not in _WORDS:
            raise CommandError(
                f"{rule} is no rule: write CATEGORY=off, CATEGORY.CHANNEL=on, CHANNEL=off or quiet_hours=22:00-07:00."
            )
        category, _, channel = name.partition(".")
        if channel:
            known = categories.setdefault(category, {})
            if not isinstance(known, dict):
                raise CommandError(f"{rule}: {category} has a rule for every channel already.")
            known[channel] = _WORDS[word]
        elif category in CHANNELS:
            channels[category] = _WORDS[word]
        else:
            if category in categories:
                raise CommandError(f"{rule}: {category} has another rule already.")
            categories[category] = _WORDS[word]
    if channels:
        body["channels"] = channels
    if categories:
        body["categories"] = categories
    return body


def _hours_in(rule: str, word: str) -> QuietHoursBody | None:
    if word == "off":
        return None
    start, separator, end = word.partition("-")
    if not separator:
        raise CommandError(f"{rule} has no quiet hours: write quiet_hours=22:00-07:00, or quiet_hours=off.")
    return {"start": start, "end": end}


def _print(found: PreferencesBody, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    table = Table(title=f"User {found['user_id']} of club {found['club_id']}", title_justify="left", box=None)
    for name in ("category", "channel", "gets it", "rule"):
        table.add_column(name, overflow="fold")
    for each in found["effective"]:
        table.add_row(each["category"], each["channel"], "yes" if each["wanted"] else "no", each["rule"] or "")
    console.print(table)
    hours = found["quiet_hours"]
    console.print("Quiet hours: " + (f"{hours['start']} to {hours['end']}" if hours else "none"))
    if found["pending"]:
        console.print("The monolith has not applied the latest change yet. It applies to notifications already.")
