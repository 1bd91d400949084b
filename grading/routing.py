"""The first search of a question: as its surface asks for it, or always the same way."""

from collections.abc import Callable

from grading.decompose import decompose
from retrieval.ports import SearchMode
from retrieval.router import Need, Route, route

Router = Callable[[str], Route]
"""Says how to search first for a stand-alone question. At once: nothing of the answer has begun yet."""


def adaptive(question: str) -> Route:
    """What names something letter by letter is searched for by words too, what asks for several things with a second hop.

    About 0.05 ms. nDCG@10 on the development sets, each question's own route against always the same: mtrag .557 (dense .53,
    hybrid .56), multihop .791 (dense .72, hybrid .77).
    """
    return route(question, len(decompose(question)))


def always(mode: SearchMode) -> Router:
    """The same for every question."""
    fixed = Route(Need.SETTING, mode)
    return lambda _question: fixed
