"""A whole answer: the events of a stream folded into one JSON body, for clients that asked for no stream."""

import anyio

from gateway.problems import RETRY_AFTER_S, status_of_type
from streaming.answer import Ask
from streaming.events import Citation, Done, Event, Failed, Refusal, Retry, Sources, Token, Verification
from streaming.wire.native import Json, named


class Whole:
    """Takes the batches of one answer; afterwards it is the response."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._citations: list[Json] = []
        self._retries: list[Json] = []
        self._sources: object = []
        self._verification: Json | None = None
        self._refusal: Json | None = None
        self._failed: Failed | None = None
        self._done: Done | None = None
        self._complete = anyio.Event()

    async def take(self, batch: tuple[Event, ...]) -> None:
        """Folds one batch (streaming.attempt.Emit)."""
        for event in batch:
            self._fold(event)

    async def wait(self) -> None:
        """Returns when `done` was taken."""
        await self._complete.wait()

    def _fold(self, event: Event) -> None:
        _, data = named(event)
        match event:
            case Token(text):
                self._text.append(text)
            case Citation():
                self._citations.append(data)
            case Retry():
                self._retries.append(data)
            case Sources():
                self._sources = data["passages"]
            case Verification():
                self._verification = data
            case Refusal():
                self._refusal = data
            case Failed():
                self._failed = event
            case Done():
                self._done = event
                self._complete.set()
            case _:
                pass

    @property
    def has_text(self) -> bool:
        return self._failed is None and bool(self._text)

    @property
    def status(self) -> int:
        """200 for an answer and for a refusal, which is one; a fault's own status otherwise."""
        failed = self._failed
        return 200 if failed is None else status_of_type(failed.type)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Retry-After where trying again may help."""
        wait_s = RETRY_AFTER_S.get(self.status)
        return [] if wait_s is None else [(b"retry-after", str(wait_s).encode())]

    def body(self, ask: Ask) -> Json:
        """The answer, or `{"error": ...}` when it failed: half an answer is not passed off as one."""
        ids: Json = {"answer_id": ask.answer_id, "trace_id": ask.trace_id}
        if self._failed is not None:
            _, error = named(self._failed)
            return {"error": error | ids}
        done: Json = named(self._done)[1] if self._done is not None else {}
        return (
            ids
            | done
            | {
                "answer": "".join(self._text),
                "sources": self._sources,
                "citations": self._citations,
                "retries": self._retries,
                "refusal": self._refusal,
            }
            | ({} if self._verification is None else {"verification": self._verification})
        )
