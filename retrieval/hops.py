"""The second hop: what the best passages of a first search name may hold the other half of the answer. Pure.

Method: links between passages followed from the first hits, as in Asai et al., "Learning to Retrieve Reasoning Paths", arXiv:1911.10470,
with names of titles for hyperlinks and the fused figure for a trained path score.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from retrieval.names import MOST_NAMES, name_of, names_in

HOP_SOURCES = 8  # passages of the first search that are read for names
HOP_CANDIDATES = 200  # passages they may bring; eight passages of an encyclopaedia name about thirty others
# Of the figure of the passage that names it, added to a candidate's own; multihop, nDCG@10 and all evidence in ten: 0 .764 and .59,
# .2 .798 and .69, .3 .798 and .71, .4 .789 and .71, .6 .763 and .70.
HOP_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class Link:
    """A passage of the first search: what it names, what itself is called, how good it is."""

    names: Mapping[str, None]
    own: str
    figure: float


def link(title: str, text: str, figure: float) -> Link:
    """The link of a passage with its title and its figure in the first search."""
    return Link(dict.fromkeys(names_in(text)), name_of(title), figure)


def wanted(links: Sequence[Link]) -> tuple[str, ...]:
    """The names to look up for these links, the best passage's first, none twice, at most MOST_NAMES."""
    return tuple(dict.fromkeys(name for one in links for name in one.names))[:MOST_NAMES]


class Gains:
    """What candidates gain by being named.

    A gain is HOP_WEIGHT of the figure of the best passage that names the candidate's title, divided by the roots of two numbers:
    how many of the best passages name it (what all name is the subject, not the next step), and how many candidates bear the
    name (a name that forty passages share leads to none of them). It is nothing for a name whose words the question holds
    already, nor from a passage of the same name.
    Measured undivided and with all names: multihop .803 and mtrag_cloud .525; so .816 and .530; hybrid .767 and .562.
    """

    def __init__(self, links: Sequence[Link], candidates: Iterable[str], asked: frozenset[str]) -> None:
        """`candidates` are the titles of all candidates, `asked` the words of the question."""
        self._links, self._asked = links, asked
        self._namesakes = Counter(map(name_of, candidates))
        self._mentions = Counter(name for one in links for name in one.names)

    def of(self, title: str) -> float:
        """0 or more."""
        name = name_of(title)
        if not name or self._asked.issuperset(name.split(" ")):
            return 0.0
        best = max((one.figure for one in self._links if name in one.names and one.own != name), default=0.0)
        return HOP_WEIGHT * best / math.sqrt(max(1, self._mentions[name]) * max(1, self._namesakes[name]))
