"""The command `masscomm keys`: it creates, lists, rotates and revokes API keys."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import typer

from cli.installation import Installation, installation_of_tables
from cli.options import JsonOption, given
from cli.terminal import Terminal, print_json
from masscomm.http.scopes import DEFAULT_SCOPES, Scope, scopes_text
from masscomm.operations import keys as management
from masscomm.stores.api_keys.dynamodb import TABLE, ApiKeys
from masscomm.stores.api_keys.port import LIMIT_SETTINGS, LIVE, TEST, ApiKey, every_key

app = typer.Typer(no_args_is_help=True)
console = Terminal()
errors = Terminal(stderr=True)

_DAY_S = 86_400
KeyIdArgument = Annotated[str, typer.Argument(help="The key's id, as `list` shows it.")]


@app.command()
@given(installation=installation_of_tables)
def create(
    *,
    installation: Installation,
    name: Annotated[str, typer.Option("--name", help="For people: the system that uses the key.")],
    club: Annotated[list[int] | None, typer.Option("--club", help="A club of the key. May be repeated.")] = None,
    every_club: Annotated[bool, typer.Option("--every-club", help="The key sees every club.")] = False,
    scope: Annotated[
        list[Scope] | None, typer.Option("--scope", help="A scope of the key. May be repeated; without any: read.")
    ] = None,
    days: Annotated[int | None, typer.Option("--days", min=1, max=3_660, help="The key ends after this time.")] = None,
    test: Annotated[bool, typer.Option("--test", help="The key sends to simulator recipients only.")] = False,
    requests: Annotated[
        int | None, typer.Option("--requests-a-minute", min=1, help="The maximum; without it, no limit.")
    ] = None,
    recipients: Annotated[
        int | None,
        typer.Option("--recipients-a-day", min=1, help="The maximum in a UTC day; without it, no limit."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a key and print it. The key is shown only once, because only its SHA-256 is stored."""
    clubs = "*" if every_club else ",".join(str(each) for each in sorted(set(club or [])))
    if every_club == bool(club) or not management.is_readable(clubs):
        errors.print("Name the key's clubs, each above 0, by --club, or use --every-club.")
        raise typer.Exit(1)
    now_s = int(time.time())
    made = ApiKey(
        digest="",
        name=name,
        clubs=clubs,
        scopes=scopes_text(set(scope or DEFAULT_SCOPES)),
        created_at=now_s,
        expires_at=None if days is None else now_s + days * _DAY_S,
        requests_a_minute=requests,
        recipients_a_day=recipients,
        mode=TEST if test else LIVE,
    )
    _print_new(management.create(_keys(installation), made, installation.audit), as_json=as_json)


@app.command("list")
@given(installation=installation_of_tables)
def list_keys(*, installation: Installation, as_json: JsonOption = False) -> None:
    """Show each key: id, name, clubs, scopes, creation, end and last use (at most a minute late)."""
    found = sorted(every_key(_keys(installation)), key=lambda key: (key.name, key.created_at))
    if as_json:
        for each in found:
            print_json(_shown(each))
        return
    console.print(f"{len(found)} keys")
    for each in found:
        shown = {name: value or "-" for name, value in _shown(each).items()}
        limits = [f"{limit:,} {name.replace('_', ' ')}" for name in LIMIT_SETTINGS if (limit := getattr(each, name))]
        console.entry(
            f"{each.key_id} {each.name}",
            ", ".join([f"clubs {each.clubs}", f"scopes {each.scopes}", each.mode, *limits]),
            f"created {shown['created_at']}, last used {shown['last_used_at']}, end {shown['expires_at']}",
        )


@app.command()
@given(installation=installation_of_tables)
def rotate(
    key_id: KeyIdArgument,
    *,
    installation: Installation,
    hours: Annotated[
        int, typer.Option("--hours", min=0, max=720, help="The previous key is valid for this time.")
    ] = 24,
    as_json: JsonOption = False,
) -> None:
    """Create a key with the same name, clubs, scopes, limits and end, and end the previous one."""
    keys = _keys(installation)
    previous = _by_id(keys, key_id)
    try:
        new = management.rotate(keys, previous, now_s=int(time.time()), hours=hours, audit=installation.audit)
    except management.KeyHasEnded:
        errors.print(f"Key {key_id} has ended. Create a new one.")
        raise typer.Exit(1) from None
    except management.KeyEndsFirst as first:
        errors.print(
            f"Key {key_id} ends at {_time(first.end)}, within the {hours} hours, and a new key would end with it."
            " Rotate the key that was made in its place, or create one.",
            soft_wrap=True,
        )
        raise typer.Exit(1) from None
    _print_new(new, as_json=as_json)


@app.command()
@given(installation=installation_of_tables)
def revoke(key_id: KeyIdArgument, *, installation: Installation, as_json: JsonOption = False) -> None:
    """End a key now. API Gateway may accept the key for another minute, because it caches the authorizer's answer."""
    keys = _keys(installation)
    key = _by_id(keys, key_id)
    end = management.revoke(keys, key, now_s=int(time.time()), audit=installation.audit)
    if as_json:
        print_json(_shown(replace(key, expires_at=end)))
    else:
        console.print(f"Key {key.key_id} is revoked.")


def _keys(installation: Installation) -> ApiKeys:
    return ApiKeys(installation.dynamodb(), installation.table(TABLE))


def _by_id(keys: ApiKeys, key_id: str) -> ApiKey:
    """Return the key with this id. If there is none, exit with status 1."""
    found = keys.find_by_id(key_id)
    if found is None:
        errors.print(f"No key has the id {key_id}. `masscomm keys list` shows them.")
        raise typer.Exit(1)
    return found


def _print_new(new: management.NewKey, *, as_json: bool) -> None:
    stored = new.key
    if as_json:
        print_json({"key": new.text, "sha256": stored.digest, **_shown(stored)})
    else:
        console.print(f"Key {stored.key_id} of {stored.name}, shown only now:")
        console.print(new.text)
        console.print(f"SHA-256, the value of its key in API Gateway: {stored.digest}")


def _shown(key: ApiKey) -> dict[str, str | int | None]:
    return {
        "id": key.key_id,
        "name": key.name,
        "clubs": key.clubs,
        "scopes": key.scopes,
        "mode": key.mode,
        "created_at": _time(key.created_at),
        "expires_at": _time(key.expires_at),
        "last_used_at": _time(key.last_used_at),
        **{name: getattr(key, name) for name in LIMIT_SETTINGS},
    }


def _time(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
