"""Measures the processor time of this process and its children, and of the JVM by kind of thread."""

import re
from collections import defaultdict
from pathlib import Path

import psutil

_THREADS = {
    "Executor task": "JVM: tasks",
    "C1 Compiler": "JVM: compiling",
    "C2 Compiler": "JVM: compiling",
    "GC Thread": "JVM: collecting garbage",
    "ParGC": "JVM: collecting garbage",
}


def of_process(process: psutil.Process) -> float:
    """Return the seconds of processor time of a process so far. Errors: psutil.Error."""
    times = process.cpu_times()
    return float(times.user + times.system)


def spent() -> dict[str, float]:
    """Return the seconds of processor time so far, by process or kind of thread."""
    found: defaultdict[str, float] = defaultdict(float)
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        try:
            times, command = process.cpu_times(), " ".join(process.cmdline())
        except psutil.Error:
            continue
        own, ended = times.user + times.system, times.children_user + times.children_system
        if process == me:
            found["Python on the driver"] += own
        elif "SparkSubmit" in command:
            found |= _of_threads(process.pid, own)
        elif "pyspark.daemon" in command:
            found["Python beside the executors"] += own + ended
        elif "kafka.Kafka" in command:
            found["Kafka's broker"] += own
        elif "postgres" in process.name():
            # The parent process has the times of the ended processes of its connections.
            found["Postgres"] += own + ended
    return found


def _of_threads(pid: int, whole: float) -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            named = re.match(r"\d+ \((.*)\) (.*)", stat.read_text())
        except OSError:
            continue
        assert named is not None, stat
        name, fields = named.groups()
        kind = next((kind for begin, kind in _THREADS.items() if name.startswith(begin)), "JVM: planning and the rest")
        ticks = fields.split()[11:13]
        found[kind] += sum(map(int, ticks)) / 100
    # The remainder is the time of ended threads, such as the thread of an ended query.
    found["JVM: planning and the rest"] += max(0.0, whole - sum(found.values()))
    return found
