"""Where the processor's time goes: this process and all that it has started, the JVM by kinds of threads."""

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


def spent() -> dict[str, float]:
    """Seconds so far, by what they were spent on."""
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
            # Connections that have ended are their parent's.
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
    # Of threads that have ended; a query's own is one when the query has.
    found["JVM: planning and the rest"] += max(0.0, whole - sum(found.values()))
    return found
