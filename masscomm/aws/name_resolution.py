"""Resolves host names within a time limit."""

import socket
import threading
from typing import Any


def addresses(host: str, port: int, within_s: float) -> list[Any]:
    """Return the entries of socket.getaddrinfo for TCP.

    The host is resolved in a daemon thread. It continues after the time limit, because name resolution cannot be
    interrupted.

    Raises:
        TimeoutError: The name was not resolved in time.
        OSError: The name cannot be resolved.
    """
    found: list[Any] = []

    def resolve() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM))
        except OSError as error:
            found.append(error)

    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(within_s)
    if not found:
        raise TimeoutError(f"the name {host} was not resolved within {within_s:.1f} s")
    if isinstance(found[0], OSError):
        raise found[0]
    return list(found[0])
