"""Plain text out of what a search service sends: markup and hidden characters taken out, addresses checked."""

import re
from html import unescape
from urllib.parse import urlsplit, urlunsplit

from gateway.cleaning import clean

_UNSEEN = re.compile(r"<(script|style|template)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_BREAK = re.compile(r"</?(?:br|p|div|li|ul|ol|tr|h[1-6])\b[^>]*>", re.IGNORECASE)
_TAG = re.compile(r"<!--.*?(?:-->|\Z)|</?[a-z][^<>]*>|<![^<>]*>", re.IGNORECASE | re.DOTALL)
_BLANKS = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")


def plain(text: str) -> str:
    """`text` without tags, scripts and hidden characters; entities are decoded once; lines are kept, blanks made single.

    What a page shows as `<b>` is its text and stays; a comparison such as `a < b` is no tag.
    """
    text = _UNSEEN.sub(" ", text)
    text = _TAG.sub("", _BREAK.sub("\n", text))
    text = clean(unescape(text))
    return _LINES.sub("\n", _BLANKS.sub(" ", text)).strip()


def web_address(url: str) -> str | None:
    """The address without its fragment, host in lower case; None for anything but http and https, and for what is no address.

    An address with a user or password in it is none: nobody needs it to read the page.
    """
    if any(c.isspace() or not c.isprintable() for c in url.strip()):
        return None
    try:
        parts = urlsplit(url.strip())
        host = parts.hostname
        port = parts.port  # raises ValueError when it is no number
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        return None
    bracketed = f"[{host}]" if ":" in host else host
    netloc = bracketed if port is None else f"{bracketed}:{port}"
    return urlunsplit((parts.scheme, netloc, parts.path, parts.query, ""))


def same_page(url: str) -> str:
    """What two addresses of one page share: neither scheme, nor `www.`, nor a slash at the end."""
    parts = urlsplit(url)
    return f"{parts.netloc.removeprefix('www.')}{parts.path.rstrip('/')}?{parts.query}"
