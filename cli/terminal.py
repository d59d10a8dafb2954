r"""The output of commands. Control characters in texts from records, providers and users have no effect.

Markup is off unless a call turns it on for our own text. Control characters (escape sequences, carriage returns,
bidirectional overrides) are shown as \\xNN or \\uNNNN. Every command prints through this module.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from masscomm.untrusted import visible, visible_json


class Terminal(Console):
    """A console that shows control characters in printed text without their effect. Styles that our own code chooses
    are kept.

    Args:
        stderr, file, width: As for rich's Console.
    """

    def __init__(self, *, stderr: bool = False, file: IO[str] | None = None, width: int | None = None) -> None:
        super().__init__(
            stderr=stderr,
            file=file,
            width=width,
            markup=False,  # guard: terminal.markup
            emoji=False,
            highlight=False,
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, with control characters made visible; rich's own control segments are kept."""
        for segment in super().render(renderable, options):
            # guard: terminal.control_characters
            yield segment if segment.control else Segment(_visible_lines(segment.text), segment.style)

    def entry(self, name: str, *details: str) -> None:
        """Print an entry of a list whose names are too long for a column: the name, then each detail on a line. An id
        is whole in any terminal, because other commands need it.
        """
        self.print(Text(name, "bold"), soft_wrap=True)
        for detail in details:
            self.print(f"  {detail}", soft_wrap=True)

    def done(self, text: str, note: str = "") -> None:
        """Print a step as succeeded, with a remark."""
        self.print(Text.assemble(("✓ ", "green"), text, (f" ({note})" if note else "", "dim")), soft_wrap=True)

    def failed(self, text: str) -> None:
        """Print a step as failed."""
        self.print(Text.assemble(("✗ ", "red"), text), soft_wrap=True)


def print_json(document: Mapping[str, Any], *, indent: int | None = None) -> None:
    """Print a JSON document that reads as the same value; without an indent on one line."""
    print(visible_json(json.dumps(document, indent=indent, ensure_ascii=False)), flush=True)


def print_answer(answer: Mapping[str, Any], sentence: str, console: Terminal, *, as_json: bool) -> None:
    """Print the answer of the API for programs, or a sentence about it."""
    if as_json:
        print_json(answer)
    else:
        console.print(sentence, soft_wrap=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print the lines of a file, with or without their line ends."""
    for line in lines:
        sys.stdout.write(visible(line.removesuffix("\n")) + "\n")
    sys.stdout.flush()


def _visible_lines(text: str) -> str:
    return "\n".join(map(visible, text.split("\n")))
