"""Writes the reference of the command line to docs/cli.md: `python -m cli.reference`."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from cli.folders import ROOT
from cli.lazy import LazyCommand
from cli.main import app

PAGE = ROOT / "docs" / "cli.md"
_HEAD = """# Command line

Made from the commands by `python -m cli.reference`; a test compares it with them. `masscomm COMMAND --help`
prints the same. `masscomm` is `.venv/bin/masscomm` after `make setup`.
"""
_TARGET = re.compile(r"^([a-z-]+):.*## (.*)$", re.MULTILINE)


def commands(group: TyperGroup, *names: str) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    """Yield the commands of a group with their names, those of its groups included."""
    for name, each in group.commands.items():
        command = each.loaded if isinstance(each, LazyCommand) else each
        if isinstance(command, TyperGroup):
            yield from commands(command, *names, name)
        elif isinstance(command, TyperCommand):
            yield (*names, name), command


@cache
def all_commands() -> dict[tuple[str, ...], TyperCommand]:
    """Return the commands of masscomm by their names."""
    group = typer.main.get_command(app)
    if not isinstance(group, TyperGroup):
        raise TypeError("masscomm is no group of commands")
    return dict(commands(group))


def page() -> str:
    """Return the page in Markdown: each command with its arguments and options, and each target of make."""
    parts = [_HEAD]
    for names, command in sorted(all_commands().items()):
        arguments = [each for each in command.params if isinstance(each, TyperArgument)]
        options = [each for each in command.params if isinstance(each, TyperOption) and each.name != "help"]
        context = typer.Context(command)
        pieces = [piece.strip("{}") for each in arguments for piece in each.get_usage_pieces(context)]
        words = ["masscomm", *names, *pieces]
        parts.append(f"## masscomm {' '.join(names)}\n\n    {' '.join(words)}\n\n{_one_line(command.help)}\n")
        rows = [(f"`{each.name}`", each.help) for each in arguments]
        rows += [(_spelled(each), each.help) for each in options]
        if rows:
            lines = "\n".join(f"| {_cell(name)} | {_cell(_one_line(text))} |" for name, text in rows)
            parts.append(f"| option | meaning |\n|---|---|\n{lines}\n")
    targets = _TARGET.findall((ROOT / "Makefile").read_text())
    lines = "\n".join(f"| `make {name}` | {_cell(text)} |" for name, text in targets)
    parts.append(f"## make\n\n| target | meaning |\n|---|---|\n{lines}\n")
    return "\n".join(parts)


def _spelled(option: TyperOption) -> str:
    """Return the spellings of an option with the name of its value."""
    spellings = ", ".join(f"`{each}`" for each in (*option.opts, *option.secondary_opts))
    return f"{spellings} (required)" if option.required else spellings


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(path: Path = PAGE) -> None:
    path.write_text(page())


if __name__ == "__main__":
    main()
