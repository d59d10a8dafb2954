"""Does the README's *Try it* as pasted, in a fresh clone, and prints its seconds.

    python -m lab.first_hour                   # nothing is built; the caches of uv, npm and Maven are used
    python -m lab.first_hour --built           # the same clone a second time: everything is built

The stack uses the ports of MASSCOMM_PORT_*. The clone is of the last commit, and is removed at the end.
"""

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
# What `make run` prints last, and what `send` prints when the device has the message.
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/")
_MESSAGE = re.compile(r"push to user \d+")


class FirstHourError(Exception):
    """A command of the page did not do what the page says; the message has its output."""


def commands(readme: str) -> tuple[str, str]:
    """Return the command that starts the stack and the command that sends, as the page has them.

    Raises:
        ValueError: The page has not exactly one of each.
    """
    (start,) = re.findall(r"^ {4}(make run)\b", readme, re.MULTILINE)
    (send,) = re.findall(r"^ {4}(\.venv/bin/masscomm send .*)$", readme, re.MULTILINE)
    return start, send


def await_line(output: IO[str], wanted: re.Pattern[str]) -> Iterator[str]:
    """Yield the lines of a program until one contains the pattern. Raises FirstHourError if the program ends before."""
    seen = []
    for line in output:
        yield line
        if wanted.search(line):
            return
        seen.append(line)
    raise FirstHourError(f"{wanted.pattern} is not in the output:\n{''.join(seen)}")


@contextmanager
def running(command: str, folder: Path) -> Iterator[IO[str]]:
    """Run a command of the page in a folder, and yield its output; end it and its children afterwards."""
    kept = {name: value for name, value in os.environ.items() if name not in ("MASSCOMM_STATE", "VIRTUAL_ENV")}
    with subprocess.Popen(
        shlex.split(command),
        cwd=folder,
        env={**kept, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        if process.stdout is None:
            raise TypeError("the output is a pipe")
        try:
            yield process.stdout
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            process.stdout.read()  # The program ends when its output has been read.


def try_it(clone: Path) -> dict[str, float]:
    """Do what the page says in a clone. Return the seconds of each part, and of all until the first message."""
    start, send = commands((clone / "README.md").read_text())
    began = time.monotonic()
    set_up = began
    with running(start, clone) as output:
        for line in await_line(output, _ADDRESS):
            print(line, end="", flush=True)
            if line.startswith("setup"):
                set_up = time.monotonic()
        up = time.monotonic()
        with running(send, clone) as sent:
            for line in await_line(sent, _MESSAGE):
                print(line, end="", flush=True)
            arrived = time.monotonic()
    return {
        "setup": set_up - began,
        "stack up": up - set_up,
        "first message after its command": arrived - up,
        "first message after make run": arrived - began,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Do the README's quick start as pasted; print its seconds.")
    parser.add_argument("--built", action="store_true", help="do it twice in one clone; the second time it is built")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="masscomm-first-hour-") as folder:
        clone = Path(folder, "masscomm")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        runs = [("nothing built", try_it(clone))]
        if arguments.built:
            runs.append(("built", try_it(clone)))
    for name, seconds in runs:
        print(f"\n{name}")
        for part, took in seconds.items():
            print(f"{took:8.1f} s  {part}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
