"""How near two texts are: a cosine, whatever embeds them."""

import pytest

from retrieval.faults import EmbeddingFailed
from retrieval.likeness import Likeness
from tests.support.embedders import HashingEmbedder

pytestmark = pytest.mark.anyio


async def test_the_same_text_is_one_and_nothing_is_like_nothing() -> None:
    like = Likeness(HashingEmbedder(256))
    assert await like("the price of tea", "the price of tea") == pytest.approx(1.0)
    assert await like("the price of tea", "") == 0.0
    assert await like("the price of tea", "the price of milk") > await like("the price of tea", "an open gate")


async def test_an_embedder_that_breaks_is_a_fault_of_ours() -> None:
    class Broken(HashingEmbedder):
        async def embed_query(self, text: str) -> list[float]:
            raise ValueError("secret")

    with pytest.raises(EmbeddingFailed, match="two queries could not be compared"):
        await Likeness(Broken())("a", "b")
