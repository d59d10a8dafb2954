"""The commands below `masscomm dead-letters`."""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from cli.installation import Installation, installation, operator_name
from cli.options import JsonOption, given
from cli.terminal import Terminal, print_json
from cli.times import SinceOption, moment
from masscomm.domain.audit import Action, Result
from masscomm.kafka.avro import Codec
from masscomm.kafka.payloads import payload_of
from masscomm.kafka.topics import DEAD_LETTER_STATUS
from masscomm.operations.dead_letter_marks import Mark, id_of_letters, read_marks
from masscomm.operations.dead_letter_replays import Desk, Done, sources
from masscomm.operations.dead_letters import DeadLetter, Filter, read_letters

app = typer.Typer(no_args_is_help=True)
console = Terminal()

Positions = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PARTITION@OFFSET]...", help="Dead letters by their position on the dead-letter topic."),
]
TopicOption = Annotated[str | None, typer.Option("--topic", help="Only records from this source topic.")]
ReasonOption = Annotated[str | None, typer.Option("--reason", help="Only this reason, for example undecodable.")]
FunctionOption = Annotated[str | None, typer.Option("--function", help="Only records dead-lettered by this function.")]
PartitionOption = Annotated[int | None, typer.Option("--partition", min=0, help="Partition of the source topic.")]
OffsetOption = Annotated[int | None, typer.Option("--offset", min=0, help="Offset in the source topic's partition.")]
UntilOption = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Before then: as --since.")]
RepeatOption = Annotated[bool, typer.Option("--again", help="Include records that were replayed or discarded before.")]
AllOption = Annotated[bool, typer.Option("--all", help="Choose every dead letter, without a filter.")]


def _filter(
    positions: Positions = None,
    topic: TopicOption = None,
    reason: ReasonOption = None,
    function: FunctionOption = None,
    partition: PartitionOption = None,
    offset: OffsetOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
) -> Filter:
    now = datetime.now(UTC)
    return Filter(
        positions=tuple(positions or ()),
        topic=topic,
        reason=reason,
        function=function,
        partition=partition,
        offset=offset,
        since=moment(since, now) if since else None,
        until=moment(until, now) if until else None,
    )


def _status(letter: DeadLetter, marks: dict[str, Mark]) -> str:
    mark = marks.get(letter.position)
    return mark.kind if mark else "open"


