"""Where a webhook may go (S22): sixty spellings of places that only this machine or its network can reach."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest

from stepwell.errors import SinkError
from stepwell.sinks.addresses import resolve, why_closed

CLOSED = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.255.255.255",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "0",
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.1",
    "167772161",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.1",
    "0xc0a80001",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "169.254.1.1",
    "100.64.0.1",
    "100.127.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0.0.0.0",
    "0:0:0:0:0:0:0:1",
    "fe80::1",
    "fe80::1%lo",
    "febf::1",
    "fc00::1",
    "fd00::1",
    "fd00:ec2::254",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2002:a00:1::",
    "2001:db8::1",
    "2001::1",
    "100::1",
    "localhost",
]
OPEN = ["93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946", "2a00:1450:4001::1", "::ffff:8.8.8.8"]

# The registries of special-purpose addresses, and what was never given out to hosts; in each all is closed.
RESERVED = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "255.255.255.255/32",
    "::/128",
    "::1/128",
    "::/96",
    "::ffff:0:0:0/96",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "200::/7",
    "400::/6",
    "800::/5",
    "1000::/4",
    "2001::/23",
    "2001::/32",
    "2001:2::/48",
    "2001:3::/32",
    "2001:4:112::/48",
    "2001:10::/28",
    "2001:20::/28",
    "2001:30::/28",
    "2001:db8::/32",
    "2002::/16",
    "2620:4f:8000::/48",
    "3ffe::/16",
    "3fff::/20",
    "4000::/3",
    "5f00::/16",
    "6000::/3",
    "8000::/3",
    "a000::/3",
    "c000::/3",
    "e000::/4",
    "f000::/5",
    "f800::/6",
    "fc00::/7",
    "fe00::/9",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
]


@pytest.mark.parametrize("network", RESERVED)
def test_no_reserved_network_is_let_through_at_its_edges_or_within(network: str) -> None:
    found = ipaddress.ip_network(network)
    size = found.num_addresses
    for place in {0, size // 3, size // 2, size - 1}:
        address = found[place]
        assert why_closed(address) is not None, address
        if address.version == 4:
            mapped = ipaddress.ip_address(f"::ffff:{address}")
            assert why_closed(mapped) is not None, mapped


def test_there_are_sixty_spellings() -> None:
    assert len(set(CLOSED)) >= 60


@pytest.mark.parametrize("host", CLOSED)
def test_what_is_not_public_is_refused(host: str) -> None:
    try:
        socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    except OSError:
        # This machine does not read it as an address: nothing can be reached by it.
        with pytest.raises(OSError):
            resolve(host, 443, allow_private=False)
        return
    with pytest.raises(SinkError) as caught:
        resolve(host, 443, allow_private=False)
    assert (caught.value.code, caught.value.where) == ("SW850", host)


@pytest.mark.parametrize("host", OPEN)
def test_what_is_public_is_let_through(host: str) -> None:
    assert resolve(host, 443, allow_private=False) == [host]


def test_what_is_private_is_let_through_when_that_is_said() -> None:
    assert resolve("127.0.0.1", 443, allow_private=True) == ["127.0.0.1"]


def test_one_private_address_among_several_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: Any, **__: Any) -> list[Any]:
        return [(0, 0, 0, "", (address, 443)) for address in ("8.8.8.8", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(SinkError, match=r"10\.0\.0\.1"):
        resolve("example.com", 443, allow_private=False)
