"""The state folder of a stack: its lock, the record of the running processes, and the clean-up of processes that
survived a crashed run.

The stack holds `run/lock` (flock) while it runs; the kernel releases the lock when the process ends. `run/stack.json`
has an entry for each process with its start time, written as soon as the process has started.
"""

import fcntl
import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from cli.errors import CommandError
from local.devstack import process
from local.devstack.config import StackConfig

# The seconds that processes of a killed run get to save their data.
ORPHAN_GRACE_S = 10.0


class AlreadyRunningError(CommandError):
    """Another process runs the stack of this state folder; the message has its pid and its start time."""


class NotRunningError(CommandError):
    """No stack runs in this state folder."""


@dataclass
class Started:
    """A process of the stack."""

    pid: int
    ticks: int  # The start time in ticks since boot (see `process.start_ticks`).
    since: str  # The start time in UTC.
    address: str = ""
    ready_s: float | None = None
    ports: list[int] = field(default_factory=list)

    def alive(self) -> bool:
        """Return whether this process still runs; another process with the same pid does not count."""
        return process.start_ticks(self.pid) == self.ticks


def now() -> str:
    """Return the current time in UTC in ISO 8601, in whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_atomically(path: Path, text: str) -> None:
    """Replace a file of the run folder atomically: a reader sees the old text or the new one. Only its owner may
    read the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    draft.replace(path)


class RunState:
    """The record of one run. The process that holds the lock writes it, and any process may read it."""

    def __init__(self, config: StackConfig) -> None:
        self.config = config
        self.lock_path = config.run_dir / "lock"
        self.path = config.run_dir / "stack.json"
        self._lock: int | None = None

    # --- for the holder of the lock ---

    def acquire(self) -> None:
        """Lock the folder, so that this process runs its stack from now on. Raises AlreadyRunningError."""
        self.config.run_dir.mkdir(parents=True, exist_ok=True)
        # The lock file is never removed: otherwise two processes could lock two different files.
        descriptor = os.open(self.lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(descriptor, 4096, 0).decode()
            os.close(descriptor)
            holder = json.loads(text) if text else {"pid": "?", "since": "this moment"}
            raise AlreadyRunningError(
                f"A stack already runs here ({self.config.state_dir}): pid {holder['pid']}, since {holder['since']}."
                " See `masscomm status`; `masscomm down` stops it."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "since": now()}).encode(), 0)
        self._lock = descriptor

    def release(self) -> None:
        """Permit another run to begin; closing the file releases the lock."""
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None

    def write(self, services: dict[str, Started], **more: Any) -> None:
        """Write which processes run."""
        content = {
            "pid": os.getpid(),
            "settings": self.config.as_dict(),
            "services": {name: asdict(started) for name, started in services.items()},
            **more,
        }
        write_atomically(self.path, json.dumps(content, indent=2))

    def end_orphans(self) -> list[str]:
        """End the processes that survived a killed run of this folder. The caller must hold the lock.

        Only processes in the record with the same pid AND start time, their descendants, and processes with this
        folder's marker are ended.

        Returns:
            A line for each process that was ended.
        """
        remaining: dict[int, psutil.Process] = {each.pid: each for each in process.marked(self.config.state_dir)}
        for started in self.services().values():
            if started.alive():
                remaining.update({each.pid: each for each in process.family(started.pid)})
        ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
        orphans = [each for pid, each in remaining.items() if pid not in ours]
        described = []
        for each in orphans:
            with _ignore_ended():
                described.append(f"pid {each.pid} ({each.name()})")
        process.end(orphans, grace_s=ORPHAN_GRACE_S)
        self.path.unlink(missing_ok=True)
        return described

    # --- for any process ---

    def holder(self) -> dict[str, Any] | None:
        """Return the pid and the start time of the process that runs this folder's stack; None if there is none."""
        try:
            descriptor = os.open(self.lock_path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(descriptor, 4096, 0).decode()
            return dict(json.loads(text)) if text else {"pid": 0, "since": now()}
        finally:
            os.close(descriptor)
        return None

    def read(self) -> dict[str, Any]:
        """Return the content of the record; empty if no run is recorded."""
        try:
            return dict(json.loads(self.path.read_text()))
        except FileNotFoundError:
            return {}

    def services(self) -> dict[str, Started]:
        """Return the recorded processes by service; they may have ended."""
        return {name: Started(**values) for name, values in self.read().get("services", {}).items()}

    def clean(self) -> None:
        """Remove all files of the folder. Raises AlreadyRunningError while a stack runs in it."""
        if not self.config.state_dir.exists():
            return
        self.acquire()
        try:
            self.end_orphans()
            for child in self.config.state_dir.iterdir():
                if child != self.config.run_dir:
                    shutil.rmtree(child) if child.is_dir() else child.unlink()
            for child in self.config.run_dir.iterdir():
                if child != self.lock_path:
                    child.unlink()
        finally:
            self.release()


def running_config(config: StackConfig) -> StackConfig:
    """Return the configuration of the stack that runs in a state folder, whose ports may be others than those of this
    process's environment; without one, the given configuration.
    """
    settings = RunState(config).read().get("settings")
    return StackConfig.from_dict(settings) if settings else config


@contextmanager
def _ignore_ended() -> Iterator[None]:
    try:
        yield
    except psutil.NoSuchProcess:
        return
