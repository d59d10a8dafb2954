"""`masscomm directory`: the copy of the monolith's tables in OpenSearch."""

import time
from dataclasses import asdict
from typing import Annotated

import typer

from cli.errors import CommandError
from cli.installation import Installation, installation
from cli.options import JsonOption, given
from cli.terminal import Terminal, print_json
from masscomm.clock import SystemClock
from masscomm.domain.audit import Action
from masscomm.kafka.avro import Codec
from masscomm.kafka.topic_reading import TopicReader
from masscomm.kafka.topics import generations
from ops.directory_rebuild import DirectoryRebuild, records_of
from ops.own_document_rebuild import published_documents

app = typer.Typer(no_args_is_help=True)
console = Terminal()

GenerationOption = Annotated[
    str | None, typer.Option("--generation", help="The snapshot generation, if several are captured.")
]


@app.callback()
def _group() -> None:
    """The copy of the monolith's tables in OpenSearch."""


@app.command()
@given(installation=installation)
def rebuild(*, installation: Installation, generation: GenerationOption = None, as_json: JsonOption = False) -> None:
    """Fill the new indices of a lost OpenSearch from Kafka, without the monolith."""
    captured = generations(installation.generation)
    name = generation or captured[0]
    if name not in captured or (generation is None and len(captured) > 1):
        raise CommandError(f"choose one with --generation: {', '.join(captured)}")
    rebuilding = DirectoryRebuild(
        client=installation.opensearch(),
        generation=name,
        progress=installation.cdc_progress(name),
        clock=SystemClock(),
        pause=time.sleep,
        report=lambda records: None if as_json else console.print(f"{records} records"),
    )
    with TopicReader(installation.kafka_bootstrap, installation.security) as reader:
        codec = Codec(installation.registry())
        done = rebuilding.run(records_of(reader, name), published_documents(reader, codec))
    installation.audit(Action.DIRECTORY_REBUILT, subject=name, detail=f"{done.records} records")
    if as_json:
        print_json(asdict(done))
        return
    console.print(f"{sum(done.own_documents.values())} of masscomm's own documents")
    console.print(f"{sum(done.rows.values())} rows of {len(done.rows)} tables, {done.refused} records refused")
    if done.is_complete:
        console.print("look-ups are answered")
    else:
        console.print("look-ups are answered once cdc_consumer has read its topics")
