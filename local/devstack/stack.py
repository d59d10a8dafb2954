"""The local stack: it starts the services in the order of their dependencies, watches them and stops them.

    with Stack(StackConfig.on_free_ports(folder), services=["kafka", "registry"]) as stack:
        stack.config.kafka_bootstrap

Without `services`, the stack has all services, and provisions them (topics, schemas, indices, tables, connector).
"""

import concurrent.futures
import logging
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from cli.errors import CommandError
from local.devstack import process
from local.devstack.config import StackConfig, is_free
from local.devstack.provision import provisioning
from local.devstack.service import Service, Task, base_environment, function_environment
from local.devstack.services import all_services
from local.devstack.state import RunState, Started, now

_log = logging.getLogger(__name__)

MEMORY_INTERVAL_S = 3.0
PROBE_INTERVAL_S = 0.05
LOG_TAIL = 25
# The pause before the restart of a service that has ended. It doubles each time, and is reset to REVIVE_FIRST_S after
# REVIVED_AFTER_S seconds of uptime.
REVIVE_FIRST_S = 1.0
REVIVE_LAST_S = 30.0
REVIVED_AFTER_S = 60.0


class StackError(CommandError):
    """The stack or a service cannot start. The message contains the name, the reason and the end of the log."""


@dataclass(frozen=True)
class Crash:
    """A service that ended unexpectedly."""

    service: str
    status: int
    log: str
    tail: str

    def __str__(self) -> str:
        return f"{self.line}. The end of {self.log}:\n{self.tail}"

    @property
    def line(self) -> str:
        """Return a line of text that says which service ended, and how."""
        how = f"killed by signal {-self.status}" if self.status < 0 else f"status {self.status}"
        return f"{self.service} ended ({how})"


class _Running:
    """The process of a service, and its state."""

    def __init__(self, popen: subprocess.Popen[bytes], started: Started) -> None:
        self.popen = popen
        self.started = started
        self.begun = time.monotonic()
        self.exited = threading.Event()
        self.expected_to_end = False

    def processes(self) -> list[psutil.Process]:
        return process.family(self.popen.pid)


