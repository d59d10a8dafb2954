"""One stack for a test session, shared by all its worker processes.

The process that runs the session (xdist's controller, or pytest itself without xdist) owns the stack. It starts no
service until a test needs one: a fixture sends the names of the services through a socket and waits for the response.
So a single process starts and stops the services, and no reference counting is needed: when that process ends, in
whatever way, the services end.
"""

import json
import os
import shutil
import socket
import socketserver
import tempfile
import threading
from pathlib import Path

from local.devstack.config import StackConfig
from local.devstack.stack import Stack

VARIABLE = "MASSCOMM_TEST_STACK"


class StackUnavailableError(Exception):
    """The session's stack could not start the services that a test needs; the message is the stack's own."""


class SharedStack:
    """The stack of the session, and the socket through which the workers request services."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="masscomm-test-"))
        self.address = self.folder / "socket"
        self._stack: Stack | None = None
        self._lock = threading.Lock()
        shared = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                wanted = json.loads(self.rfile.readline())
                try:
                    answer: dict[str, object] = {"settings": shared.ensure(wanted).as_dict()}
                except Exception as error:  # The error is sent to the worker, which fails its test.
                    answer = {"error": f"{type(error).__name__}: {error}"}
                self.wfile.write(json.dumps(answer).encode() + b"\n")

        self._server = socketserver.ThreadingUnixStreamServer(str(self.address), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="shared-stack", daemon=True)
        self._thread.start()
        os.environ[VARIABLE] = str(self.address)

    def ensure(self, services: list[str]) -> StackConfig:
        """Start those of the given services that do not run yet. Raises StackError."""
        with self._lock:
            if self._stack is None:
                stack = Stack(StackConfig.on_free_ports(self.folder / "state"), discard=True)
                stack.open()
                self._stack = stack
            self._stack.ensure(*services)
            return self._stack.config

    def close(self) -> None:
        """Stop every service and remove the folder."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        os.environ.pop(VARIABLE, None)
        if self._stack is not None:
            self._stack.stop()
        shutil.rmtree(self.folder)


def ensure(*services: str) -> StackConfig:
    """Return the configuration of the session's stack once the given services run. Raises StackUnavailableError."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[VARIABLE])
        with connection.makefile("rwb") as stream:
            stream.write(json.dumps(services).encode() + b"\n")
            stream.flush()
            answer = json.loads(stream.readline())
    if "error" in answer:
        raise StackUnavailableError(answer["error"])
    return StackConfig.from_dict(answer["settings"])
