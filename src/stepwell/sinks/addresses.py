"""Where a connection may go: the addresses of a host are looked up once and checked, and a checked address is used."""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

from stepwell.errors import SinkError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Not for hosts, which not every version of `ipaddress` reports; or global only through a translator.
_CLOSED: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        *("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
        *("192.175.48.0/24", "198.18.0.0/15", "240.0.0.0/4"),
        *("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3ffe::/16", "3fff::/20"),
    )
)
# The only range assigned to hosts. Everything else is reserved, local, or leads through a translator to IPv4.
_GIVEN_OUT: Final = ipaddress.IPv6Network("2000::/3")


def resolve(host: str, port: int, *, allow_private: bool) -> list[str]:
    """The addresses of a host. A connection to each of them is allowed.

    Raises `SinkError` if an address is on this machine or in a private network, unless `allow_private`; `OSError` if
    the host has no address.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(info[4][0]).partition("%")[0] for info in found))
    for address in () if allow_private else addresses:
        reason = why_closed(ipaddress.ip_address(address))
        if reason is not None:
            raise SinkError(
                f"{host} is at {address}, which is {reason}",
                where=host,
                why="by default a webhook must not reach services that only this machine can reach",
                fix="if the event should go there, write Webhook(..., allow_private=True)",
            )
    return addresses


def why_closed(address: Address) -> str | None:
    """Why an address is not public; None if it is."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return why_closed(address.ipv4_mapped)
    if address.is_loopback:
        return "this machine"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast or address.is_unspecified:
        return "not one host"
    if any(address in network for network in _CLOSED if network.version == address.version):
        return "not public"
    if isinstance(address, ipaddress.IPv6Address) and address not in _GIVEN_OUT:
        return "in a private network" if address.is_private else "not public"
    return None if address.is_global else "in a private network"
