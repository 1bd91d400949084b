"""What a scripted model writes: words that carry the numbers of their attempt and draft."""

import re

_DRAFT = re.compile(r"a\d+d\d+")


def undrafted(text: str) -> str:
    """`text` without the numbers of its draft, of which there must be only one: then it is the same for every answer."""
    assert len(set(_DRAFT.findall(text))) == 1, text
    return _DRAFT.sub("", text)
