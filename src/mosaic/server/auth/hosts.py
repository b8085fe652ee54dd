"""Allowed host names of a server, which prevent foreign pages from reaching it by DNS rebinding."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def split_host(header: str) -> str | None:
    """Return the host of `HOST[:PORT]`, lower case, without brackets; None if the header is not valid."""
    text = header.strip().lower()
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        port = port.removeprefix(":") if port.startswith(":") or not port else "?"
        valid = bool(bracket) and _is_ip(host)
    else:
        host, _, port = text.partition(":")
        valid = bool(host) and all(char.isascii() and (char.isalnum() or char in "-._") for char in host)
    return host.rstrip(".") if valid and (not port or (port.isascii() and port.isdigit())) else None


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    names: frozenset[str]
    any_address: bool = False  # a bare IP address cannot be pointed elsewhere, only names can

    def allow(self, header: str) -> bool:
        host = split_host(header)
        return host is not None and (host in self.names or (self.any_address and _is_ip(host)))


def allowed_hosts(bound_to: str = "127.0.0.1") -> AllowedHosts:
    """Allow loopback names always; on a public address also its own name, the machine's name and any bare address."""
    if is_loopback(bound_to):
        return AllowedHosts(_LOOPBACK_NAMES | {bound_to.lower()})
    return AllowedHosts(_LOOPBACK_NAMES | {bound_to.lower(), socket.gethostname().lower()}, any_address=True)


def same_origin(origin: str, host_header: str) -> bool:
    """Return whether the request comes from a page of this same server."""
    scheme, separator, authority = origin.strip().lower().partition("://")
    return bool(separator) and scheme in ("http", "https") and authority == host_header.strip().lower()
