"""Finds sockets of the stack's processes that listen on other addresses than loopback."""

import ipaddress
import socket
from collections.abc import Iterable

import psutil


def exposed(processes: Iterable[psutil.Process]) -> list[str]:
    """Return the listening TCP and bound UDP sockets that are not on the loopback address, each as `name (pid)
    address:port`.
    """
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
    """Return whether an IP address (also an IPv4 address in IPv6 notation) can be reached only from this machine."""
    parsed = ipaddress.ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback
