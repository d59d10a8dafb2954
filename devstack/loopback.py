"""Find sockets of the stack's processes that listen on other addresses than loopback."""

import ipaddress
import socket
from collections.abc import Iterable

import psutil


def exposed(processes: Iterable[psutil.Process]) -> list[str]:
    """Listening TCP and bound UDP sockets not on the loopback address: `name (pid) address:port`, each once."""
    found = set()
    for process in processes:
        try:
            name, connections = process.name(), process.net_connections(kind="inet")
        except psutil.NoSuchProcess:
            continue
        for connection in connections:
            open_to_all = connection.status == psutil.CONN_LISTEN or (
                connection.type == socket.SOCK_DGRAM and not connection.raddr
            )
            if open_to_all and connection.laddr and not is_loopback(connection.laddr.ip):
                found.add(f"{name} ({process.pid}) {connection.laddr.ip}:{connection.laddr.port}")
    return sorted(found)


def is_loopback(address: str) -> bool:
    """Whether an IPv4 or IPv6 address, an IPv4 one written as IPv6 included, is reachable from this machine alone."""
    parsed = ipaddress.ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback
