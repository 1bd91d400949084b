"""API keys: who may ask."""

import hmac
from collections.abc import Iterable, Mapping

from gateway.problems import Unauthorized


class Keys:
    """Static bearer keys. Without any, everyone may ask (settings allow that on a loopback address only)."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._keys = tuple(key.encode() for key in keys)

    @property
    def are_set(self) -> bool:
        """Whether a key is needed."""
        return bool(self._keys)

    def check(self, headers: Mapping[str, str]) -> None:
        """Raises Unauthorized unless the request brings one of the keys. Takes as long for a near miss as for any other."""
        if not self._keys:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        offered = given.strip().encode("utf-8", "surrogatepass")
        known = [hmac.compare_digest(offered, key) for key in self._keys]
        if scheme.lower() != "bearer" or not any(known):
            raise Unauthorized("a valid API key is needed: Authorization: Bearer <key>")
