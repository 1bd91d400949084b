"""The first strategy for a question, read off its surface in microseconds. Pure.

Method: adaptive retrieval as of Jeong et al., arXiv:2403.14403, with rules in place of a trained classifier: what decides here is whether
the question names something that must be matched letter by letter, or asks for several things at once.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from retrieval.ports import SearchMode

# nDCG@10 of dense, hybrid and hops: the four mtrag sets' mean .53, .56, .55; squad2 .85, .93, .93; multihop .72, .77, .81. Hops for
# questions of several parts alone: mtrag .56, multihop .79.
DEFAULT_MODE = SearchMode.HYBRID
PARTS_MODE = SearchMode.HOPS
LONGEST_READ = 600  # characters read for marks: what is pasted behind a question is not read, which would hold up every other answer


class Need(StrEnum):
    """Why a strategy was chosen."""

    EXACT = "exact"
    PARTS = "parts"
    MEANING = "meaning"
    SETTING = "setting"  # of whoever runs the gateway, whatever is asked


@dataclass(frozen=True, slots=True)
class Route:
    """How to search first. `marks` are what must match letter by letter, in order, none twice."""

    need: Need
    mode: SearchMode
    marks: tuple[str, ...] = ()


def route(question: str, parts: int = 1, default: SearchMode = DEFAULT_MODE) -> Route:
    """The route of a stand-alone question that a decomposer has split into `parts`.

    Nothing but marks (an error code alone) is searched for by words alone, marks among words by words and vectors, several parts
    with a second hop, and everything else in the default mode.
    """
    found = marks(question)
    if found:
        rest = question[: 2 * LONGEST_READ]
        for mark in found:
            rest = rest.replace(mark, " ")
        alone = not any(len(word) > 1 for word in re.findall(r"[^\W\d_]+", rest))
        return Route(Need.EXACT, SearchMode.LEXICAL if alone else SearchMode.HYBRID, found)
    if parts > 1:
        return Route(Need.PARTS, PARTS_MODE)
    return Route(Need.MEANING, default)


def marks(question: str) -> tuple[str, ...]:
    """Identifiers, error codes, version numbers, paths, flags, addresses of memory and quoted code, in order, none twice.

    Those in the first LONGEST_READ characters.
    """
    found = (match.group().strip("`.,;:?!") for match in _MARK.finditer(question[:LONGEST_READ]))
    return tuple(dict.fromkeys(mark for mark in found if mark))


_MARK = re.compile(
    r"""
      `[^`\n]{2,80}`                                                          # quoted code
    | \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b               # UUID
    | \b0x[0-9a-fA-F]+\b
    | (?<![\w-])--?[a-z][\w-]*[a-z\d](?==|\b)(?<=[a-z\d])(?![\w'])           # a flag: --max-retries
    | (?<![\w.])(?:/[\w.~-]+){2,}                                            # a path
    | \b[vV]?\d+(?:\.\d+){2,}(?:[-+][\w.]+)?\b | \b[vV]\d+(?:\.\d+)*\b       # 1.2.3, v2
    | \b[A-Z][A-Z\d]*[-_]?\d{2,}[A-Z\d]*(?:[-_][A-Z\d]+)*\b                  # ORA-00942, E1234, CWWKF0011
    | \b[A-Z]{2,}(?:[-_][A-Z\d]+)*[-_]\d+\b                                  # AB-1
    | \b(?:[A-Z]{2,}_[A-Z\d_]+|[a-z\d]+(?:_[a-z\d]+)+)\b                      # ER_DUP_ENTRY, snake_case
    | \b[a-z]+(?:[A-Z][a-z\d]+)+\(?\)?                                        # camelCase
    | \b\w+(?:\.\w+)+\(\)                                                     # call.like()
    | \b(?:[A-Z][a-z\d]+)+(?:Error|Exception|Fault)\b
    """,
    re.VERBOSE,
)
