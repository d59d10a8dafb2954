"""The recording of the README shows what a terminal would show."""

import io
from pathlib import Path
from xml.etree import ElementTree

from rich.live import Live
from rich.text import Text

from cli.terminal import Terminal
from local.devstack.config import ROOT
from tests.support.pictures.recording import COLUMNS, ROWS, Frame, Screen, draw, record

SVG = "{http://www.w3.org/2000/svg}"


def test_screen_shows_the_last_state_of_a_live_display() -> None:
    output = io.StringIO()
    terminal = Terminal(file=output, width=COLUMNS)
    terminal._force_terminal = True
    with Live(Text("0 %"), console=terminal, auto_refresh=False) as live:
        terminal.print("a message")
        live.update(Text("100 %\nended"), refresh=True)
    screen = Screen()
    screen.write(output.getvalue())
    assert [line for line in screen.shown() if line] == ["a message", "100 %", "ended"]


def test_screen_shows_the_last_lines() -> None:
    screen = Screen()
    screen.write("".join(f"{number}\n" for number in range(ROWS + 5)) + "end")
    assert len(screen.shown()) == ROWS
    assert screen.shown()[-1] == "end"


def test_line_is_visible_while_the_screen_has_it() -> None:
    drawn = ElementTree.fromstring(draw([Frame(0.0, ["\x1b[32m$\x1b[0m a <b>"]), Frame(2.0, ["c"])], "A recording"))  # noqa: S314 - our own
    first, second = drawn.iter(f"{SVG}text")
    assert "".join(first.itertext()) == "$\xa0a\xa0<b>"
    assert [each.attrib["fill"] for each in first.iter(f"{SVG}tspan")] == ["#57ab5a"]
    ((shown,),) = ([*first.iter(f"{SVG}set")],)
    assert (shown.attrib["begin"], shown.attrib["end"]) == ("l.begin+0.00s", "l.begin+2.00s")
    assert "".join(second.itertext()) == "c"


def test_output_of_a_command_is_recorded(tmp_path: Path) -> None:
    frames = record(["printf 'ä\\nb'"], folder=tmp_path, environment={})
    assert [line for line in frames[-1].lines if line][1:] == ["ä", "b"]
    assert [frame.at_s for frame in frames] == sorted(frame.at_s for frame in frames)


def test_recording_of_the_readme_is_whole() -> None:
    drawn = ElementTree.parse(ROOT / "docs" / "pictures" / "first-send.svg")  # noqa: S314 - our own
    lines = ["".join(each.itertext()).replace("\xa0", " ") for each in drawn.iter(f"{SVG}text")]
    assert any("nothing was sent" in line for line in lines)
    assert any("push to user 42" in line for line in lines)
    assert any("100% of" in line for line in lines)
