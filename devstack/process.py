"""Processes of a stack: start, identify, measure and end them, with their descendants.

A process is identified by its pid and its start time, so that a reused pid is never taken for one of ours. Processes
that a service started are its descendants; orphaned ones are found by a marker in their inherited environment.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from devstack.config import ROOT

MARKER = "MASSCOMM_STACK_STATE"
CHILD = ROOT / "devstack" / "child.py"


def start_ticks(pid: int) -> int | None:
    """When a process began, in kernel ticks since boot; None when there is no such process or it is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    after_name = text[text.rindex(")") + 2 :].split()
    return None if after_name[0] in "ZX" else int(after_name[19])


def child_command(command: Sequence[str], *, death_signal: signal.Signals, owned: Sequence[Path]) -> list[str]:
    """`command` wrapped so that it dies with this process; with `owned`, it is not root and owns those files."""
    files = os.pathsep.join(map(str, owned))
    wrapper = [sys.executable, "-I", "-S", str(CHILD), str(os.getpid()), str(int(death_signal)), files]
    return [*wrapper, "--", *command]


def spawn(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    log: Path,
    state_dir: Path,
    death_signal: signal.Signals = signal.SIGTERM,
    owned: Sequence[Path] = (),
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own, its output appended to `log`.

    The kernel sends `death_signal` when the calling THREAD ends: call it from one that lives as long as the stack.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            child_command(command, death_signal=death_signal, owned=owned),
            env={**environment, MARKER: str(state_dir)},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def marked(state_dir: Path) -> list[psutil.Process]:
    """Every process that inherited the marker of the stack in `state_dir`, without this one."""
    wanted = f"{MARKER}={state_dir}".encode()
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and wanted in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"):
                found.append(process)
        except (OSError, psutil.Error):
            continue  # ended meanwhile, or another user's process
    return found


def family(pid: int) -> list[psutil.Process]:
    """A process and all its descendants; empty when it is gone."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def rss_mb(processes: Iterable[psutil.Process]) -> float:
    """Sum of the resident memory, in MB (2**20 bytes); a process that has ended counts 0."""
    total = 0
    for process in processes:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total / 2**20


def end(processes: Iterable[psutil.Process], *, grace_s: float, polite: signal.Signals = signal.SIGTERM) -> None:
    """Send `polite` to the processes, wait up to `grace_s` for all of them, then kill the remaining ones."""
    alive = list(processes)
    for process in alive:
        _signal(process, polite)
    _, alive = psutil.wait_procs(alive, timeout=grace_s)
    for process in alive:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=5)


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)  # psutil compares the start time first, so a reused pid is not signalled
    except psutil.NoSuchProcess:
        return
