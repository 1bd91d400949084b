"""What every embedder promises: the contract of retrieval.ports.Embedder, over each adapter and each event loop it runs on."""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest

from gateway.providers.embeddings import HttpEmbedder
from retrieval.faults import EmbeddingFailed
from retrieval.ports import Embedder, Vector
from retrieval.remembering import RememberingEmbedder
from tests.support.embedders import HashingEmbedder
from tests.support.embeddings_api import EmbeddingsApi, embeddings_api
from tests.support.local import shared_models

pytestmark = pytest.mark.anyio

SOON_S = 10.0  # bounds every wait; nothing is timed against it
Opener = Callable[[], AbstractAsyncContextManager[Embedder]]


@asynccontextmanager
async def hashing() -> AsyncIterator[Embedder]:
    yield HashingEmbedder()


@asynccontextmanager
async def remembering() -> AsyncIterator[Embedder]:
    yield RememberingEmbedder(HashingEmbedder(), remembered=1)


@asynccontextmanager
async def bge() -> AsyncIterator[Embedder]:
    yield shared_models().embedder


@asynccontextmanager
async def over_http() -> AsyncIterator[Embedder]:
    with embeddings_api() as api:
        async with HttpEmbedder(api.base_url, "hashing", 32, batch=2) as embedder:
            yield embedder


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


every = pytest.mark.parametrize("opener", [hashing, remembering, bge, over_http])


def length(vector: Vector) -> float:
    return math.hypot(*vector)


