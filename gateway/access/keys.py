"""Keys: from a request's header to who calls."""

import hmac
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from gateway.access.caller import Caller
from gateway.access.hosts import is_meant
from gateway.access.secret import digest_of_secret, is_secret
from gateway.problems import Forbidden, Unauthorized

ELSEWHERE = frozenset({"cross-site", "same-site"})  # of `Sec-Fetch-Site`, which no page can set or leave out


class OpenToAll(Exception):
    """Raised when other machines reach the address to listen on, and there is no key that they would need."""


class Known(Protocol):
    """The keys that are stored."""

    @property
    def are_there(self) -> bool:
        """Whether there is, or ever was, a key."""
        ...

    def caller(self, digest: bytes) -> Caller | None:
        """Whose the key of that digest is; None for one that is unknown, revoked or over. Raises KeysUnreadable."""
        ...


class NoneStored:
    """Without a database no keys are stored (Known)."""

    are_there = False

    def caller(self, digest: bytes) -> Caller | None:  # noqa: ARG002
        return None


class Keys:
    """The keys of the settings, which may do everything of the default tenant, and those that are stored.

    Where neither has any, everyone may do so: the server then listens on a loopback address only.
    """

    def __init__(
        self,
        keys: Iterable[str] = (),
        stored: Known | None = None,
        *,
        always_needed: bool = False,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
    ) -> None:
        """`always_needed`: also while there is none, as on an address that other machines reach. `hosts`: the names, besides those of
        this machine, by which the server may be asked without a key; `origins`: those of other sites' pages that may ask so."""
        self._digests = tuple(digest_of_secret(key) for key in keys)
        self._stored = stored or NoneStored()
        self._always_needed, self._hosts, self._origins = always_needed, hosts, origins

    @property
    def are_set(self) -> bool:
        """Whether there is, or was, a key: one that was revoked leaves no open door."""
        return bool(self._digests) or self._stored.are_there

    @property
    def are_needed(self) -> bool:
        """Whether a request needs one."""
        return self._always_needed or self.are_set

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Who calls. Raises Unauthorized unless the request brings a key that is good, KeysUnreadable while nobody knows which are.

        Where none is needed, Forbidden for what a browser sends on behalf of a page of another site: it would not ask before it did; and
        for what was sent to another name than this machine's, which a page may have led here.

        Nothing is asked of a database. How long it takes says nothing about a key: digests are compared, which nobody can steer.
        """
        if not self.are_needed:
            if not is_meant(headers.get("host", ""), self._hosts):
                raise Forbidden(
                    "without a key this server is asked as localhost or 127.0.0.1; name other hosts in GATEWAY_ALLOWED_HOSTS, or make a key"
                )
            if self._is_foreign(headers):
                raise Forbidden(
                    "a page of another site may ask with a key only, or where GATEWAY_CORS_ORIGINS names its origin"
                )
            return Caller()
        return self._bearer(headers)

    def _is_foreign(self, headers: Mapping[str, str]) -> bool:
        """Whether a browser sent it for a page of another site, none of those that may ask. Where it does not say of which site the page
        is (to an address that is neither https nor loopback it does not), the page's origin does.
        """
        origin, site = headers.get("origin", ""), headers.get("sec-fetch-site")
        if origin in self._origins:
            return False
        if site is not None:
            return site in ELSEWHERE
        return bool(origin) and origin.lower().partition("://")[2] != headers.get("host", "").lower()

    def _bearer(self, headers: Mapping[str, str]) -> Caller:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        secret = given.strip()
        digest = digest_of_secret(secret)
        known = [hmac.compare_digest(digest, one) for one in self._digests]
        if scheme.lower() == "bearer":
            if any(known):
                return Caller(owner=digest.hex())
            found = self._stored.caller(digest) if is_secret(secret) else None
            if found is not None:
                return found
        raise Unauthorized("a valid API key is needed: Authorization: Bearer <key>")
