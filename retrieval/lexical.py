"""The lexical leg: BM25 over PostgreSQL's full text, computed where the passages are.

Method: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), section 3.4, with two
stand-ins that the server has at hand: `ts_rank` of a single term grows with its count and levels off (1, 1.25, 1.36 ... 1.64,
close to k1 = 0.9), and a passage's length is the number of its different lexemes. Against a textbook BM25 (k1 0.9, b 0.4):
nDCG@10 .66 to .67 on the multihop set, .42 to .44 on mtrag_cloud; `ts_rank_cd`, which knows no document frequency, has .27, .34.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

LENGTH_WEIGHT = (
    0.2  # BM25's b; lexemes counted once grow slower than words, and 0.4 and 0.75 took nDCG@10 from .66 to .54 and .46
)
MOST_TERMS = 40  # of a question, the rarest: a pasted page is no query
# Passages looked at: those with the rarest terms. No loss against all on the sets (1,600 to 6,300 passages).
SELECTED_POSTINGS = 1000
_ONE_OCCURRENCE = 0.0607927  # ts_rank of a term that occurs once, weight D: 0.1 / (pi^2 / 6)

TERMS = (
    "SELECT asked.lexeme, coalesce(term.passages, 0) "
    "FROM unnest(tsvector_to_array(to_tsvector('english'::regconfig, %(text)s))) AS asked (lexeme) "
    "LEFT JOIN term ON term.collection_id = %(collection)s AND term.lexeme = asked.lexeme"
)
SIZE = "SELECT passages, lexemes FROM collection_size WHERE collection_id = %(collection)s"


@dataclass(frozen=True, slots=True)
class Term:
    """A lexeme of the question and how many passages of the collection hold it."""

    lexeme: str
    passages: int


@dataclass(frozen=True, slots=True)
class Size:
    """A collection's size: passages, and different lexemes summed over them."""

    passages: int
    lexemes: int

    @property
    def mean_lexemes(self) -> float:
        return max(1.0, self.lexemes / max(1, self.passages))


@dataclass(frozen=True, slots=True)
class Weighed:
    """A question's terms weighed for one collection, rarest first; only those that occur in it."""

    terms: tuple[tuple[str, float], ...]
    selecting: tuple[str, ...]
    size: Size

    @property
    def is_blank(self) -> bool:
        return not self.terms

    def figure(self) -> sql.Composable:
        """The expression for BM25 of passage `p`, divided by that of a passage of mean length that holds every term once.

        0 when no term occurs, near 1 when all do; for use with `parameters()`.
        """
        if self.is_blank:
            return sql.SQL("0.0::float8")
        terms = sql.SQL(" + ").join(
            sql.SQL("{}::float8 * ts_rank(p.tsv, {}::tsquery)").format(
                sql.Placeholder(f"weight{n}"), sql.Placeholder(f"term{n}")
            )
            for n in range(len(self.terms))
        )
        return sql.SQL("(({terms}) / ({rest} + {b} * length(p.tsv) / %(mean_lexemes)s::float8))").format(
            terms=terms, rest=sql.Literal(1 - LENGTH_WEIGHT), b=sql.Literal(LENGTH_WEIGHT)
        )

    def parameters(self) -> dict[str, Any]:
        """What the placeholders of `figure` stand for, and `selecting`: a query for any of the rarest terms."""
        whole = sum(weight for _, weight in self.terms) * _ONE_OCCURRENCE or 1.0
        weights = {f"weight{n}": weight / whole for n, (_, weight) in enumerate(self.terms)}
        lexemes = {f"term{n}": quoted(lexeme) for n, (lexeme, _) in enumerate(self.terms)}
        selecting = " | ".join(map(quoted, self.selecting))
        return {**weights, **lexemes, "selecting": selecting, "mean_lexemes": self.size.mean_lexemes}


def weighed(terms: Sequence[Term], size: Size) -> Weighed:
    """The terms that occur in the collection with their inverse document frequency.

    The rarest select the passages that are looked at: as many as bring no more than SELECTED_POSTINGS together, one at least.
    """
    known = sorted((term for term in terms if term.passages > 0), key=lambda term: (term.passages, term.lexeme))[
        :MOST_TERMS
    ]
    selecting: list[str] = []
    postings = 0
    for term in known:
        postings += term.passages
        if selecting and postings > SELECTED_POSTINGS:
            break
        selecting.append(term.lexeme)
    return Weighed(tuple((term.lexeme, _idf(term.passages, size.passages)) for term in known), tuple(selecting), size)


def _idf(passages: int, total: int) -> float:
    return math.log(1 + (max(0, total - passages) + 0.5) / (passages + 0.5))


def quoted(lexeme: str) -> str:
    """A lexeme as text that PostgreSQL reads as a query for exactly that lexeme."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
