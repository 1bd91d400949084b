"""What the local judges read of a passage: of Markdown what could be quoted. Pure."""

from functools import lru_cache

from gateway.providers.local.quotes import ENDS, quotes
from grading.evidence import Piece, piece
from retrieval.passage import Passage

MARKDOWN = "markdown"  # the field `kind` of a passage that ingest read from a Markdown file
REMEMBERED = 2_000  # passages; a search's are read by the grader, the reranker and the answerer


def readable(passage: Passage) -> Piece:
    """Title and text; of Markdown the sentences, items and rows that the answerer may quote, as running text.

    The models have learnt on prose, and what cannot be quoted supports no answer here. On 30 questions about four documents of this
    project (not those of `make bench-docs`) 7 instead of 4 of the 20 answerable ones lead by 2.2 or more, none of the others does
    (AUC .970 beside .965). With marks and rules taken off but code and lines of one or two words left in, nothing is gained (.925).
    """
    if passage.metadata.get("kind") != MARKDOWN:
        return piece(passage.title, passage.text)
    return piece(passage.title, prose(passage.text, passage.title))


@lru_cache(maxsize=REMEMBERED)
def prose(text: str, title: str = "") -> str:
    """The quotes of a passage as running text; never empty for a text that is not blank."""
    lines = [each.shown for each in quotes(1, text, title)]
    return " ".join(line if line.endswith(ENDS) else f"{line}." for line in lines)
