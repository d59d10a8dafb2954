"""The commands `masscomm categories`: they show and change the categories of sends through the REST API."""

from typing import Annotated

import typer

from cli.digests import METAVAR, digest_in, digest_text
from cli.errors import CommandError
from cli.options import JsonOption
from cli.sends import calling
from cli.terminal import Terminal, print_answer, print_json
from masscomm.integers import integer
from masscomm_client import ApiError, Client
from masscomm_client.types import (
    CapFields,
    CategoryFields,
    CategoryOfClub,
    CategoryValues,
    ClubFields,
    DigestFields,
)

app = typer.Typer(no_args_is_help=True)
console = Terminal()

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The category, the `type` of its sends.")]


@app.command("list")
@calling
def list_categories(*, api: Client, as_json: JsonOption = False) -> None:
    """Show the categories, as they were put last."""
    rows = api.categories()["rows"]
    if as_json:
        for row in rows:
            print_json(row)
        return
    console.print(f"{len(rows)} categories")
    for row in rows:
        console.entry(row["type"], *_details(row), _valid(row))


@app.command()
@calling
def show(name: NameArgument, *, api: Client, as_json: JsonOption = False) -> None:
    """Show the versions of a category, the latest first."""
    found = api.category(name)
    if as_json:
        print_json(found)
        return
    for version in found["versions"]:
        console.entry(_valid(version), *_details(version))


