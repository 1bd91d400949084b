"""A question of several parts or several hops split into questions that one passage each can answer. Pure; a model may do it instead."""

import re
from collections.abc import Iterable
from typing import Protocol

from grading.standalone import Said, standalone
from grading.words import content_words

MOST_PARTS = 4  # each is a search


class Decomposer(Protocol):
    """Splits a question. The local one is `LocalDecomposer`; a model behind this port may do better."""

    async def decompose(self, question: str) -> tuple[str, ...]:
        """The parts in the order in which they are to be answered, at most MOST_PARTS; the question alone when it has but one.

        Each part stands alone, except that a later hop may need what an earlier one finds. Never empty for a question with content.
        """
        ...


class LocalDecomposer:
    """The rules of this file behind the port."""

    async def decompose(self, question: str) -> tuple[str, ...]:
        """As the port says; at once."""
        return decompose(question)


def decompose(question: str) -> tuple[str, ...]:
    """The parts of a stand-alone question, as Decomposer promises.

    Read off its surface: several sentences or coordinated clauses that each ask; a comparison, asked once for each side; a noun described
    by a clause ("the team that Craig Westcarr played for"), asked for before the whole.
    """
    line = " ".join(question.split())
    parts = _asked(line) or _sides(line) or _hops(line) or (line,)
    return tuple(dict.fromkeys(part for part in parts if content_words(part)))[:MOST_PARTS] or (line,)


_ASKING = (
    r"(?:what|which|who|whom|whose|where|when|why|how|is|are|was|were|do|does|did|can|could|should|will|would|has|have)"
)
_CLAUSE_BREAK = re.compile(
    rf"\?\s+|[.;]\s+(?={_ASKING}\b)|,?\s+and\s+(?:also\s+)?(?={_ASKING}\b\s+(?!both\b|all\b))|,\s+(?:and\s+)?(?:also\s+)?(?=(?:what|which|who|where|when|why|how)\b)",
    re.IGNORECASE,
)
_BEGINS_ASKING = re.compile(
    rf"\W*(?:(?:and|also|so|but|in|at|on|for|to|from|by|of|with|under)\s+)*{_ASKING}\b", re.IGNORECASE
)
_FEWEST_WORDS = 1


class _Earlier:
    role = "user"

    def __init__(self, content: str) -> None:
        self.content = content


def _asked(question: str) -> tuple[str, ...]:
    """Clauses that each ask, the later ones made to stand alone from the one before; empty unless there are two."""
    clauses = [clause.strip(" ,;") for clause in _CLAUSE_BREAK.split(question)]
    asking = [
        clause for clause in clauses if _BEGINS_ASKING.match(clause) and len(content_words(clause)) >= _FEWEST_WORDS
    ]
    if len(asking) < 2 or len(asking) < len([clause for clause in clauses if clause]):
        return ()
    earlier: list[Said] = []
    parts: list[str] = []
    for clause in asking:
        part = standalone(clause.rstrip("?"), earlier)
        parts.append(f"{part}?")
        earlier.append(_Earlier(part))
    return tuple(parts)


_NAME = r"(?:[\"“'‘]?[A-Z0-9][^,?]*?)"
_OR = re.compile(
    rf"^(?P<ask>.*?)[,:]?\s+(?P<one>(?:the |a |an )?{_NAME}),?\s+or\s+(?P<two>(?:the |a |an )?{_NAME})\s*\??$"
)
_BOTH = re.compile(
    rf"^(?P<ask>(?:are|were|is|was|do|does|did|have|has)(?:\s+the)?)\s+(?P<one>{_NAME})\s+and\s+(?P<two>{_NAME})(?P<rest>(?:\s*,)?\s+(?:both|each|all|the same|from|located|of|in|a|an|based|born)?\b.*?)\??$",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    r"^(?P<ask>.*?\b(?:differences?|comparison|compare|relation(?:ship)?|distinction|compared?)\b.*?)\b(?:between\s+)?(?P<one>\S[^?]*?)\s+(?:and|with|to|versus|vs\.?)\s+(?P<two>[^?]+?)\s*\??$",
    re.IGNORECASE,
)


def _sides(question: str) -> tuple[str, ...]:
    """A comparison asked for each side; empty when it is none."""
    for pattern in (_OR, _BOTH, _BETWEEN):
        if (found := pattern.match(question)) is not None:
            rest = found.groupdict().get("rest") or ""
            ask = found["ask"].strip(" ,")
            return tuple(
                " ".join(f"{ask} {found[side].strip(' ,')} {rest.strip()}".split()).rstrip("?") + "?"
                for side in ("one", "two")
            )
    return ()


_DESCRIBED = re.compile(
    r"\b(?:the|a|an|that)\s+(?P<noun>(?:[\w'’-]+\s+){1,4}?)(?P<link>(?:that|which|who|whom|whose|where|in which|for which|with which|of|for|by|behind|in|to)\s+)(?P<rest>[^?,]+)",
    re.IGNORECASE,
)
_FEWEST_INNER = 2


def _hops(question: str) -> tuple[str, ...]:
    """The innermost described noun, then the whole question; empty when no noun is described by something with a name."""
    inner = [found for found in _described(question) if _has_name(found) and len(content_words(found)) >= _FEWEST_INNER]
    inner = [found for found in inner if len(content_words(found)) <= len(content_words(question)) - 1]
    return (*sorted(inner, key=len)[:1], question) if inner else ()


def _described(question: str) -> Iterable[str]:
    for start in (found.start() for found in re.finditer(r"\b(?:the|a|an|that)\s", question, re.IGNORECASE)):
        if (found := _DESCRIBED.match(question, start)) is not None:
            yield found.group().strip()


def _has_name(text: str) -> bool:
    return re.search(r"[A-Z]\w|\d", text) is not None
