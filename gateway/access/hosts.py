"""Hosts: the names by which a server is asked, as the header `Host` says them."""

from collections.abc import Collection
from ipaddress import ip_address

ANY = "*"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_meant(header: str, allowed: Collection[str]) -> bool:
    """Whether a request with this `Host` was meant for this machine, or for one of the names `allowed` (in small letters; ANY: all).

    A page in a browser can have its own name lead to 127.0.0.1 (DNS rebinding) and then asks as if it were this server's, but not under
    a name of this machine. What sends no `Host` at all is no browser.
    """
    name = host_of(header)
    return not header or ANY in allowed or name in allowed or is_loopback(name)


def host_of(header: str) -> str:
    """The host of a `Host` header, in small letters, without its port and the brackets of an IPv6 address."""
    name, colon, port = header.strip().lower().rpartition(":")
    if not colon or not (port.isdigit() or port == "") or (":" in name and not name.endswith("]")):
        name = header.strip().lower()
    return name.removeprefix("[").removesuffix("]") if name.startswith("[") else name.removesuffix(".")
