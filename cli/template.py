"""The commands `masscomm template`: they preview and check templates through the REST API."""

from typing import Annotated

import typer
from rich.text import Text

from cli.errors import CommandError
from cli.options import ClubOption, JsonOption
from cli.sending import pairs, shown_message
from cli.sends import calling
from cli.terminal import Terminal, print_json
from masscomm_client import Client
from masscomm_client.types import PreviewRequest

app = typer.Typer(no_args_is_help=True)
console = Terminal()


@app.command()
@calling
def preview(
    *,
    api: Client,
    kind: Annotated[str, typer.Option("--type", help="The category, as news or match_reminder.")],
    club: ClubOption = 1,
    template: Annotated[str | None, typer.Option("--template", help="The template, if it is not the category.")] = None,
    user: Annotated[
        int | None, typer.Option("--user", help="The user; without it, a user without a name whose language is en.")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option("--data", metavar="KEY=VALUE", help="For the template. May be repeated.")
    ] = None,
    channel: Annotated[list[str] | None, typer.Option("--channel", help="push, email or sms. May be repeated.")] = None,
    locale: Annotated[str | None, typer.Option("--locale", help="The language, as de-CH.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="The title of a template that is not saved yet.")] = None,
    body: Annotated[str | None, typer.Option("--body", help="Its body.")] = None,
    html: Annotated[str | None, typer.Option("--html", help="Its HTML part.")] = None,
    link: Annotated[str | None, typer.Option("--link", help="The deep link of its push.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the messages that a user would get. Nothing is sent. Exit status 1 if a message is missing or incomplete."""
    fields: PreviewRequest = {"type": kind, "club_id": club, "data": pairs(data or [])}
    if template is not None:
        fields["template"] = template
    if user is not None:
        fields["user_id"] = user
    if locale is not None:
        fields["locale"] = locale
    if channel:
        fields["channels"] = channel  # type: ignore[typeddict-item]  # the API refuses an unknown channel
    if title is not None and body is not None:
        fields["draft"] = {"title": title, "body": body, "html": html, "url": link}
    elif any(each is not None for each in (title, body, html, link)):
        raise CommandError("A template that is not saved needs --title and --body.")
    found = api.preview(**fields)
    if as_json:
        print_json(found)
    else:
        for message in found["messages"]:
            console.print(shown_message(message), soft_wrap=True)
        for warning in found["warnings"]:
            console.print(Text(f"{warning['field']} {warning['message']}", "yellow"), soft_wrap=True)
    if not found["complete"]:
        raise typer.Exit(1)


@app.command()
@calling
def check(
    *,
    api: Client,
    club: Annotated[list[int] | None, typer.Option("--club", help="Only this tenant's. May be repeated.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--type", help="Only this type. May be repeated.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Name the saved templates from which no message can be rendered. Exit status 1 if there are any."""
    found = list(api.templates(club_id=club or [], type=kind or [], limit=100))
    failing = [template for template in found if template["problem"] is not None]
    for template in failing:
        if as_json:
            print_json(template)
            continue
        of = "every tenant" if template["club_id"] is None else f"tenant {template['club_id']}"
        name = f"{template['id']} ({template['type']}, {template['channel']}, {template['locale']}, {of})"
        console.print(Text(f"{name}: {template['problem']}"), soft_wrap=True)
    if not as_json:
        console.print(f"{len(found)} templates, {len(failing)} of them cannot be rendered.")
    if failing:
        raise typer.Exit(1)
