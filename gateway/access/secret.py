"""A key's secret: how it is made, and what of it is kept.

A secret has 256 random bits, so that nobody finds it by trying digests: one pass of SHA-256 keeps it as well as a slow hash would, which
is for what people think up, and costs 1 microsecond at every request. The prefix lets scanners for leaked secrets know it.
"""

import hashlib
import re
import secrets

PREFIX = "gwk_"
BYTES = 32
_SHAPE = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")


def new_secret() -> str:
    """A secret that nobody has seen."""
    return PREFIX + secrets.token_urlsafe(BYTES)


def is_secret(text: str) -> bool:
    """Whether `text` has the shape of one: no other is looked for among the stored keys."""
    return _SHAPE.fullmatch(text) is not None


def digest_of_secret(text: str) -> bytes:
    """What is kept of it: its SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
