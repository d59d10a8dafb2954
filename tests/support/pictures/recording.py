"""Records commands in a terminal and draws the recording as an animated SVG.

The commands are run; their output and its times are real. Only the typing of each command is drawn.
"""

import os
import pty
import re
import select
import subprocess
import time
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

COLUMNS, ROWS = 80, 22
TYPED_S = 0.03  # the drawn time of a typed character
READ_S = 2.5  # the drawn time after the last output of a command
_GLYPH, _LINE, _MARGIN = 8.0, 18, 12
_PALETTE = {"31": "#f47067", "32": "#57ab5a", "33": "#c69026", "36": "#39c5cf", "35": "#b083f0", "34": "#539bf5"}
_CONTROL = re.compile(r"\x1b\[([\d;?]*)([A-Za-z])|\r?\n|\r")


class Screen:
    """The lines of a terminal, as far as our commands use one: lines, moves to earlier lines, erased lines, colours."""

    def __init__(self) -> None:
        self.lines: list[str] = [""]
        self._row = 0

    def write(self, text: str) -> None:
        """Write output, which has complete control sequences."""
        place = 0
        for control in _CONTROL.finditer(text):
            self.lines[self._row] += text[place : control.start()]
            place = control.end()
            number, letter = control[1], control[2]
            if control[0].endswith("\n"):
                self._row += 1
                if self._row == len(self.lines):
                    self.lines.append("")
            elif letter == "A":
                self._row -= int(number or 1)
            elif letter == "K":
                self.lines[self._row] = ""
            elif letter == "m":
                self.lines[self._row] += control[0]
        self.lines[self._row] += text[place:]

    def shown(self) -> list[str]:
        """Return the last lines that fit on the screen."""
        return self.lines[-ROWS:]


@dataclass(frozen=True)
class Frame:
    """The lines of the screen from a time on, in seconds."""

    at_s: float
    lines: Sequence[str]


def record(commands: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> list[Frame]:
    """Run commands one after another in a terminal, and return the frames. Raises CalledProcessError."""
    screen, frames, now_s = Screen(), [Frame(0.0, [])], 0.0
    for command in commands:
        screen.write("\x1b[32m$\x1b[0m ")
        # A backslash ends the line of a command that is wider than the terminal.
        for character in command:
            screen.write(character)
            now_s += TYPED_S
            frames.append(Frame(now_s, screen.shown()))
        screen.write("\n")
        for at_s, text in _output(command, folder, environment):
            screen.write(text)
            frames.append(Frame(now_s + at_s, screen.shown()))
        now_s = frames[-1].at_s + READ_S
        screen.write("\n")
        frames.append(Frame(now_s, screen.shown()))
    return frames


def _output(command: str, folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[float, str]]:
    """Run a command in a terminal, and yield the seconds and the text of each piece of its output."""
    parent, child = pty.openpty()
    size = {"COLUMNS": str(COLUMNS), "LINES": str(ROWS), "TERM": "xterm-256color"}
    began = time.monotonic()
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, **environment, **size},
        stdin=subprocess.DEVNULL,
        stdout=child,
        stderr=child,
    )
    os.close(child)
    decoder, rest = getincrementaldecoder("utf-8")(), ""
    while True:
        select.select([parent], [], [])
        try:
            rest += decoder.decode(os.read(parent, 65_536))
        except OSError:  # The last process has closed the terminal.
            break
        # A control sequence may continue in the next piece.
        last = rest.rfind("\x1b")
        whole = len(rest) if last < 0 or _CONTROL.match(rest, last) else last
        piece, rest = rest[:whole], rest[whole:]
        if piece:
            yield time.monotonic() - began, piece
    os.close(parent)
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)


def draw(frames: Sequence[Frame], title: str) -> str:
    """Return the frames as an SVG, which plays them again and again."""
    end_s = frames[-1].at_s + READ_S
    spans: list[tuple[int, str, float, float]] = []
    shown: dict[int, tuple[str, float]] = {}
    for frame in [*frames, Frame(end_s, [])]:
        for row in range(ROWS):
            line = frame.lines[row] if row < len(frame.lines) else ""
            known = shown.get(row)
            if known is not None and known[0] == line:
                continue
            if known is not None and known[0]:
                spans.append((row, known[0], known[1], frame.at_s))
            shown[row] = (line, frame.at_s)
    width, height = COLUMNS * _GLYPH + 2 * _MARGIN, ROWS * _LINE + 2 * _MARGIN
    texts = "\n".join(_text(*span) for span in spans if span[2] < span[3])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}"'
        f' role="img" aria-label="{escape(title)}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#22272e">'
        f'<animate id="l" attributeName="x" values="0;0" begin="0s;l.end" dur="{end_s:.2f}s"/></rect>\n'
        '<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="13.3" fill="#adbac7">'
        f"\n{texts}\n</g>\n</svg>\n"
    )


def _text(row: int, line: str, begin_s: float, end_s: float) -> str:
    """Return a line that is visible between two times of each round."""
    parts, colour, place = [], "", 0
    controls = re.finditer(r"\x1b\[([\d;]*)m", line)
    for control in [*controls, None]:
        piece = line[place : control.start() if control else len(line)]
        if piece:
            attributes = f' fill="{_PALETTE[colour]}"' if colour in _PALETTE else ""
            # Browsers join spaces, but not those that do not break.
            shown = escape(piece).replace(" ", "\xa0")
            parts.append(f"<tspan{attributes}>{shown}</tspan>" if attributes else shown)
        if control:
            place = control.end()
            codes = control[1].split(";")
            colour = next((code for code in codes if code in _PALETTE), "")
    y = _MARGIN + (row + 1) * _LINE - 4
    return (
        f'<text x="{_MARGIN}" y="{y}" visibility="hidden">{"".join(parts)}'
        f'<set attributeName="visibility" to="visible" begin="l.begin+{begin_s:.2f}s" end="l.begin+{end_s:.2f}s"/>'
        "</text>"
    )
