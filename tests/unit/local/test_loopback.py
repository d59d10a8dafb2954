"""The loopback check finds every port of the stack that other machines can reach."""

import socket

import psutil
import pytest

from local.devstack.loopback import exposed, is_loopback


def test_sockets_beyond_loopback_are_named() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)),
        socket.create_server(("0.0.0.0", 0)) as open_to_all,  # noqa: S104 - what the check is for
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        datagrams.bind(("0.0.0.0", 0))  # noqa: S104
        found = exposed([psutil.Process()])
        ports = {open_to_all.getsockname()[1], datagrams.getsockname()[1]}
    assert {int(each.rpartition(":")[2]) for each in found} == ports


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.0.1.7", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),  # noqa: S104
        ("::", False),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
    ],
)
def test_loopback_is_recognised_in_every_spelling(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected
