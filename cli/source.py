"""`masscomm source check`: compare a monolith's database with schemas/source.yaml."""

from pathlib import Path
from typing import Annotated

import psycopg
import typer
import yaml

from cli.errors import CommandError
from cli.options import JsonOption
from cli.terminal import Terminal, print_json
from masscomm.domain.source_tables import read_settings_names, read_source
from ops.provisioning import GENERATION
from ops.provisioning.source_check import check_source
from ops.provisioning.source_samples import sample_source
from schemas import absolute

app = typer.Typer(help="The monolith's tables, as schemas/source.yaml maps them.", no_args_is_help=True)
console = Terminal()


@app.callback()
def _group() -> None:
    """The monolith's tables, as schemas/source.yaml maps them."""


@app.command()
def check(
    dsn: Annotated[
        str,
        typer.Option("--dsn", help="The monolith's database, with the connector's user: postgresql://USER@HOST/NAME"),
    ],
    file: Annotated[
        Path | None, typer.Option("--file", exists=True, dir_okay=False, help="Another file than schemas/source.yaml.")
    ] = None,
    generation: Annotated[
        str, typer.Option("--generation", help="The snapshot generation that the connector is created for.")
    ] = GENERATION,
    as_json: JsonOption = False,
) -> None:
    """Name each missing table, column, type, privilege and server setting, with the statements that repair it. If none
    is missing, name the unknown settings, time zones and platforms in a sample of the rows. It changes nothing. Exit
    status 1 if change data capture would not work.
    """
    path = file or Path(absolute("source.yaml"))
    try:
        document = yaml.safe_load(path.read_text())
        sources = read_source(document)
        names = read_settings_names(document)
        found = check_source(
            dsn,
            generation,
            sources,
            creates_publication=bool(document.get("create_publication", True)),
            settings_names=names,
        )
        if all(each.warning for each in found):
            found += sample_source(dsn, sources, names)
    except psycopg.Error as error:
        raise CommandError(f"The database cannot be checked: {error}") from error
    except yaml.YAMLError as error:
        raise CommandError(f"{path} is not YAML: {error}") from error
    for each in found:
        if as_json:
            print_json({"problem": not each.warning, "text": each.text, "repair": list(each.repair)})
            continue
        label = "warning: " if each.warning else ""
        console.failed(f"{label}{each.text}")
        for statement in each.repair:
            console.print(f"    {statement}", soft_wrap=True)
    problems = sum(not each.warning for each in found)
    if not as_json and not problems:
        tables = {each.qualified for each in sources.values()}
        console.done(f"{', '.join(sorted(tables))} can be captured", f"{len(found)} warnings")
    raise typer.Exit(1 if problems else 0)
