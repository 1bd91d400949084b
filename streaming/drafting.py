"""Drafting: one task that opens, reads and closes a draft, and says what it brought as signals."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup

from retrieval.faults import GatewayFault
from retrieval.traceless import traceless
from streaming.facts import DraftClosed, DraftStarted
from streaming.gate import Drafted, DraftFailed, Signal, text_bytes, weight
from streaming.ledger import Entry
from streaming.ports import Draft, Generator, Observer, Piece, Prompt, Stopped, Text, Usage
from streaming.room import Room
from streaming.silence import Silence

log = logging.getLogger(__name__)

CLOSE_LIMIT_S = 2.0  # a close that takes longer is abandoned with its connection
TOKEN_LIMIT_BYTES = 8_192  # the contract's bound on one token event


class Drafting:
    """A draft in flight. Started in the answer's task group, so that closing it outlives the attempt but not the answer."""

    def __init__(
        self,
        attempt: int,
        number: int,
        generator: Generator,
        prompt: Prompt,
        room: Room,
        silence_s: float,
        report: Callable[[Signal], None],
        entry: Entry,
        observer: Observer,
    ) -> None:
        self.number = number
        self.room = room
        self.entry = entry
        self._attempt = attempt
        self._generator = generator
        self._prompt = prompt
        self._report = report
        self._observer = observer
        self._silence = Silence(silence_s)
        self._scope = CancelScope()
        self._go: anyio.Event | None = None  # while it waits for its moment
        self._is_hurried = False
        self._open: Draft | None = None
        self._outcome: str | None = None
        self._decided_at = 0.0
        self._over_at: float | None = None
        self._told = False
        self._began_at = 0.0
        self._first_text_s: float | None = None
        self._last_text_s = 0.0

    def start(self, tasks: TaskGroup, delay_s: float = 0.0, not_before_s: float = 0.0) -> None:
        """Begins in `tasks`, after `delay_s` seconds or when released, whichever is first; `not_before_s` seconds from now in any case."""
        tasks.start_soon(traceless, self._run, delay_s, not_before_s, name=f"draft {self._attempt}.{self.number}")

    def hurry(self) -> None:
        """The verdict is in and good: a draft that still waits for its moment starts now."""
        self._is_hurried = True
        if self._go is not None:
            self._go.set()

    def check(self) -> None:
        """From now on sentences are checked before they are sent: what becomes of the draft is known with the last one."""
        self.entry.sent = 0

    def release(self, pieces: tuple[Piece, ...]) -> None:
        """`pieces` of this draft are sent; where nothing is checked first, so is whatever else it brings."""
        self.hurry()
        self.entry.released = True
        if self.entry.sent is not None:
            self.entry.sent += sum(len(piece.text) for piece in pieces if isinstance(piece, Text))
        elif self._over_at is not None:
            self._decide("released")

    def close(self, outcome: str) -> None:
        """Asks the draft to close its upstream request now; returns at once. The first outcome given is the one told."""
        self._decide(outcome)
        self.entry.cut = True
        self._scope.cancel()  # first: who reads is to see its end as this, not as a broken connection
        if self._open is not None:
            self._open.cut()

    def finish(self) -> None:
        """Everything has come: the rest of the upstream response is read for as long as a close may take."""
        self._decide("released")
        self._scope.deadline = self._decided_at + CLOSE_LIMIT_S

    async def _run(self, delay_s: float, not_before_s: float) -> None:
        with self._scope:
            if not_before_s > 0:
                await anyio.sleep(not_before_s)
            if delay_s > 0 and not self._is_hurried:
                self._go = anyio.Event()
                with anyio.move_on_after(delay_s):
                    await self._go.wait()
            await self._draft()

    async def _draft(self) -> None:
        self._observer.note(DraftStarted(self._attempt, self.number, stands_in=self._stands_in))
        self._began_at = anyio.current_time()
        try:
            await self._read()
        except BaseException:
            self._decide("client_gone")
            raise
        finally:
            self._over_at, self.entry.closed = anyio.current_time(), True
            if self.entry.released and self.entry.sent is None:
                self._decide("released")
            self._tell()

    @property
    def _stands_in(self) -> str | None:
        return self._generator.name if self.entry.is_fallback else None

    async def _read(self) -> None:
        draft: Draft | None = None
        try:
            with self._silence:
                draft = self._open = await self._generator.draft(self._prompt)
                async for pieces in draft:
                    now_s = anyio.current_time()
                    self._silence.broken(now_s)
                    await self._pass_on(pieces, now_s)
        except GatewayFault as fault:
            self._fail(fault)
        except Exception as error:  # a fault without a name is still only this draft's
            self._fail(unnamed(error))
        finally:
            self._open = None
            if draft is not None:
                await self._close_upstream(draft)

    async def _close_upstream(self, draft: Draft) -> None:
        with anyio.move_on_after(CLOSE_LIMIT_S, shield=True):
            try:
                await draft.aclose()
            except Exception as error:  # a connection that was gone already: nothing that the answer rests on
                log.warning("a draft of attempt %d did not close in order", self._attempt, exc_info=error)

    async def _pass_on(self, pieces: tuple[Piece, ...], now_s: float) -> None:
        whole = weight(pieces)
        if whole[0] <= min(TOKEN_LIMIT_BYTES, self.room.limit_bytes) and self.room.fits(whole):
            self.room.take(whole)
            self._say(pieces, now_s)
            return
        ready: list[Piece] = []
        for piece in pieces:
            for part in cut(piece, min(TOKEN_LIMIT_BYTES, self.room.limit_bytes)):
                size = weight((part,))
                if not self.room.fits(size):
                    self._say(ready, anyio.current_time())
                    ready = []
                    with self._silence.ours():
                        await self.room.wait_for(size)
                self.room.take(size)
                ready.append(part)
        self._say(ready, anyio.current_time())

    def _say(self, ready: Sequence[Piece], now_s: float) -> None:
        if ready:
            said_before = self.entry.characters
            count(self.entry, ready)
            if self.entry.characters > said_before:
                self._last_text_s = now_s - self._began_at
                if self._first_text_s is None:
                    self._first_text_s = self._last_text_s
            self._report(Drafted(self.number, tuple(ready)))

    def _fail(self, fault: GatewayFault) -> None:
        self._decide("failed")
        if not self.entry.cut:  # else it broke because it was closed: nobody would take that, and it would stay
            self._report(DraftFailed(self.number, fault))

    def _decide(self, outcome: str) -> None:
        if self._outcome is None:
            self._outcome, self._decided_at = outcome, anyio.current_time()
            self._tell()

    def _tell(self) -> None:
        """Told once: when the request upstream is over and it is known what became of the draft, whichever is later."""
        if self._told or self._over_at is None or self._outcome is None:
            return
        self._told = True
        entry = self.entry
        self._observer.note(
            DraftClosed(
                attempt=self._attempt,
                draft=self.number,
                outcome=self._outcome,
                input_tokens=entry.input_tokens,
                output_tokens=entry.tokens,
                exact=entry.exact and not entry.is_parted,
                close_s=max(0.0, self._over_at - self._decided_at),
                closed_ago_s=anyio.current_time() - self._over_at,
                first_text_s=self._first_text_s,
                text_s=None if self._first_text_s is None else self._last_text_s - self._first_text_s,
                is_sent=entry.released,
                stands_in=self._stands_in,
                withheld_tokens=entry.tokens - entry.released_tokens if entry.is_parted else 0,
            )
        )


