"""`masscomm source`: the monolith's tables, as schemas/source.yaml or the file of MASSCOMM_SOURCE maps them."""

from pathlib import Path
from typing import Annotated

import psycopg
import typer

from cli.errors import CommandError
from cli.options import JsonOption
from cli.terminal import Terminal, print_json
from masscomm.cdc.debezium import INSTALLATION
from masscomm.domain.source_tables import (
    read_document,
    read_outbox,
    read_settings_names,
    read_source,
    source_file,
    source_name,
)
from ops.provisioning import GENERATION
from ops.provisioning.source_check import check_source
from ops.provisioning.source_init import propose_source
from ops.provisioning.source_samples import sample_source

app = typer.Typer(no_args_is_help=True)
console = Terminal()

DsnOption = Annotated[
    str, typer.Option("--dsn", help="The monolith's database, with the connector's user: postgresql://USER@HOST/NAME")
]


@app.callback()
def _group() -> None:
    """The monolith's tables, as MASSCOMM_SOURCE or schemas/source.yaml maps them."""


@app.command()
def check(
    dsn: DsnOption,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            exists=True,
            dir_okay=False,
            help="The mapping; without it, MASSCOMM_SOURCE or schemas/source.yaml.",
        ),
    ] = None,
    generation: Annotated[
        str, typer.Option("--generation", help="The snapshot generation that the connector is created for.")
    ] = GENERATION,
    installation: Annotated[
        str,
        typer.Option("--installation", help="The first part of the slot's name; in AWS: PREFIX-REGION."),
    ] = INSTALLATION,
    as_json: JsonOption = False,
) -> None:
    """Name each missing table, column, type, privilege and server setting, with the statements that repair it. If none
    is missing, name the unknown settings, time zones and platforms in a sample of the rows. It changes nothing. Exit
    status 1 if change data capture would not work.
    """
    name = source_name() if file is None else str(file)
    document = read_document(file or source_file(), name)
    sources = read_source(document, name)
    names, outbox = read_settings_names(document, name), read_outbox(document, name)
    try:
        found = check_source(
            dsn,
            generation,
            sources,
            creates_publication=bool(document.get("create_publication", True)),
            settings_names=names,
            outbox=outbox,
            file=name,
            installation=installation,
        )
        if all(each.warning for each in found):
            found += sample_source(dsn, sources, names)
    except psycopg.Error as error:
        raise CommandError(f"The database cannot be checked: {error}") from error
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
        tables = {each.qualified for each in sources.values()} | ({outbox} if outbox is not None else set())
        console.done(f"{', '.join(sorted(tables))} can be captured", f"{len(found)} warnings")
    raise typer.Exit(1 if problems else 0)


@app.command()
def init(
    dsn: DsnOption,
    output: Annotated[Path, typer.Option("--output", dir_okay=False, help="The file to write.")] = Path(
        "my-source.yaml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Propose a mapping of your tables, from the names, types and foreign keys in the database and a sample of its
    rows. A comment says how each value was found. It changes nothing in the database. Exit status 1 if something was
    not found, which the file marks with TODO.
    """
    if output.exists() and not force:
        raise CommandError(f"{output} exists. Name another file with --output, or replace it with --force.")
    try:
        proposal = propose_source(dsn)
    except psycopg.Error as error:
        raise CommandError(f"The database cannot be read: {error}") from error
    try:
        # Another process may have created the file meanwhile.
        with output.open("w" if force else "x") as file:
            file.write(proposal.text())
    except OSError as error:
        raise CommandError(f"{output} cannot be written: {error}") from error
    if as_json:
        print_json({"file": str(output), "todo": proposal.todos, "notes": proposal.notes})
    else:
        for entry in proposal.entries:
            console.print(f"  {entry.name}: {entry.table}", soft_wrap=True)
        for text in proposal.notes:
            console.print(f"note: {text}", soft_wrap=True)
        for text in proposal.todos:
            console.failed(f"TODO {text}")
        console.print(
            f"{output} is written. Read its comments, complete its TODOs, and compare it with the database:"
            f" masscomm source check --dsn … --file {output}",
            soft_wrap=True,
        )
    raise typer.Exit(1 if proposal.todos else 0)
