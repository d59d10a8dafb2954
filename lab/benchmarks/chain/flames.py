"""Flame graphs of the functions, sampled by py-spy from outside their processes.

A sample is the stack of the thread with the interpreter lock, so waiting and system calls without the lock do not
count. py-spy does not pause the processes: pauses made the preference checker's processor time eight times as long.
"""

import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab.benchmarks.chain.svg import Drawing

_RATE_PER_S = 500
_LONGEST_S = 3_600
_STOP_S = 60.0
# The format of a frame in py-spy's output: "name (folder/file.py:12)".
_FRAME = re.compile(r"^(?P<name>.*) \((?P<file>[^()]*?)(?:\.py)?(?::\d+)?\)$")
_WIDTH, _ROW, _TOP, _MARGIN = 1200, 17, 44, 10
# Boxes narrower than this share of the whole are not drawn.
_NARROWEST = 0.002
_LETTER_PX = 6.3
# The colour of a frame is that of the first entry with which the frame's name begins.
_COLOURS = {
    "functions.": "#e4572e",
    "masscomm.": "#f3a712",
    "awslambdaric": "#c9c9c9",
    "": "#8fb8de",
}


@dataclass
class _Node:
    samples: int = 0
    inner: "dict[str, _Node]" = field(default_factory=dict)


def sampler() -> str:
    """Return the path of py-spy. Raises SystemExit if it is not installed."""
    found = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if found is None:
        raise SystemExit(f"py-spy is not installed: {sys.executable} -m pip install py-spy")
    return found


@contextmanager
def sampled(processes: Mapping[str, int], folder: Path) -> Iterator[None]:
    """Sample these processes during the block. Each name gets a file with one stack per line.

    Args:
        processes: The process ids by name.
    """
    common = [sampler(), "record", "--gil", "--nonblocking", "--format", "raw"]
    common += ["--rate", str(_RATE_PER_S), "--duration", str(_LONGEST_S)]
    running = [
        subprocess.Popen(
            [*common, "--function", "--pid", str(pid), "--output", str(folder / f"{name}.txt")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name, pid in processes.items()
    ]
    try:
        yield
    finally:
        for each in running:
            each.send_signal(signal.SIGINT)
        for each in running:
            each.wait(_STOP_S)


def read_samples(file: Path) -> Counter[str]:
    """Return the samples of each stack: frames by module and name, the outermost first."""
    stacks: Counter[str] = Counter()
    for line in file.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        stacks[";".join(map(_frame, stack.split(";")))] += int(count)
    return stacks


def _frame(text: str) -> str:
    found = _FRAME.match(text)
    if found is None:
        return text
    # The path outside the module path is removed, because it contains folders of this machine.
    module = found["file"].rpartition("site-packages/")[2].lstrip("/").removesuffix("/__init__").replace("/", ".")
    return f"{module}.{found['name']}"


def flame_graph(stacks: Mapping[str, int], title: str) -> str:
    """Return the SVG: a box for each frame, whose width is its share of processor time, with the outermost frame on
    top.
    """
    root = _tree(stacks)
    boxes = list(_boxes(root, 0, 0.0, root.samples))
    depth = 1 + max((row for row, *_ in boxes), default=0)
    drawing = Drawing(_WIDTH, _TOP + depth * _ROW + _MARGIN)
    drawing.text(_MARGIN, 18, title, size=14, bold=True)
    drawing.text(
        _MARGIN,
        34,
        "time with the interpreter lock. Orange: the function; yellow: masscomm; blue: libraries; grey: the runtime",
        size=11,
    )
    usable = _WIDTH - 2 * _MARGIN
    for row, start, share, name in boxes:
        x, y, width = _MARGIN + start * usable, _TOP + row * _ROW, share * usable
        colour = next(colour for begin, colour in _COLOURS.items() if name.startswith(begin))
        drawing.rect(x, y, max(0.5, width - 0.5), _ROW - 1, colour, f"{name}: {share:.1%}")
        letters = int((width - 4) / _LETTER_PX)
        label = name if len(name) <= letters else name.rpartition(".")[2]
        if letters >= 3:
            drawing.text(x + 2, y + 12, label[:letters], size=11)
    return drawing.render()


def _tree(stacks: Mapping[str, int]) -> _Node:
    root = _Node()
    for stack, count in stacks.items():
        root.samples += count
        node = root
        for name in stack.split(";"):
            node = node.inner.setdefault(name, _Node())
            node.samples += count
    return root


def _boxes(node: _Node, row: int, start: float, whole: int) -> Iterator[tuple[int, float, float, str]]:
    """Yield row, start, share and name of each box."""
    for name, inner in sorted(node.inner.items(), key=lambda each: -each[1].samples):
        share = inner.samples / whole
        if share >= _NARROWEST:
            yield row, start, share, name
            yield from _boxes(inner, row + 1, start, whole)
        start += share
