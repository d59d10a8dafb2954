"""The guard against requests to servers inside the installation."""

from ipaddress import ip_address

import pytest

from masscomm.channels.public_urls import (
    Target,
    UrlRefused,
    checked,
    is_public,
    loopback_permitted,
    public_addresses,
)
from masscomm.errors import Retry, Stop

NOT_PUBLIC = [
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1"),  # noqa: S104 - no address to bind
    *("169.254.169.254", "100.64.0.1", "192.0.0.8", "192.0.2.1", "198.18.0.1", "203.0.113.5"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "192.88.99.1"),
    *("::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808"),
    *("64:ff9b:1::1", "2002:7f00:1::", "2001::1", "2001:db8::1", "3fff::1", "fec0::1", "fd00:ec2::254"),
    *("fe80::1", "ff02::1", "100::1", "5f00::1", "4000::1"),
]


@pytest.mark.guarantee("webhooks.public_servers_only")
@pytest.mark.kills(guard="public_urls.addresses")
@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert not is_public(ip_address(address))
    target = checked("https://hooks.example.org/")
    for found in ([address], ["93.184.216.34", address]):
        with pytest.raises(UrlRefused, match="public server"):
            public_addresses(target, resolve=lambda *_, found=found: found)


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "2a00:1450:4001:81b::200e"])
def test_a_public_address_is_returned(address: str) -> None:
    target = checked("https://hooks.example.org/")
    assert public_addresses(target, resolve=lambda *_: [address, address]) == [address]


@pytest.mark.parametrize(
    "host", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"]
)
def test_other_spellings_of_loopback_are_refused(host: str) -> None:
    """The operating system's own resolver reads them, should the text of the URL be accepted."""
    with pytest.raises(UrlRefused):
        checked(f"https://{host}/")
    target = Target(scheme="https", host=host.strip("[]"), port=443, path="/")
    with pytest.raises(UrlRefused, match="public server"):
        public_addresses(target)


def test_a_name_of_this_machine_is_refused_when_resolved() -> None:
    with pytest.raises(UrlRefused, match="public server"):
        public_addresses(checked("https://localhost/"))


@pytest.mark.kills(guard="public_urls.https")
@pytest.mark.kills(guard="public_urls.credentials")
@pytest.mark.kills(guard="public_urls.port")
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://hooks.example.org/", "https"),
        ("ftp://hooks.example.org/", "https"),
        ("file:///etc/passwd", "https"),
        ("//hooks.example.org/", "https"),
        ("hooks.example.org", "https"),
        ("", "visible ASCII"),
        ("https://hooks.example.org/" + "x" * 2_000, "at most 2000"),
        ("https://user:secret@hooks.example.org/", "user name"),
        ("https://@hooks.example.org/", "user name"),
        ("https://hooks.example.org@10.0.0.1/", "user name"),
        ("https://hooks.example.org\\@10.0.0.1/", "visible ASCII"),
        ("https://hooks.example.org/ x", "visible ASCII"),
        ("https://hooks.example.org/\r\nx: y", "visible ASCII"),
        ("https://höoks.example.org/", "visible ASCII"),
        ("https://hooks.example.org/#part", "fragment"),
        ("https:///path", "host name"),
        ("https://hooks..example.org/", "host name"),
        ("https://hooks.example.org./", "host name"),
        ("https://[fe80::1%25eth0]/", "host name"),
        ("https://[x]/", "must be a URL"),
        ("https://hooks.example.org:99999/", "must be a URL"),
        ("https://hooks.example.org:22/", "port 443"),
        ("https://hooks.example.org:80/", "port 443"),
        ("https://hooks.example.org:0/", "port 443"),
    ],
)
def test_a_url_that_may_not_be_called_is_refused(url: str, message: str) -> None:
    with pytest.raises(UrlRefused, match=message) as raised:
        checked(url)
    assert "secret" not in str(raised.value)


def test_a_url_is_split_into_its_parts() -> None:
    assert checked("https://Hooks.Example.org/a?b=c") == Target(
        scheme="https", host="hooks.example.org", port=443, path="/a?b=c"
    )
    target = checked("https://hooks.example.org:8443")
    assert (target.path, target.authority) == ("/", "hooks.example.org:8443")
    assert checked("https://[2606:4700::1111]/").authority == "[2606:4700::1111]"


def test_loopback_is_permitted_by_a_setting_alone() -> None:
    url = "http://localhost:8080/hook"
    target = checked(url, loopback=True)
    assert public_addresses(target, resolve=lambda *_: ["127.0.0.1", "::1"], loopback=True) == ["127.0.0.1", "::1"]
    for found in (["10.0.0.1"], ["127.0.0.1", "10.0.0.1"], ["8.8.8.8"]):
        with pytest.raises(UrlRefused, match="public server"):
            public_addresses(target, resolve=lambda *_, found=found: found, loopback=True)
    with pytest.raises(UrlRefused):
        public_addresses(target, resolve=lambda *_: ["127.0.0.1"])


def test_a_name_without_an_address_is_tried_again() -> None:
    def fails(*_: object) -> list[str]:
        raise OSError("no such name")

    def empty(*_: object) -> list[str]:
        return []

    for resolve in (fails, empty):
        with pytest.raises(Retry, match="no address"):
            public_addresses(checked("https://hooks.example.org/"), resolve=resolve)


@pytest.mark.kills(guard="public_urls.loopback_in_production")
def test_a_deployment_refuses_the_loopback_setting() -> None:
    assert not loopback_permitted({"MASSCOMM_ENVIRONMENT": "prod"})
    assert loopback_permitted({"WEBHOOK_LOOPBACK": "1"})
    with pytest.raises(Stop, match="local stack"):
        loopback_permitted({"WEBHOOK_LOOPBACK": "1", "MASSCOMM_ENVIRONMENT": "dev"})