@app.command("list")
@given(wanted=_filter, installation=installation)
def list_letters(
    *,
    wanted: Filter,
    installation: Installation,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many, the newest.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List dead-lettered records with their source position, reason and status."""
    marks = _marks(installation)
    # Records of the topic are in the order of time, because the topic has one partition.
    found = deque(_letters(installation, wanted), maxlen=limit)
    if as_json:
        for letter in found:
            print_json(letter.as_dict() | {"status": _status(letter, marks)})
        return
    console.print(f"{len(found)} dead letters")
    for each in found:
        console.print(Text.assemble((each.position, "bold"), f" {_status(each, marks)}, {each.reason}"), soft_wrap=True)
        source = f"{each.topic}-{each.partition}@{each.offset} of {each.timestamp}"
        console.print(f"  {source}, by {each.function}: {each.error}", soft_wrap=True)


@app.command()
@given(installation=installation)
def show(
    position: Annotated[str, typer.Argument(metavar="PARTITION@OFFSET")],
    *,
    installation: Installation,
    as_json: JsonOption = False,
) -> None:
    """Show one dead letter with its payload, its headers and its history of replays and discards."""
    letter = next(_letters(installation, Filter(positions=(position,))), None)
    if letter is None:
        raise typer.BadParameter(f"there is no dead letter {position}; `masscomm dead-letters list` names them")
    mark = _marks(installation).get(position)
    codec = Codec(installation.registry())
    document = {
        **letter.as_dict(),
        "status": mark.kind if mark else "open",
        "history": list(mark.history) if mark else [],
        "key": None if letter.key is None else letter.key.decode(errors="backslashreplace"),
        "headers": [[name, value.decode(errors="backslashreplace")] for name, value in letter.headers],
        **payload_of(letter.topic, letter.value, codec).as_dict(),
    }
    installation.audit(Action.DEAD_LETTER_SHOWN, subject=position)
    print_json(document, indent=None if as_json else 2)


@app.command()
@given(wanted=_filter, installation=installation)
def replay(
    *,
    wanted: Filter,
    installation: Installation,
    everything: AllOption = False,
    repeat: RepeatOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the records without replaying them.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Produce dead-lettered records on their source topic again, each once. Exit status 1 if a record was refused."""
    letters = _chosen(installation, wanted, everything=everything, repeat=repeat)
    if dry_run:
        _print([Done(letter=letter, ok=True, message="would be replayed") for letter in letters], as_json)
        return
    done = _desk(installation).replay(letters, repeat=repeat)
    _audit(installation, Action.DEAD_LETTER_REPLAYED, done)
    _print(done, as_json)


@app.command()
@given(wanted=_filter, installation=installation)
def discard(
    why: Annotated[str, typer.Option("--why", help="Kept with the letter.")],
    *,
    wanted: Filter,
    installation: Installation,
    everything: AllOption = False,
    repeat: RepeatOption = False,
    as_json: JsonOption = False,
) -> None:
    """Discard dead-lettered records, with a reason. Exit status 1 if a record was refused."""
    if not why.strip():
        raise typer.BadParameter("--why says why")
    letters = _chosen(installation, wanted, everything=everything, repeat=repeat)
    done = _desk(installation).discard(letters, why, repeat=repeat)
    _audit(installation, Action.DEAD_LETTER_DISCARDED, done)
    _print(done, as_json)


def _letters(installation: Installation, wanted: Filter) -> Iterator[DeadLetter]:
    return read_letters(installation.kafka_bootstrap, wanted, security=installation.security)


def _marks(installation: Installation) -> dict[str, Mark]:
    return read_marks(
        installation.kafka_bootstrap, DEAD_LETTER_STATUS, installation.security, of=_topic_id(installation)
    )


def _topic_id(installation: Installation) -> str | None:
    return id_of_letters(installation.kafka_bootstrap, security=installation.security)


def _desk(installation: Installation) -> Desk:
    allowed = sources(installation.generation)
    return Desk(
        installation.kafka_bootstrap,
        operator=operator_name(),
        allowed=allowed,
        topic_id=_topic_id(installation),
        security=installation.security,
    )


def _chosen(installation: Installation, wanted: Filter, *, everything: bool, repeat: bool) -> list[DeadLetter]:
    """Return the letters of an operation: those that are named by position, or the open ones that match a filter."""
    if not wanted.chooses and not everything:
        raise typer.BadParameter("say which: letters by position, a filter, or --all")
    letters = list(_letters(installation, wanted))
    missing = set(wanted.positions) - {letter.position for letter in letters}
    if missing:
        names = ", ".join(sorted(missing))
        raise typer.BadParameter(
            f"there is no dead letter {names}, or a filter excludes it; `masscomm dead-letters list` names them"
        )
    if wanted.positions or repeat:
        return letters
    marks = _marks(installation)
    return [letter for letter in letters if letter.position not in marks]


def _audit(installation: Installation, action: Action, done: list[Done]) -> None:
    for each in done:
        result = Result.OK if each.ok else Result.FAILED
        installation.audit(action, subject=each.letter.position, result=result, detail=each.message)


def _print(done: list[Done], as_json: bool) -> None:
    for each in done:
        if as_json:
            line = {"place": each.letter.position, "topic": each.letter.topic, "ok": each.ok, "said": each.message}
            print_json(line)
        else:
            console.print(f"{each.letter.position} {each.letter.topic}: {each.message}")
    if not as_json and not done:
        console.print("No dead letter is like that.")
    if not all(each.ok for each in done):
        raise typer.Exit(1)
