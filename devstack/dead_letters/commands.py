"""`masscomm dead-letters`: what an operator types."""

import json
from collections import deque
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from devstack.dead_letters.decoding import payload_of
from devstack.dead_letters.letters import DeadLetter, Filter, moment, read_letters
from devstack.dead_letters.marks import Mark, read_marks
from devstack.dead_letters.replaying import Desk, Done, sources
from devstack.handle import RunningStack
from devstack.settings import GENERATION, StackSettings
from masscomm.topics import DEAD_LETTER_STATUS
from masscomm.wire import Codec, HttpSchemaRegistry

app = typer.Typer(help="Records that could not be processed.", no_args_is_help=True)
console = Console()

Places = Annotated[
    list[str] | None, typer.Argument(metavar="[PARTITION@OFFSET]...", help="Letters by their own position.")
]
TopicOption = Annotated[str | None, typer.Option("--topic", help="Of records that came from this topic.")]
ReasonOption = Annotated[str | None, typer.Option("--reason", help="With this reason, as undecodable.")]
FunctionOption = Annotated[str | None, typer.Option("--function", help="Put aside by this function.")]
PartitionOption = Annotated[int | None, typer.Option("--partition", min=0, help="Of the source topic.")]
OffsetOption = Annotated[int | None, typer.Option("--offset", min=0, help="In the source topic's partition.")]
SinceOption = Annotated[str | None, typer.Option("--since", help="Dead since then: ISO 8601, or 15m, 2h, 7d ago.")]
UntilOption = Annotated[str | None, typer.Option("--until", help="Dead before then, likewise.")]
JsonOption = Annotated[bool, typer.Option("--json", help="For programs, a JSON object a line.")]
AgainOption = Annotated[bool, typer.Option("--again", help="Also what was replayed or discarded before.")]
AllOption = Annotated[bool, typer.Option("--all", help="Every letter there is, where nothing else is chosen by.")]


def _stack() -> StackSettings:
    return RunningStack.of(StackSettings.from_environment()).settings


def _filter(
    places: list[str] | None = None,
    topic: str | None = None,
    reason: str | None = None,
    function: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
    since: str | None = None,
    until: str | None = None,
) -> Filter:
    now = datetime.now(UTC)
    try:
        return Filter(
            places=tuple(places or ()),
            topic=topic,
            reason=reason,
            function=function,
            partition=partition,
            offset=offset,
            since=moment(since, now) if since else None,
            until=moment(until, now) if until else None,
        )
    except ValueError as error:
        raise typer.BadParameter(f"no time: {error}") from error


def _status(letter: DeadLetter, marks: dict[str, Mark]) -> str:
    mark = marks.get(letter.place)
    return mark.kind if mark else "open"


@app.command("list")
def list_letters(
    topic: TopicOption = None,
    reason: ReasonOption = None,
    function: FunctionOption = None,
    partition: PartitionOption = None,
    offset: OffsetOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The newest so many.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show where each dead-lettered record stood, why it is here and what was done with it."""
    wanted = _filter(None, topic, reason, function, partition, offset, since, until)
    settings = _stack()
    marks = read_marks(settings.kafka_bootstrap, DEAD_LETTER_STATUS)
    # The topic has one partition: its order is that of age.
    found = deque(read_letters(settings.kafka_bootstrap, wanted), maxlen=limit)
    if as_json:
        for letter in found:
            print(json.dumps(letter.as_dict() | {"status": _status(letter, marks)}))
        return
    table = Table(
        *("letter", "source topic", "partition", "offset", "timestamp", "reason", "function", "status", "error"),
        title=f"{len(found)} dead letters",
    )
    for each in found:
        position = (each.place, each.topic, each.partition, each.offset, each.timestamp)
        table.add_row(*position, each.reason, each.function, _status(each, marks), each.error)
    console.print(table)


@app.command()
def show(place: Annotated[str, typer.Argument(metavar="PARTITION@OFFSET")], as_json: JsonOption = False) -> None:
    """Show one letter whole: what it says, its headers, and what was done with it."""
    settings = _stack()
    letter = next(read_letters(settings.kafka_bootstrap, Filter(places=(place,))), None)
    if letter is None:
        raise typer.BadParameter(f"there is no dead letter {place}; `masscomm dead-letters list` names them")
    mark = read_marks(settings.kafka_bootstrap, DEAD_LETTER_STATUS).get(place)
    codec = Codec(HttpSchemaRegistry(settings.registry_url))
    document = {
        **letter.as_dict(),
        "status": mark.kind if mark else "open",
        "history": list(mark.history) if mark else [],
        "key": None if letter.key is None else letter.key.decode(errors="backslashreplace"),
        "headers": [[name, value.decode(errors="backslashreplace")] for name, value in letter.headers],
        **payload_of(letter, codec).as_dict(),
    }
    print(json.dumps(document, indent=None if as_json else 2, ensure_ascii=False))


@app.command()
def replay(
    places: Places = None,
    topic: TopicOption = None,
    reason: ReasonOption = None,
    function: FunctionOption = None,
    partition: PartitionOption = None,
    offset: OffsetOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    everything: AllOption = False,
    again: AgainOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Put records back on their source topic, each once. Exit status 1 where one was left as it stood."""
    wanted = _filter(places, topic, reason, function, partition, offset, since, until)
    settings, letters = _chosen(wanted, everything)
    if dry_run:
        _tell([Done(letter=letter, ok=True, said="would be replayed") for letter in letters], as_json)
        return
    desk = Desk(settings.kafka_bootstrap, allowed=sources(GENERATION))
    _tell(desk.replay(letters, again=again), as_json)


@app.command()
def discard(
    why: Annotated[str, typer.Option("--why", help="Kept with the letter.")],
    places: Places = None,
    topic: TopicOption = None,
    reason: ReasonOption = None,
    function: FunctionOption = None,
    partition: PartitionOption = None,
    offset: OffsetOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    everything: AllOption = False,
    again: AgainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write records off, with the reason. Exit status 1 where one was left as it stood."""
    if not why.strip():
        raise typer.BadParameter("--why says why")
    wanted = _filter(places, topic, reason, function, partition, offset, since, until)
    settings, letters = _chosen(wanted, everything)
    desk = Desk(settings.kafka_bootstrap, allowed=sources(GENERATION))
    _tell(desk.discard(letters, why, again=again), as_json)


def _chosen(wanted: Filter, everything: bool) -> tuple[StackSettings, list[DeadLetter]]:
    if not wanted.chooses and not everything:
        raise typer.BadParameter("say which: letters by position, a filter, or --all")
    settings = _stack()
    letters = list(read_letters(settings.kafka_bootstrap, wanted))
    missing = set(wanted.places) - {letter.place for letter in letters}
    if missing:
        raise typer.BadParameter(f"there is no dead letter {', '.join(sorted(missing))} that the filters leave in")
    return settings, letters


def _tell(done: list[Done], as_json: bool) -> None:
    for each in done:
        if as_json:
            told = {"place": each.letter.place, "topic": each.letter.topic, "ok": each.ok, "said": each.said}
            print(json.dumps(told))
        else:
            console.print(f"{each.letter.place} {each.letter.topic}: {each.said}", markup=False, highlight=False)
    if not as_json and not done:
        console.print("No dead letter is like that.")
    if not all(each.ok for each in done):
        raise typer.Exit(1)
