"""Vectors as the database takes them: checked, and compared through an index that fits their length."""

import math
from collections.abc import Sequence

from pgvector import Vector as PgVector
from psycopg import sql

from retrieval.faults import EmbeddingFailed
from retrieval.ports import Vector

VECTOR_INDEX_LIMIT = 2000  # pgvector indexes `vector` to here
HALFVEC_INDEX_LIMIT = 4000  # and `halfvec` (16-bit floats) to here; longer vectors are scanned


def checked(vector: Vector, dimensions: int) -> PgVector:
    """`vector` ready to be bound. Raises EmbeddingFailed unless it is `dimensions` finite numbers.

    A plain list would reach the server as an array, for which there is no distance; NaN and infinity would be a server error.
    """
    if len(vector) != dimensions:
        raise EmbeddingFailed(f"the embedder returned {len(vector)} numbers, not {dimensions}")
    if not all(math.isfinite(number) for number in vector):
        raise EmbeddingFailed("the embedder returned a number that is not finite")
    return PgVector([float(number) for number in vector])


def all_checked(vectors: Sequence[Vector], dimensions: int, count: int) -> list[PgVector]:
    """Each of `vectors` checked. Raises EmbeddingFailed also when there are not `count` of them."""
    if len(vectors) != count:
        raise EmbeddingFailed(f"the embedder returned {len(vectors)} vectors for {count} passages")
    return [checked(vector, dimensions) for vector in vectors]


def is_blank(vector: Vector) -> bool:
    """Whether `vector` is all zeros: it points nowhere, so it is near nothing."""
    return not any(vector)


def indexed_type(dimensions: int) -> sql.Composed:
    """The type through which vectors of this length are indexed and compared."""
    kind = "halfvec" if VECTOR_INDEX_LIMIT < dimensions <= HALFVEC_INDEX_LIMIT else "vector"
    return sql.SQL(kind + "({})").format(sql.Literal(dimensions))


def distance(dimensions: int) -> sql.Composed:
    """The cosine distance of a passage `p` to the parameter `vector`, spelled as the index of that length spells it."""
    return sql.SQL("p.embedding::{kind} <=> %(vector)s::{kind}").format(kind=indexed_type(dimensions))


def is_indexed(dimensions: int) -> bool:
    """Whether there is an index for vectors of this length: the database's function `index_passages` makes it, of `indexed_type`."""
    return dimensions <= HALFVEC_INDEX_LIMIT