class Stack:
    """A stack of all services (except those in `without`), or of some services with their dependencies.

    Each change of a service's state is reported by `on_change(name, state, text)`, from many threads. The state is one
    of waiting, starting, ready, failed, stopping, stopped.

    With `discard`, the state is not used again: at the end, a JVM whose class archive exists is killed, because it
    would write the archive again.
    """

    def __init__(
        self,
        config: StackConfig,
        services: Iterable[str] | None = None,
        *,
        without: Iterable[str] = (),
        on_change: Callable[[str, str, str], None] = lambda _name, _state, _text: None,
        catalogue: Callable[[StackConfig], dict[str, Service]] = all_services,
        tasks: Callable[[StackConfig], list[Task]] = provisioning,
        discard: bool = False,
    ) -> None:
        self.config = config
        self.on_change = on_change
        self.known = catalogue(config)
        for name in without:
            if self.known.pop(name, None) is None:
                raise StackError(f"There is no service named {name}; the names are {', '.join(self.known)}.")
        self.tasks = tasks(config)
        self._discard = discard
        self.crashed = threading.Event()
        self.crashes: list[Crash] = []
        self.peak_mb = 0.0
        self.start_s = 0.0
        self.recovered: list[str] = []
        # A function that gets a line for each restart of a service; None until `keep_up` is called.
        self._report: Callable[[str], None] | None = None
        self._revive_after_s: dict[str, float] = {}
        self._wanted = None if services is None else list(services)
        self._state = RunState(config)
        self._running: dict[str, _Running] = {}
        self._done: set[str] = set()
        self._changed = threading.Condition()
        self._ensuring = threading.Lock()
        self._stopping = threading.Lock()
        self._starters: list[threading.Thread] = []
        self._ending = threading.Event()
        self._entered = False
        # One thread starts every process and lives as long as the stack, because the kernel ends a service when the
        # thread that started it has ended (see process.spawn).
        self._spawner = concurrent.futures.ThreadPoolExecutor(1, "spawner")
        self._sampler: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the services and wait until they are ready.

        Raises StackError or AlreadyRunningError; then no process remains.
        """
        begun = time.monotonic()
        self.open()
        try:
            if self._wanted is None:
                self._bring_up(list(self.known.values()), self.tasks)
            else:
                self.ensure(*self._wanted)
        except BaseException:
            self.stop()
            raise
        self.start_s = time.monotonic() - begun
        self._record()

    def open(self) -> None:
        """Lock the state folder without starting a service; `ensure` starts services. Raises AlreadyRunningError."""
        self._state.acquire()
        self._entered = True
        try:
            self.recovered = self._state.end_orphans()
        except BaseException:
            self.stop()
            raise
        self._sampler = threading.Thread(target=self._sample_memory, name="memory", daemon=True)
        self._sampler.start()

    def ensure(self, *names: str) -> None:
        """Start these services and their dependencies if they do not run yet, without provisioning. Raises
        StackError.
        """
        with self._ensuring:
            wanted: dict[str, Service] = {}
            waiting = deque(names)
            while waiting:
                name = waiting.popleft()
                if name not in self.known:
                    raise StackError(f"There is no service named {name}; the names are {', '.join(self.known)}.")
                wanted[name] = self.known[name]
                waiting.extend(each for each in self.known[name].depends_on if each in self.known)
            self._bring_up([each for each in wanted.values() if each.name not in self._running], [])

    def stop(self) -> None:
        """End every process that was started, each before its dependencies. The method may be called twice."""
        with self._stopping:
            if self._entered:
                self._stop()

    def keep_up(self, report: Callable[[str], None]) -> None:
        """From now on, restart services that end, including those that have ended before.

        `report` is called with a line for each restart. `crashes` contains a service while it is not ready.
        """
        with self._changed:
            self._report = report
            ended = list(self.crashes)
        for crash in ended:
            thread = threading.Thread(target=self._revive, args=(crash,), name=f"revive-{crash.service}", daemon=True)
            thread.start()

    # --- faults ---

    def kill(self, name: str) -> None:
        """Send SIGKILL to a service and all its processes, and wait until they have ended. The end does not count as
        a crash.
        """
        running = self._running.pop(name)
        running.expected_to_end = True
        process.end(running.processes(), grace_s=0, polite=signal.SIGKILL)
        running.exited.wait()
        self._done.discard(name)
        self._record()

    def restart(self, name: str) -> None:
        """Start a service (again) on its existing data, and wait until it is ready. Raises StackError."""
        if name in self._running:
            self._end(name)
            self._running.pop(name)
        self._start_service(self.known[name])

    # --- state ---

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the functions (addresses, names, credentials), and MONOLITH_DATABASE_URL."""
        return {**function_environment(self.config), "MONOLITH_DATABASE_URL": self.config.database_url("monolith")}

    @property
    def urls(self) -> dict[str, str]:
        """Return the address of every service by name."""
        return {name: self.known[name].address for name in self.known if name in self._running}

    def pid(self, name: str) -> int:
        return self._running[name].popen.pid

    def memory_mb(self) -> float:
        """Return the resident memory of all processes of the stack (without this one) in MB; see also `peak_mb`."""
        total = process.rss_mb(each for running in list(self._running.values()) for each in running.processes())
        self.peak_mb = max(self.peak_mb, total)
        return total

    def _stop(self) -> None:
        self._ending.set()
        with self._changed:
            self._changed.notify_all()
        # Wait until the spawner thread has started all requested services, so that self._running is complete. The
        # thread must not end yet, because the kernel would then end all services at once.
        self._spawner.submit(lambda: None).result()
        waiting = dict(self._running)
        ended: set[str] = set()

        def end_in_turn(name: str) -> None:
            with self._changed:
                self._changed.wait_for(lambda: all(other in ended for other in waiting if name in self._needs(other)))
            try:
                self._end(name, kill=self._discard)
            except Exception:
                # Its processes end below, by their marker. The services that it needs must not wait for it for ever.
                _log.exception("%s did not end in its turn", name)
            with self._changed:
                ended.add(name)
                self._changed.notify_all()

        threads = [threading.Thread(target=end_in_turn, args=(name,), name=f"stop-{name}") for name in waiting]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for thread in self._starters:
            # The thread may be waiting for a request to a server that has just ended.
            thread.join(10)
        # End the processes that have outlived their service; the marker in their environment identifies them.
        process.end(process.marked(self.config.state_dir), grace_s=2)
        self._running.clear()
        self._spawner.shutdown()
        self._state.path.unlink(missing_ok=True)
        self._state.release()
        self._entered = False

    def _needs(self, name: str) -> set[str]:
        """Return the services that must not end before `name`: its direct dependencies, and those through
        provisioning.
        """
        if name not in self.known:
            return set()
        needs: set[str] = set()
        tasks = {task.name: task for task in self.tasks}
        waiting = deque((*self.known[name].depends_on, *self.known[name].outlived_by))
        while waiting:
            each = waiting.popleft()
            if each in tasks:
                waiting.extend(tasks[each].depends_on)
            elif each in self.known and each not in needs:
                needs.add(each)
                waiting.extend(self.known[each].depends_on)
        return needs

    def _bring_up(self, services: list[Service], tasks: list[Task]) -> None:
        """Start all services and run all provisioning tasks, each after its dependencies, and otherwise in parallel."""
        self._refuse_taken_ports(services)
        present = {each.name for each in services} | {task.name for task in tasks} | self._done
        failures: list[BaseException] = []

        def in_turn(node: Service | Task) -> None:
            needed = [name for name in node.depends_on if name in present]
            self.on_change(node.name, "waiting", ", ".join(needed))
            with self._changed:
                self._changed.wait_for(
                    lambda: failures or self._ending.is_set() or all(name in self._done for name in needed)
                )
            if failures or self._ending.is_set():
                return
            try:
                if isinstance(node, Service):
                    self._start_service(node, lambda: bool(failures))
                else:
                    self._run_task(node)
            except BaseException as error:
                with self._changed:
                    failures.append(error)
                    self._changed.notify_all()

        nodes: list[Service | Task] = [*services, *tasks]
        threads = [
            threading.Thread(target=in_turn, args=(node,), name=f"start-{node.name}", daemon=True) for node in nodes
        ]
        self._starters = threads
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        if self._ending.is_set():
            raise StackError("The stack was stopped while it started.")

    def _refuse_taken_ports(self, services: list[Service]) -> None:
        taken = [
            f"Port {port}, for {service.name}, is taken: choose another with"
            f" `masscomm up --port {name}=NUMBER` or MASSCOMM_PORT_{name.upper()}=NUMBER."
            for service in services
            for name in service.ports
            if not is_free(port := getattr(self.config.ports, name))
        ]
        if taken:
            raise StackError("\n".join(taken))

    def _run_task(self, task: Task) -> None:
        self.on_change(task.name, "starting", "")
        begun = time.monotonic()
        try:
            task.run()
        except Exception as error:
            self.on_change(task.name, "failed", str(error))
            raise StackError(f"{task.name} failed: {error}") from error
        self._mark_done(task.name)
        self.on_change(task.name, "ready", f"{time.monotonic() - begun:.1f} s")

    def _mark_done(self, name: str) -> None:
        with self._changed:
            self._done.add(name)
            self._changed.notify_all()

    def _start_service(self, service: Service, abandoned: Callable[[], bool] = lambda: False) -> None:
        begun = time.monotonic()
        self.on_change(service.name, "starting", "")
        try:
            log = self.config.log(service.name)
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_bytes(b"")
            for path, text in service.files.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                path.chmod(0o600)  # Some of the files contain the database password.
            self.config.data(service.name).mkdir(parents=True, exist_ok=True)
            service.prepare(lambda command: self._run_once(service, command))
            running = self._spawner.submit(self._spawn, service).result()
            self._await_ready(service, running, abandoned)
            service.after_ready()
        except StackError as error:
            self.on_change(service.name, "failed", str(error).split("\n", 1)[0])
            raise
        except Exception as error:
            self.on_change(service.name, "failed", str(error))
            raise StackError(f"{service.name} could not start: {error}{self._tail(service)}") from error
        took = time.monotonic() - begun
        running.started.ready_s = round(took, 2)
        self._record()
        self._mark_done(service.name)
        self.on_change(service.name, "ready", f"{took:.1f} s, {process.rss_mb(running.processes()):.0f} MB")

    def _spawn(self, service: Service) -> _Running:
        if self._ending.is_set():
            raise StackError("The stack was stopped while it started.")
        popen = process.spawn(
            self._command(service),
            environment={**base_environment(), **service.environment},
            log=self.config.log(service.name),
            state_dir=self.config.state_dir,
            death_signal=service.stop_signal,
            owned=service.drop_root,
        )
        started = Started(
            popen.pid,
            process.start_ticks(popen.pid) or 0,
            now(),
            service.address,
            ports=[getattr(self.config.ports, name) for name in service.ports],
        )
        running = _Running(popen, started)
        self._running[service.name] = running
        threading.Thread(target=self._watch, args=(service, running), name=f"watch-{service.name}", daemon=True).start()
        self._record()
        return running

    def _command(self, service: Service) -> list[str]:
        """Return the command of a service. A JVM's command uses its class archive, or writes one when the process
        ends.
        """
        if service.class_archive is None:
            return service.command
        program, *arguments = service.command
        if service.class_archive.exists():
            return [program, f"-XX:SharedArchiveFile={service.class_archive}", *arguments]
        draft = self._archive_draft(service)
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        return [program, f"-XX:ArchiveClassesAtExit={draft}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off", *arguments]

    def _archive_draft(self, service: Service) -> Path:
        return self.config.config_dir(service.name) / "classes.jsa"

    def _keep_class_archive(self, service: Service) -> None:
        """Move a class archive that a service has just written to its final path, atomically."""
        if service.class_archive is None:
            return
        draft = self._archive_draft(service)
        if draft.exists():
            service.class_archive.parent.mkdir(parents=True, exist_ok=True)
            whole = service.class_archive.with_suffix(f".{os.getpid()}.draft")
            # The file is first moved to the target's file system, and then renamed atomically.
            shutil.move(draft, whole)
            whole.replace(service.class_archive)

    def _run_once(self, service: Service, command: list[str]) -> None:
        """Run a preparatory command in the same way as the service will run. Raises StackError if it fails."""

        def start() -> subprocess.Popen[bytes]:
            return process.spawn(
                command,
                environment={**base_environment(), **service.environment},
                log=self.config.log(service.name),
                state_dir=self.config.state_dir,
                owned=service.drop_root,
            )

        status = self._spawner.submit(start).result().wait()
        if status:
            raise StackError(f"{service.name} could not be prepared (status {status}).{self._tail(service)}")

    def _await_ready(self, service: Service, running: _Running, abandoned: Callable[[], bool]) -> None:
        deadline = time.monotonic() + service.start_timeout_s
        while True:
            if running.exited.is_set():
                raise StackError(
                    f"{service.name} ended while it started (status {running.popen.returncode}).{self._tail(service)}"
                )
            if abandoned() or self._ending.is_set():
                raise StackError("The stack was stopped while it started.")
            with suppress(OSError):  # While nothing listens yet, the probe raises OSError, and is repeated.
                if service.ready():
                    return
            if time.monotonic() > deadline:
                raise StackError(
                    f"{service.name} did not serve within {service.start_timeout_s:.0f} s. If other programs keep the"
                    f" machine busy, end them and start again.{self._tail(service)}"
                )
            running.exited.wait(PROBE_INTERVAL_S)

    def _watch(self, service: Service, running: _Running) -> None:
        """Wait for the end of a process; report a crash unless the end was requested."""
        status = running.popen.wait()
        running.exited.set()
        if running.expected_to_end or self._ending.is_set() or service.name not in self._done:
            return
        crash = Crash(service.name, status, str(self.config.log(service.name)), self._log_end(service))
        with self._changed:
            self._done.discard(service.name)
            self.crashes.append(crash)
            revive = self._report is not None
        if time.monotonic() - running.begun >= REVIVED_AFTER_S:
            self._revive_after_s.pop(service.name, None)
        self.on_change(service.name, "failed", str(crash).split("\n", 1)[0])
        self.crashed.set()
        if revive:
            self._revive(crash)

    def _revive(self, crash: Crash) -> None:
        """Start a service that has ended and run its provisioning tasks again, until both succeed or the stack
        stops.
        """
        name, reason = crash.service, crash.line
        self._starters.append(threading.current_thread())
        started = False
        while self._report is not None:
            wait_s = self._revive_after_s.get(name, REVIVE_FIRST_S)
            self._revive_after_s[name] = min(2 * wait_s, REVIVE_LAST_S)
            self._report(f"{reason}; starting it again in {wait_s:.0f} s. Its log: {crash.log}")
            if self._ending.wait(wait_s):
                return
            try:
                if not started:
                    self._start_service(self.known[name])
                started = True
                for task in self.tasks:
                    # The server may have lost its contents, so its provisioning tasks run again.
                    if name in task.depends_on:
                        self._run_task(task)
            except StackError as error:
                if self._ending.is_set():
                    return
                reason = str(error).split("\n", 1)[0]
                continue
            self.crashes.remove(crash)
            return

    def _end(self, name: str, *, kill: bool = False) -> None:
        running = self._running[name]
        running.expected_to_end = True
        self.on_change(name, "stopping", "")
        service = self.known[name]
        descendants = running.processes()[1:]
        if not running.exited.is_set():
            # The first end of a service takes some seconds longer, because the JVM writes its class archive.
            writes = service.class_archive is not None and not service.class_archive.exists()
            killed = kill and service.class_archive is not None and not writes
            with suppress(ProcessLookupError):
                os.kill(running.popen.pid, signal.SIGKILL if killed else service.stop_signal)
            if not running.exited.wait(service.stop_timeout_s + (30 if writes else 0)):
                running.popen.kill()
                running.exited.wait()
            elif running.popen.returncode in (0, 128 + signal.SIGTERM):
                self._keep_class_archive(service)
        # The remaining processes get 2 seconds, because they already had the stop time of their service.
        process.end(descendants, grace_s=2)
        self._done.discard(name)
        self.on_change(name, "stopped", "")

    def _log_end(self, service: Service) -> str:
        path = self.config.log(service.name)
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join(lines[-LOG_TAIL:]) or "(it wrote nothing)"

    def _tail(self, service: Service) -> str:
        return f" The end of {self.config.log(service.name)}:\n{self._log_end(service)}"

    def _sample_memory(self) -> None:
        while not self._ending.wait(MEMORY_INTERVAL_S):
            self.memory_mb()

    def _record(self, **more: Any) -> None:
        if self._entered:
            services = {name: running.started for name, running in dict(self._running).items()}
            self._state.write(services, ready=self.start_s > 0, start_s=self.start_s, peak_mb=self.peak_mb, **more)
