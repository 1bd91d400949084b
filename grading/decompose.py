"""A question of several parts or several hops split into questions that one passage each can answer. Pure; a model behind
grading.ports.Rewriter may do it instead.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from grading.standalone import Said, standalone
from grading.words import content_words

MOST_PARTS = 4  # each is a search
LONGEST_READ = 400  # characters; nothing longer is taken apart: the rules are for questions, and a page of names would take them seconds


def decompose(question: str) -> tuple[str, ...]:
    """The parts of a stand-alone question in the order in which they are to be answered, at most MOST_PARTS; alone when it has but one.

    Each part stands alone, except that a later hop may need what an earlier one finds. Never empty for a question with content.
    Read off its surface: several sentences or coordinated clauses that each ask; a comparison, asked once for each side; a noun described
    by a clause ("the team that Craig Westcarr played for"), asked for before the whole. One of more than LONGEST_READ characters is not
    taken apart.
    """
    line = " ".join(question.split())
    if len(line) > LONGEST_READ:
        return (line,)
    parts = _asked(line) or _sides(line) or _hops(line) or (line,)
    return tuple(dict.fromkeys(part for part in parts if content_words(part)))[:MOST_PARTS] or (line,)


_ASKING = (
    r"(?:what|which|who|whom|whose|where|when|why|how|is|are|was|were|do|does|did|can|could|should|will|would|has|have)"
)
_CLAUSE_BREAK = re.compile(
    rf"\?\s+|[.;]\s+(?={_ASKING}\b)|,?\s+and\s+(?:also\s+|then\s+)?(?={_ASKING}\b\s+(?!both\b|all\b))", re.IGNORECASE
)
_BEGINS_ASKING = re.compile(
    rf"\W*(?:(?:and|also|so|but|in|at|on|for|to|from|by|of|with|under)\s+)*{_ASKING}\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Earlier:
    content: str
    role: str = "user"


def _asked(question: str) -> tuple[str, ...]:
    """Clauses that each ask, the later ones made to stand alone from those before; empty unless there are two and all ask."""
    clauses = [clause.strip(" ,;?") for clause in _CLAUSE_BREAK.split(question)]
    asking = [clause for clause in clauses if clause]
    if len(asking) < 2 or not all(_BEGINS_ASKING.match(clause) and content_words(clause) for clause in asking):
        return ()
    earlier: list[Said] = []
    parts: list[str] = []
    for clause in asking:
        parts.append(f"{standalone(clause, earlier)}?")
        earlier.append(_Earlier(parts[-1]))
    return tuple(parts)


_RUN = r"(?:(?:the|an?) )?[\"“‘]?[A-Z0-9][^\s,?]*(?: (?:(?:of|the|de|von|in|on|for|a|to|-|&) )*[A-Z0-9(\"“‘][^\s,?]*)*"
_OR = re.compile(rf"^(?P<ask>.*?)[,:]?\s+(?P<one>{_RUN}),?\s+or\s+(?P<two>{_RUN})\s*\??$")
_BOTH = re.compile(
    rf"^(?P<ask>(?i:are|were|is|was|do|does|did|have|has))(?: both)? (?P<one>{_RUN})(?:,)? and (?P<two>{_RUN})"
    r"(?P<rest> [a-z].*?|, .*?)?\s*\??$"
)
_BETWEEN = re.compile(
    r"\b(?:(?:differences?|comparison|distinction|relation(?:ship)?)\b[^?]*?\bbetween|compare|comparing)\s+"
    r"(?P<one>[^?,]+?)\s+(?:and|with|to|versus|vs\.?)\s+(?P<two>[^?,]+)",
    re.IGNORECASE,
)


def _sides(question: str) -> tuple[str, ...]:
    """A comparison asked for each side; empty when it is none."""
    for pattern in (_OR, _BOTH):
        if (found := pattern.match(question)) is not None:
            ask, rest = found["ask"].strip(" ,"), (found.groupdict().get("rest") or "").strip(" ,")
            return tuple(f"{' '.join((ask, found[side].strip(), rest)).strip()}?" for side in ("one", "two"))
    if (between := _BETWEEN.search(question)) is not None:
        return tuple(f"What is {between[side].strip()}?" for side in ("one", "two"))
    return ()


_CLAUSE = re.compile(r"(?:the|an?)\s+(?:[\w'’-]+\s+){1,4}?(?:that|which|who|whom|whose|where)\s+[^?,]+", re.IGNORECASE)
_GENITIVE = re.compile(r"(?:the|an?)\s+(?:[\w'’-]+\s+){1,4}?(?:of|for|by|behind)\s+[^?,]+", re.IGNORECASE)
_INSIDE = re.compile(r"\b(?:of|by|for|from|in|with|as)\s+$", re.IGNORECASE)  # another noun is described by this one
_FEWEST_INNER = 2  # content words: "the end of March" describes nothing to look up


def _hops(question: str) -> tuple[str, ...]:
    """The innermost described noun, then the whole question; empty when no noun is described by something with a name."""
    whole = len(content_words(question))
    inner = [
        found
        for found in _described(question)
        if _has_name(found) and _FEWEST_INNER <= len(content_words(found)) < whole
    ]
    return (min(inner, key=len), question) if inner else ()


def _described(question: str) -> Iterable[str]:
    """Nouns with a clause about them, and nouns of something that themselves describe another: "the spouse of [the actor of Ethan]"."""
    for start in (found.start() for found in re.finditer(r"\b(?:the|an?)\s", question, re.IGNORECASE)):
        found = _CLAUSE.match(question, start)
        if found is None and _INSIDE.search(question[:start]):
            found = _GENITIVE.match(question, start)
        if found is not None:
            yield found.group().strip()


def _has_name(text: str) -> bool:
    return re.search(r"\b[A-Z]\w", text[1:]) is not None