@app.command()
@calling
def put(
    name: NameArgument,
    *,
    api: Client,
    channel: Annotated[
        list[str] | None,
        typer.Option("--channel", help="A channel of sends without: push, email or sms. May be repeated."),
    ] = None,
    mandatory: Annotated[
        bool | None, typer.Option("--mandatory/--optional", help="Whether opt-outs of users do not apply.")
    ] = None,
    critical: Annotated[
        bool | None, typer.Option("--critical/--not-critical", help="Whether its sends use the critical lane.")
    ] = None,
    opt_in: Annotated[
        list[str] | None,
        typer.Option("--opt-in", help="A channel on which only users with a rule for the category get it, or none."),
    ] = None,
    cap: Annotated[
        list[str] | None,
        typer.Option(
            "--cap",
            metavar="LIMIT/WINDOW[,by_channel][,group=NAME]",
            help="A frequency cap, as 3/24h or 1/day,group=ads; none: no cap applies; default: those of the default "
            "category do.",
        ),
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest",
            metavar=METAVAR,
            help="How notifications are collected, as comments_digest/1h,key=post or daily/08:00; none: each goes out "
            "by itself.",
        ),
    ] = None,
    shorten: Annotated[
        bool | None,
        typer.Option("--shorten/--no-shorten", help="Whether the body of a push that is too large is shortened."),
    ] = None,
    title: Annotated[
        list[str] | None,
        typer.Option(
            "--title", metavar="LANGUAGE=TEXT", help="The name for recipients, as de=Nachrichten; de= removes it."
        ),
    ] = None,
    description: Annotated[
        list[str] | None,
        typer.Option(
            "--description", metavar="LANGUAGE=TEXT", help="The content in a sentence for recipients; de= removes it."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Add a category, or change what the options name. The version is valid a minute later."""
    fields, etag = _read(api, name)
    if etag is None and not channel:
        raise CommandError(f"{name} is not a category yet. Name the channels of a new one: --channel push.")
    if channel:
        fields["channels"] = channel
    if mandatory is not None:
        fields["mandatory"] = mandatory
    if critical is not None:
        fields["critical"] = critical
    if opt_in:
        fields["opt_in"] = [each for each in opt_in if each != "none"]
    if cap:
        fields.pop("caps", None)
        if cap != ["default"]:
            fields["caps"] = [] if cap == ["none"] else list(map(_cap, cap))
    if digest:
        fields["digest"] = None if digest == "none" else digest_in(digest)
    if shorten is not None:
        fields["shorten"] = shorten
    if title:
        fields["titles"] = _with_texts(fields.get("titles", {}), title, "--title")
    if description:
        fields["descriptions"] = _with_texts(fields.get("descriptions", {}), description, "--description")
    _put(api, name, fields, etag, as_json=as_json)


@app.command()
@calling
def retire(
    name: NameArgument,
    *,
    api: Client,
    undo: Annotated[bool, typer.Option("--undo", help="Permit sends over REST again.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Refuse further sends over REST of a category. Sends by Kafka keep its rules."""
    fields, etag = _read(api, name)
    if etag is None:
        raise CommandError(f"{name} is not a category.")
    _put(api, name, {**fields, "retired": not undo}, etag, as_json=as_json)


def _read(api: Client, name: str) -> tuple[CategoryFields, str | None]:
    """Return the last version of a category as the body of a request, and the etag of the category; without channels
    and None if there is none. Raises ApiError.
    """
    try:
        body = api.category(name)
    except ApiError as error:
        if error.status != 404:
            raise
        return {"channels": []}, None
    found = body["versions"][0]
    fields: CategoryFields = {
        "channels": found["channels"],
        "mandatory": found["mandatory"],
        "critical": found["critical"],
        "opt_in": found["opt_in"],
        "shorten": found["shorten"],
        "titles": found["titles"],
        "descriptions": found["descriptions"],
        "retired": found["retired"],
        "clubs": [_differing(club, found) for club in found["clubs"]],
    }
    if found["caps"] is not None:
        fields["caps"] = found["caps"]
    if found["digest"] is not None:
        fields["digest"] = found["digest"]
    return fields, body["etag"]


def _differing(club: CategoryOfClub, found: CategoryValues) -> ClubFields:
    """Return in what a club differs: it has later changes of the rest."""
    fields: ClubFields = {"club_id": club["club_id"]}
    if club["channels"] != found["channels"]:
        fields["channels"] = club["channels"]
    if club["opt_in"] != found["opt_in"]:
        fields["opt_in"] = club["opt_in"]
    if club["caps"] is not None and club["caps"] != found["caps"]:
        fields["caps"] = club["caps"]
    if club["digest"] != found["digest"]:
        fields["digest"] = club["digest"]
    return fields


def _cap(text: str) -> CapFields:
    """Return the cap in a text such as 3/24h,by_channel,group=ads. The API checks its values."""
    first, *others = text.split(",")
    limit, _, window = first.partition("/")
    options = dict(each.partition("=")[::2] for each in others)
    is_known = len(options) == len(others) and options.keys() <= {"by_channel", "group"}
    has_values = options.get("by_channel", "") == "" and options.get("group") != ""
    if not (limit.isascii() and limit.isdecimal() and len(limit) < 10 and window and is_known and has_values):
        raise CommandError(f"{text} is no cap: write --cap 3/24h, or 1/day,by_channel,group=ads.")
    return {
        "limit": integer(limit),
        "window": window,
        "by_channel": "by_channel" in options,
        "group": options.get("group"),
    }


def _in_words(caps: list[CapFields] | None) -> str:
    """Return caps as the option --cap has them."""
    texts = [
        f"{cap['limit']}/{cap['window']}"
        + (",by_channel" if cap.get("by_channel") else "")
        + (f",group={cap['group']}" if cap.get("group") is not None else "")
        for cap in caps or []
    ]
    return f"; at most {' and '.join(texts)}" if texts else ""


def _with_texts(before: dict[str, str], given: list[str], option: str) -> dict[str, str]:
    """Return texts by language with the given ones; an empty one is removed."""
    texts = dict(before)
    for each in given:
        language, separator, text = each.partition("=")
        if not separator:
            raise CommandError(f"{each} has no language: write {option} de=Nachrichten.")
        texts[language] = text
    return {language: text for language, text in texts.items() if text}


def _put(api: Client, name: str, fields: CategoryFields, etag: str | None, *, as_json: bool) -> None:
    """Put a category that has the etag, or a new one. Raises ApiError if another request has changed or added it."""
    answer = api.set_category(name, if_match=etag, if_none_match=None if etag else "*", **fields)
    print_answer(answer, f"{name}: {_valid(answer['versions'][0])}.", console, as_json=as_json)


def _valid(version: CategoryValues) -> str:
    return "from the installation's file" if version["valid_from"] is None else f"valid from {version['valid_from']}"


def _details(version: CategoryValues) -> list[str]:
    texts = [
        ", ".join(f"{language}={text}" for language, text in sorted(each.items()))
        for each in (version["titles"], version["descriptions"])
        if each
    ]
    return [
        ", ".join(version["channels"])
        + (", mandatory" if version["mandatory"] else "")
        + (", critical" if version["critical"] else "")
        + _opt_in(version["opt_in"])
        + _in_words(version["caps"])
        + _digest(version["digest"])
        + ("; long pushes are shortened" if version["shorten"] else ""),
        *(["retired"] if version["retired"] else []),
        *texts,
        *(
            f"club {each['club_id']}: {', '.join(each['channels'])}{_opt_in(each['opt_in'])}{_in_words(each['caps'])}"
            + (_digest(each["digest"]) or "; no digest" if each["digest"] != version["digest"] else "")
            for each in version["clubs"]
        ),
    ]


def _digest(digest: DigestFields | None) -> str:
    return "" if digest is None else f"; digest {digest_text(digest)}"


def _opt_in(channels: list[str]) -> str:
    return f"; opt-in on {', '.join(channels)}" if channels else ""
