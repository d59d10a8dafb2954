"""Starts, identifies, measures and ends the processes of a stack, with their descendants.

A process is identified by its pid and its start time, so that a reused pid is never taken for a process of the stack.
Processes that a service started are its descendants; orphaned ones are found by a marker in the environment that they
inherited.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from local.devstack.config import ROOT

MARKER = "MASSCOMM_STACK_STATE"
CHILD = ROOT / "local" / "devstack" / "child.py"


def start_ticks(pid: int) -> int | None:
    """Return the time at which a process began, in kernel ticks since boot; None if the process does not exist or is
    a zombie.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    after_name = text[text.rindex(")") + 2 :].split()
    return None if after_name[0] in "ZX" else int(after_name[19])


def child_command(command: Sequence[str], *, death_signal: signal.Signals, owned: Sequence[Path]) -> list[str]:
    """Return a command that runs `command` in a process that ends with this process. If `owned` is given, the process
    is not root and owns these files.
    """
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
    """Start `command` in a new session, with its output appended to the file `log`.

    The kernel sends `death_signal` when the calling THREAD ends. So the caller must be a thread that lives as long as
    the stack.
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
    """Return every process, except this one, that inherited the marker of the stack in `state_dir`."""
    wanted = f"{MARKER}={state_dir}".encode()
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and wanted in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"):
                found.append(process)
        except (OSError, psutil.Error):
            continue  # The process has ended meanwhile, or belongs to another user.
    return found


def family(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants; empty if the process has ended."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def rss_mb(processes: Iterable[psutil.Process]) -> float:
    """Return the total resident memory in MB (2**20 bytes); a process that has ended counts as 0."""
    total = 0
    for process in processes:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total / 2**20


def end(processes: Iterable[psutil.Process], *, grace_s: float, polite: signal.Signals = signal.SIGTERM) -> None:
    """Send the signal `polite` to the processes, wait up to `grace_s` seconds for all of them, then kill the
    remaining ones.
    """
    alive = list(processes)
    for process in alive:
        _signal(process, polite)
    _, alive = psutil.wait_procs(alive, timeout=grace_s)
    for process in alive:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=5)


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        # psutil compares the start time first, so that no signal is sent to a reused pid.
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return
