"""The local rewriter: rules, no model. It declines rather than guesses."""

from collections.abc import Mapping, Sequence

from grading.decompose import MOST_PARTS, decompose
from grading.standalone import standalone
from grading.words import content_words, words
from retrieval.passage import Scalar
from streaming.ports import Turn

_TALK = "please tell show give explain describe know want like help thanks thank hi hello hey wondering question just really"
SMALL_TALK = frozenset(_TALK.split())
SAID_OTHERWISE = {
    "cost": "price",
    "costs": "price",
    "expensive": "price",
    "cheap": "price",
    "buy": "purchase",
    "fix": "repair",
    "broken": "fault",
    "get": "obtain",
    "big": "size",
    "tall": "height",
    "long": "duration length",
    "old": "age",
    "far": "distance",
    "fast": "speed",
    "job": "occupation",
    "begin": "start",
    "began": "start",
    "stop": "end",
    "died": "death",
    "born": "birth",
    "made": "produced",
    "wrote": "author",
    "written": "author",
    "movie": "film",
    "car": "vehicle",
    "error": "fault failure",
    "delete": "remove",
    "remove": "delete",
    "set": "configure",
    "change": "modify",
    "allowed": "permitted",
    "must": "required",
    "refund": "return",
}
"""Everyday words of questions, and what documents say for them; taken from no data set, and added to the words, not put in their place."""
FEWEST_LETTERS = 2


class LocalRewriter:
    """grading.ports.Rewriter by the rules of grading/decompose.py and grading/standalone.py. At once; raises nothing."""

    async def rewrite(self, question: str, missing: str | None) -> str:
        """The question's content words without small talk, the words of `missing`, and what documents say for everyday words.

        "" when that adds nothing and leaves nothing out.
        """
        asked = [word for word in _as_written(question) if word.lower() not in SMALL_TALK]
        known = {word.lower() for word in asked}
        added = [other for word in asked for other in SAID_OTHERWISE.get(word.lower(), "").split()]
        added += [word for word in _as_written(missing or "") if word.lower() not in SMALL_TALK]
        fresh = [word for word in dict.fromkeys(added) if word.lower() not in known]
        dropped = len(known) < len(set(content_words(question)))
        return " ".join([*asked, *fresh]) if asked and (fresh or dropped) else ""

    async def decompose(self, question: str) -> tuple[str, ...]:
        """As the port promises."""
        parts = decompose(question)[:MOST_PARTS]
        return parts if len(parts) > 1 else ()

    async def standalone(self, question: str, history: Sequence[tuple[str, str]]) -> str:
        """As the port promises; blank turns and refused ones weigh nothing."""
        return standalone(question, [Turn(role, content) for role, content in history]) or question

    async def filters(self, question: str, fields: Mapping[str, tuple[Scalar, ...]]) -> Mapping[str, Scalar]:
        """For each field the longest of its values that stands in the question, word for word; a lone number only where nothing
        else could be meant by it (it is the value of one field). Truth values are never asked for so.
        """
        asked = f" {' '.join(words(question))} "
        found: dict[str, Scalar] = {}
        for name, values in fields.items():
            said = [value for value in values if not isinstance(value, bool) and _stands_in(value, asked)]
            if said:
                found[name] = max(said, key=lambda value: len(str(value)))
        numbers = [value for value in found.values() if _is_number(value)]
        return {name: value for name, value in found.items() if not _is_number(value) or numbers.count(value) == 1}


def _as_written(text: str) -> list[str]:
    """The content words of `text` in their own letters, each once, in order."""
    carry = set(content_words(text))
    kept: dict[str, str] = {}
    for word in text.replace("?", " ").split():
        bare = word.strip(".,;:!()[]\"'“”‘’")
        if carry & set(words(bare)):
            kept.setdefault(bare.lower(), bare)
    return list(kept.values())


def _stands_in(value: Scalar, asked: str) -> bool:
    said = " ".join(words(str(value)))
    return len(said) >= FEWEST_LETTERS and f" {said} " in asked


def _is_number(value: Scalar) -> bool:
    return str(value).replace(".", "", 1).isdigit()
