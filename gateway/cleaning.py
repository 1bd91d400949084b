"""Cleaning of text that people send: done once, here, so that nothing behind the edge meets a character it cannot store, send or see.

What goes and why: NUL and lone surrogates fail in Postgres and in every UTF-8 encoder; other control characters and the
deprecated tag block carry instructions that nobody sees; direction overrides make text read differently from what it says;
floods of zero-width characters cost tokens and split words. Joiners that languages and emoji need are kept, one at a time.
"""

import re
import unicodedata

_LINE_ENDS = re.compile("\r\n|\r|\u0085")
_SURROGATES = re.compile("[\ud800-\udfff]")
_HIDDEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 but for tab and newline
    "\u202a-\u202e\u2066-\u2069"  # direction embeddings, overrides, isolates
    "\u200b\u2060-\u2064\u206a-\u206f\ufeff"  # invisible, and no script needs them
    "\ufff9-\ufffb"  # interlinear annotation
    "\U000e0000-\U000e007f"  # tags
    "\U000e0100-\U000e01ef"  # variation selectors that can carry bytes
    "]"
)
_JOINERS = re.compile(
    "([\u00ad\u034f\u061c\u180b-\u180f\u200c-\u200f\ufe00-\ufe0f])[\u00ad\u034f\u061c\u180b-\u180f\u200c-\u200f\ufe00-\ufe0f]+"
)
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0\ufffd")  # letters and symbols by category, blank to the eye


def clean(text: str) -> str:
    """`text` fit for storing, sending and reading; clean text comes back unchanged. Cannot fail, and is idempotent.

    Line ends become `\\n`, each lone surrogate U+FFFD, hidden characters disappear, a run of joiners becomes its first.
    """
    text = _LINE_ENDS.sub("\n", text)
    text = _SURROGATES.sub("\ufffd", text)
    text = _HIDDEN.sub("", text)
    return _JOINERS.sub(r"\1", text)


def is_blank(text: str) -> bool:
    """Whether nothing in `text` can be seen: spaces, marks, invisible letters and replacement characters alone."""
    return not any(unicodedata.category(c)[0] in "LNPS" and c not in _BLANK_LETTERS for c in text)
