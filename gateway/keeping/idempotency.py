"""Idempotency: what makes two requests of a caller the same one. The header's key, the digest of a body."""

import hashlib
import json
from collections.abc import Mapping

from gateway.problems import Field, InvalidRequest

HEADER = "idempotency-key"
KEY_LIMIT = 255  # characters


def key_of(headers: Mapping[str, str]) -> str | None:
    """The Idempotency-Key; None where there is none. Raises InvalidRequest for one that is blank, too long or not in ASCII."""
    key = headers.get(HEADER)
    if key is None:
        return None
    key = key.strip()
    if not key or len(key) > KEY_LIMIT or not key.isascii() or not key.isprintable():
        message = f"must have 1 to {KEY_LIMIT} characters of printable ASCII"
        raise InvalidRequest(f"Idempotency-Key {message}", (Field("Idempotency-Key", message),))
    return key


def digest_of(body: object) -> str:
    """The same for every JSON body of the same content, in whatever order its names come."""
    canonical = json.dumps(body, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