def cut(piece: Piece, limit_bytes: int) -> Iterator[Piece]:
    """`piece` itself, or a long text in parts of at most `limit_bytes` UTF-8 bytes (at least one character each)."""
    if not isinstance(piece, Text) or len(piece.text) * 4 <= limit_bytes or text_bytes((piece,)) <= limit_bytes:
        yield piece
        return
    step = max(1, limit_bytes // 4)
    for start in range(0, len(piece.text), step):
        yield Text(piece.text[start : start + step], piece.is_claim)


def count(entry: Entry, pieces: Iterable[Piece]) -> None:
    """Enters what `pieces` say of tokens into the draft's ledger entry."""
    for piece in pieces:
        match piece:
            case Text(text):
                entry.characters += len(text)
            case Usage() as usage:
                entry.count(usage.input_tokens, usage.output_tokens, usage.cached_tokens)
            case Stopped(usage=Usage() as usage):
                entry.count(usage.input_tokens, usage.output_tokens, usage.cached_tokens)
                entry.exact = True
            case _:
                pass


def unnamed(error: Exception) -> GatewayFault:
    """A fault that says nothing of `error` to a client. The log gets it whole: nobody else will ever see it."""
    log.error("something without a name went wrong in an answer", exc_info=error)
    fault = GatewayFault("something went wrong inside the gateway")
    fault.__cause__ = error
    return fault