def cosine(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


@every
async def test_every_vector_has_the_promised_size_and_length_one(opener: Opener) -> None:
    async with opener() as embedder:
        vectors = [
            await embedder.embed_query("a spade"),
            *await embedder.embed_passages(["roses", "x", "naïve 漢字 🙂"]),
        ]
        assert embedder.model
    assert [len(vector) for vector in vectors] == [embedder.dimensions] * 4
    assert all(math.isclose(length(vector), 1.0, abs_tol=1e-6) for vector in vectors)


@every
async def test_passages_come_back_in_their_order(opener: Opener) -> None:
    texts = ["ferns grow in shade", "tulips in october", "a spade is oiled", "roses need sun", "ferns grow in shade"]
    async with opener() as embedder:
        together = await embedder.embed_passages(texts)
        alone = [(await embedder.embed_passages([text]))[0] for text in texts]
    assert len(together) == 5
    assert all(cosine(one, other) > 0.999 for one, other in zip(together, alone, strict=True))
    assert cosine(together[0], together[1]) < 0.99


@every
async def test_no_texts_give_no_vectors(opener: Opener) -> None:
    async with opener() as embedder:
        assert await embedder.embed_passages([]) == []


@every
@pytest.mark.parametrize("blank", ["", " \n\t"])
async def test_blank_text_gives_zeros(opener: Opener, blank: str) -> None:
    async with opener() as embedder:
        assert list(await embedder.embed_query(blank)) == [0.0] * embedder.dimensions
        vectors = await embedder.embed_passages(["roses", blank])
    assert length(vectors[0]) == pytest.approx(1.0)
    assert length(vectors[1]) == 0.0


@every
async def test_the_nearest_passage_shares_the_subject_of_the_question(opener: Opener) -> None:
    texts = ["The shed is locked at night.", "Bulbs are planted in October.", "Roses need six hours of sun a day."]
    async with opener() as embedder:
        asked = await embedder.embed_query("How many hours of sun do roses need?")
        found = await embedder.embed_passages(texts)
    assert max(range(3), key=lambda n: cosine(asked, found[n])) == 2


@every
async def test_odd_text_is_embedded_all_the_same(opener: Opener) -> None:
    texts = ["a\x00b", "word " * 3000, "x" * 20_000, "\u202e\u0000"]
    async with opener() as embedder:
        vectors = await embedder.embed_passages(texts)
    assert all(math.isfinite(length(vector)) for vector in vectors)


@every
async def test_many_at_once_do_not_mix(opener: Opener) -> None:
    texts = [f"passage number {n} about {word}" for n, word in enumerate(["roses", "ferns", "tools", "bulbs"] * 5)]
    found: dict[str, Vector] = {}
    async with opener() as embedder:

        async def one(text: str) -> None:
            found[text] = await embedder.embed_query(text)

        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as tasks:
                for text in texts:
                    tasks.start_soon(one, text)
        for text in texts[::7]:
            assert cosine(found[text], await embedder.embed_query(text)) > 0.999


@every
async def test_cancelled_it_returns_and_works_again(opener: Opener) -> None:
    async with opener() as embedder:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await embedder.embed_passages(["word " * 300] * 50)
        assert scope.cancelled_caught
        with anyio.fail_after(SOON_S):
            assert length(await embedder.embed_query("roses")) == pytest.approx(1.0)


# What only the HTTP adapter promises: faults of the server.


async def failing(api: EmbeddingsApi, dimensions: int = 32, timeout_s: float = SOON_S) -> str:
    """The message of the fault that two texts bring."""
    async with HttpEmbedder(api.base_url, "m", dimensions, api_key="a-secret", timeout_s=timeout_s) as embedder:
        with pytest.raises(EmbeddingFailed) as caught:
            await embedder.embed_passages(["one", "two"])
    assert "a-secret" not in f"{caught.value}{caught.value.__cause__}"
    return str(caught.value)


async def test_texts_go_out_in_batches_with_the_model_and_the_key() -> None:
    with embeddings_api() as api:
        async with HttpEmbedder(api.base_url + "/", "the-model", 32, api_key="a-secret", batch=2) as embedder:
            vectors = await embedder.embed_passages(["a", "b", " ", "c"])
    assert [body["input"] for body in api.bodies] == [["a", "b"], ["c"]]
    assert {body["model"] for body in api.bodies} == {"the-model"}
    assert api.keys == ["Bearer a-secret"] * 2
    assert [
        round(cosine(vector, api.embedder.vector(text)), 6) for vector, text in zip(vectors, "ab c", strict=True)
    ] == [
        1.0,
        1.0,
        0.0,
        1.0,
    ]


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
async def test_a_status_other_than_200_is_named(status: int) -> None:
    with embeddings_api() as api:
        api.status = status
        assert str(status) in await failing(api)


async def test_vectors_of_another_size_are_refused() -> None:
    with embeddings_api() as api:
        message = await failing(api, dimensions=31)
    assert "32 dimensions" in message
    assert "31" in message


async def test_a_missing_vector_is_refused() -> None:
    with embeddings_api() as api:
        api.drop = 1
        assert "1 embeddings for 2 texts" in await failing(api)


@pytest.mark.parametrize(
    "raw",
    [
        b"not json",
        b"[]",
        b"{}",
        b'{"data": null}',
        b'{"data": [{"index": 0}, {"index": 1}]}',
        b'{"data": [{"index": 0, "embedding": ["x"]}, {"index": 1, "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": "base64"}, {"index": 1, "embedding": null}]}',
    ],
)
async def test_nonsense_is_refused(raw: bytes) -> None:
    with embeddings_api() as api:
        api.raw = raw
        assert "no list of embeddings" in await failing(api)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
async def test_vectors_that_are_not_finite_are_refused(number: str) -> None:
    with embeddings_api() as api:
        api.raw = f'{{"data": [{{"index": 0, "embedding": [{number}]}}, {{"index": 1, "embedding": [1]}}]}}'.encode()
        assert "not finite" in await failing(api, dimensions=1)


async def test_a_silent_server_is_given_up_on() -> None:
    with embeddings_api() as api:
        api.is_silent = True
        with anyio.fail_after(SOON_S):
            assert "0.2 s" in await failing(api, timeout_s=0.2)


async def test_a_server_that_is_not_there_is_named_as_such() -> None:
    with embeddings_api() as api:
        pass
    with anyio.fail_after(SOON_S):
        assert "cannot be reached" in await failing(api)
