"""The retriever over a search service: one request, bounded in time and size, and its results as passages."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import anyio
import httpx2

from gateway.observing import outgoing
from gateway.providers.search.plain import plain, same_page, web_address
from gateway.providers.search.service import Nonsense, Request, Result, Service
from retrieval.cleaning import storable
from retrieval.faults import RetrievalMisconfigured, RetrievalUnavailable
from retrieval.passage import Passage
from retrieval.ports import Query

LIMIT_S = 5.0  # services answer in 0.3 to 2 s; the searches of one answer share its deadline
BODY_LIMIT_BYTES = 2 * 2**20  # twenty results with full page text are well below
TEXT_LIMIT = 8_000  # characters of one result: more than a passage of ours by far, and bounded
TITLE_LIMIT = 300
BUSY = frozenset({408, 425, 429, 432, 433})  # too many or too much for now; the last two are Tavily's


class HttpRetriever:
    """A Retriever over one search service.

    Results have neither collection nor metadata of ours: every collection and tenant finds the same, a filtered query finds nothing
    and asks nobody. Ranked as the service ranks: `score` is 1 over the rank. `client` is shared and closed by whoever opened it.
    """

    def __init__(self, name: str, service: Service, client: httpx2.AsyncClient, *, limit_s: float = LIMIT_S) -> None:
        self._name, self._service = name, service
        self._client, self._limit_s = client, limit_s

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        """As the port promises; no page comes twice. On cancellation the request is closed.

        Raises RetrievalUnavailable (not reached, not in time, busy, nonsense) or RetrievalMisconfigured (the key or the request
        is refused). No message holds the key, the query or what the service said.
        """
        if query.k < 1 or not query.text.strip() or query.filters:
            return ()
        status, content = await self._exchange(self._service.request(storable(query.text), query.k))
        if not 200 <= status < 300:
            raise self._fault(status, content)
        return passages(self._name, self._read(content), query.k)

    async def _exchange(self, request: Request) -> tuple[int, bytes]:
        """Status and whole body, within the limits."""
        with anyio.move_on_after(self._limit_s):
            try:
                return await self._received(request)
            except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
                raise RetrievalUnavailable(f"the search service {self._name!r} cannot be reached") from error
        raise RetrievalUnavailable(f"the search service {self._name!r} did not answer within {self._limit_s:g} s")

    async def _received(self, request: Request) -> tuple[int, bytes]:
        is_get = request.method == "GET"
        async with self._client.stream(
            request.method,
            request.url,
            params=dict(request.parameters) if is_get else None,
            json=None if is_get else dict(request.parameters),
            headers={**request.headers, **outgoing.headers()},
            follow_redirects=False,  # a redirected request would carry the key elsewhere
        ) as response:
            return response.status_code, await self._body(response)

    async def _body(self, response: httpx2.Response) -> bytes:
        content = bytearray()
        with (
            anyio.CancelScope() as enough
        ):  # cancelled, the client's generators end in order; left alone, they would be garbage
            async for part in response.aiter_bytes():
                content += part
                if len(content) > BODY_LIMIT_BYTES:
                    enough.cancel()
        if len(content) > BODY_LIMIT_BYTES:
            message = f"the search service {self._name!r} sent more than {BODY_LIMIT_BYTES} bytes"
            raise RetrievalUnavailable(message, is_outage=False)
        return bytes(content)

    def _fault(self, status: int, content: bytes) -> RetrievalUnavailable | RetrievalMisconfigured:
        if self._service.refuses_key(status, content):
            return RetrievalMisconfigured(f"the search service {self._name!r} refuses its key (status {status})")
        if status in BUSY:
            return RetrievalUnavailable(f"the search service {self._name!r} takes no more for now (status {status})")
        if status >= 500:
            return RetrievalUnavailable(f"the search service {self._name!r} failed (status {status})")
        return RetrievalMisconfigured(f"the search service {self._name!r} does not take the request (status {status})")

    def _read(self, content: bytes) -> list[Result]:
        try:
            body: Any = json.loads(content)
            return self._service.results(body)
        except (Nonsense, ValueError, RecursionError) as error:
            message = f"the search service {self._name!r} sent something that is no list of results"
            raise RetrievalUnavailable(message, is_outage=False) from error


def passages(name: str, results: Sequence[Result], k: int) -> tuple[Passage, ...]:
    """At most `k` results as passages, in their order; the first of each page; without those that say nothing."""
    found: dict[str, Passage] = {}
    for result in results:
        passage = passage_of(name, result)
        if passage.text:
            found.setdefault(passage.id, passage)
    return tuple(p.scored("rank", 1 / rank) for rank, p in enumerate(list(found.values())[:k], 1))


def passage_of(name: str, result: Result) -> Passage:
    """One result, cleaned and bounded. Its id is that of its page, the same in every process."""
    text, url = plain(result.text)[:TEXT_LIMIT], web_address(result.url)
    title = " ".join(plain(result.title).split())[:TITLE_LIMIT] or (url or "")
    identity = f"{name}:{digest(same_page(url) if url else title + text)}"
    metadata = {field: plain(value)[:TITLE_LIMIT] for field, value in result.metadata.items()}
    return Passage(identity, identity, title, text, 0, len(text), url, metadata=metadata)


def digest(page: str) -> str:
    """A short name for a page, the same in every process."""
    return hashlib.sha256(page.encode("utf-8", "replace")).hexdigest()[:16]
