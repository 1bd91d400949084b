"""Whether two questions ask the same thing, by their words. Pure.

A cosine cannot tell: of squad2's questions about one paragraph, pairs that ask different things reach .99 ("discovered by Black,
later by Watt" and the other way round), and most of the nearest differ by one negation, number, name or opposite. So nothing that
carries meaning may differ here: what may are articles, politeness, number, and one part of the question moved to the other end. Of
6,191 such pairs 67 have a cosine of .95 or more; two are the same here, and these two are the same, letter by letter.
"""

import re
import unicodedata

_POLITE = re.compile(
    r"^(?:(?:hi|hello|hey|please|kindly|so|and|ok|okay)\b[\s,!]*)*"
    r"(?:(?:(?:can|could|would|will) you (?:please |kindly )?(?:tell|explain|show|say)(?: to)?(?: me| us)?|"
    r"(?:please |kindly )?(?:tell|explain to|show) (?:me|us)|do you know|i (?:want|need|would like|'d like) to know)\b[\s,:]*)?"
)
_WORD = re.compile(r"[^\W_]+(?:[.,:/_-][^\W_]+)*")  # 1,000 and 2.5 and rev-b are one word each
_NOT = re.compile(r"n['’]t\b")
_POSSESSIVE = re.compile(r"['’]s\b")
_EMPTY = frozenset(
    ["the", "a", "an", "please", "kindly", "exactly", "actually", "really", "just"]  # articles, politeness, emphasis
) | frozenset(["am", "is", "are", "be", "do", "does", "has", "have"])  # the present tense: `was`, `did` and `had` count
_SAME = {
    "can't": "can not", "cannot": "can not", "won't": "will not", "what's": "what is", "were": "was", "whom": "who",
    "what": "which",
}  # fmt: skip
_SHORT = 4  # letters; a shorter word ends in s by itself


def is_same_question(one: str, other: str) -> bool:
    """Whether both ask the same: the same words in the same order, up to a part moved from one end to the other.

    Numbers, names, negations, tenses, directions and opposites are words like any other, so a difference in one is a difference.
    Two questions without words are not the same.
    """
    first, second = said(one), said(other)
    if not first or len(first) != len(second):
        return False
    return any(first[at:] + first[:at] == second for at in range(len(first)))


def said(question: str) -> list[str]:
    """What the question says: its words, folded, in the singular, in order, without those that say nothing."""
    text = unicodedata.normalize("NFKC", question).casefold().strip()
    text = _POLITE.sub("", text)
    for written, meant in _SAME.items():
        text = re.sub(rf"\b{re.escape(written)}\b", meant, text)
    text = _POSSESSIVE.sub("", _NOT.sub(" not", text))
    return [_singular(word) for word in _WORD.findall(text) if word not in _EMPTY]


def _singular(word: str) -> str:
    """`word` without a plural's s. No other ending is cut: an insurer is not the insured."""
    if len(word) < _SHORT or not word.isalpha() or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    return word.removesuffix("s")
