"""Services small enough for unit tests: Python processes that listen, crash, or ignore SIGTERM."""

import sys
from pathlib import Path
from textwrap import dedent

from local.devstack.config import StackConfig
from local.devstack.service import Service, listens

# On SIGTERM each service appends its name to a shared file, which shows the order in which they ended.
LISTENS = dedent("""
    import signal, socket, sys, time
    port, ending, name = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    def end(number, frame):
        if name == "front":
            time.sleep(0.5)  # has work to finish, which what it needs must outlive
        with open(ending, "a") as file:
            file.write(name + "\\n")
        sys.exit(0)
    signal.signal(signal.SIGTERM, end)
    server = socket.create_server(("127.0.0.1", port))
    print("serving", flush=True)
    while True:
        signal.pause()
""")

STUBBORN = dedent("""
    import signal, socket, subprocess, sys
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(15, signal.SIG_IGN); signal.pause()"],
                             start_new_session=True)
    server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    while True:
        signal.pause()
""")

DIES_AT_ONCE = "import sys; print('no configuration found'); sys.exit(7)"


def small(
    config: StackConfig,
    name: str,
    port: str,
    *,
    script: str = LISTENS,
    depends_on: tuple[str, ...] = (),
    stop_timeout_s: float = 5,
) -> Service:
    """A service that runs `script` on one of the stack's ports."""
    number = getattr(config.ports, port)
    return Service(
        name=name,
        command=[sys.executable, "-c", script, str(number), str(ending_file(config)), name],
        ports=(port,),
        depends_on=depends_on,
        address=f"127.0.0.1:{number}",
        ready=lambda: listens(number),
        start_timeout_s=20,
        stop_timeout_s=stop_timeout_s,
    )


def ending_file(config: StackConfig) -> Path:
    """The file to which each service appends its name when it ends."""
    return config.state_dir / "ending"


def pair(config: StackConfig) -> dict[str, Service]:
    """Two services; `front` depends on `back`."""
    return {
        "back": small(config, "back", "kafka"),
        "front": small(config, "front", "registry", depends_on=("back",)),
    }


def one(config: StackConfig, script: str) -> dict[str, Service]:
    return {"only": small(config, "only", "kafka", script=script, stop_timeout_s=1)}
