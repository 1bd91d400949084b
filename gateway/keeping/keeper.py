"""The keeper: runs the answers that outlive their clients, each until it is done, deserted for too long, or the server ends.

A kept answer's tasks live in the keeper's task group, not in a request's: the request only reads the recording.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup, TaskStatus
from anyio.lowlevel import checkpoint_if_cancelled

from gateway.keeping.recording import Recording, Source
from gateway.keeping.recordings import Claim, Held, Recordings, Shared, SharedSource, State
from gateway.open_answers import OpenAnswers
from gateway.problems import IdempotencyKeyReused, TooManyKept
from retrieval.faults import GatewayFault
from retrieval.tenancy import DEFAULT
from retrieval.traceless import traceless
from streaming.attempt import Emit
from streaming.events import Done, Event, Failed
from streaming.halt import Halt
from streaming.wire.native import Native

log = logging.getLogger(__name__)

GRACE_S, KEEP_S = 60.0, 300.0
KEPT_MOST = 2_000  # recordings of one process: a recorded answer has about 60 KB
KEPT_MOST_BYTES = 268_435_456
RECORDING_LIMIT_BYTES = 16_777_216  # of one answer: 64,000 tokens, each an event of its own, are 10 MB
LONGEST_S = 600.0  # no answer runs longer, whatever its deadline: what a crashed server leaves behind is swept then
SHARE_EVERY_S = 0.05  # what another server may be behind
ALIVE_EVERY_S = 2.0  # a fifth of what makes an answer be taken for lost
SWEEP_EVERY_S = 15.0
LAST_SHARE_S = 2.0
SHARE_AGAIN_S = 1.0
CLAIM_LIMIT_S = 1.0  # of a database that is away; else it takes 2 ms
READ_WITHIN_S = 3.0  # three times what a reader elsewhere lets pass between two traces of it

LOCKS = 64  # for keys that are claimed at once: a database that is slow holds up one of these, not every key

Run = Callable[[Emit, Halt], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Keeping:
    """Seconds that a running answer goes on without a reader, and that a finished one is kept."""

    grace_s: float = GRACE_S
    keep_s: float = KEEP_S


@dataclass(slots=True)
class Kept:
    """A kept answer of this process: when it ended, whether in a fault; whether the others know of it, and up to which event."""

    claim: Claim
    recording: Recording
    ended_s: float | None = None
    has_failed: bool = False
    is_claimed: bool = False
    shared_to: int = 0
    stopped: anyio.Event = field(default_factory=anyio.Event)  # nobody wants it any more


@dataclass(slots=True)
class Keeper:
    """Use as made by `open_keeper`. `shared` is None where no other process gives the same answers."""

    tasks: TaskGroup
    keeping: Keeping
    shared: Shared | None = None
    _kept: dict[str, Kept] = field(default_factory=dict)
    _keys: dict[tuple[str, str], str] = field(default_factory=dict)
    _claiming: tuple[anyio.Lock, ...] = field(default_factory=lambda: tuple(anyio.Lock() for _ in range(LOCKS)))

    @property
    def count(self) -> int:
        """How many answers are kept here, running ones and finished ones."""
        return len(self._kept)

    @property
    def readers(self) -> int:
        """How many clients read one here."""
        return sum(kept.recording.readers for kept in self._kept.values())

    async def begin(self, claim: Claim, run: Run, open_answers: OpenAnswers) -> Source:
        """Where to read the answer that `claim` is for: `run` starts, unless its key stands for one that did already.

        Raises IdempotencyKeyReused (the key stands for another body), TooManyKept, ShuttingDown, or, with a key, RetrievalUnavailable.
        """
        if claim.key is None:
            return await self._start(claim, run, open_answers)
        async with self._claiming[
            hash((claim.owner, claim.key)) % LOCKS
        ]:  # two requests with one key at once: one starts, the other finds it
            return self.begun(claim) or await self._start(claim, run, open_answers)

    def begun(self, claim: Claim) -> Source | None:
        """Where to read the answer that the key of `claim` stands for already, here; else None. Raises IdempotencyKeyReused."""
        held = self._held_here(claim)
        return None if held is None else agreed(held.claim.digest, claim, held.recording)

    async def find(self, answer_id: str, owner: str, tenant: str = DEFAULT) -> tuple[Source, Held] | None:
        """The recording of that id and owner, here or elsewhere, with how far it is. Raises RetrievalUnavailable."""
        here = self._kept.get(answer_id)
        if here is not None and not here.recording.is_lost:
            return (here.recording, held_of(here)) if here.claim.owner == owner else None
        if self.shared is None:
            return None
        shared = self.shared.of(tenant)
        held = await shared.find(answer_id, owner)
        return None if held is None else (SharedSource(shared, held), held)

    async def stop(self, answer_id: str, owner: str, tenant: str = DEFAULT) -> bool:
        """Ends an answer that nobody wants any more and keeps nothing of it; whether there was one of that id and owner.

        One that another process gives ends when that process next tells of it, two seconds later at most. Raises RetrievalUnavailable.
        """
        kept = self._kept.get(answer_id)
        if kept is not None and kept.claim.owner == owner:
            kept.stopped.set()
            if kept.ended_s is not None:
                self._forget(kept)
        shared = None if self.shared is None else self.shared.of(tenant)
        held = None if shared is None else await shared.find(answer_id, owner)
        if held is not None and shared is not None:
            await shared.stop(answer_id)
        return held is not None or (kept is not None and kept.claim.owner == owner)

    def _held_here(self, claim: Claim) -> Kept | None:
        answer_id = self._keys.get((claim.owner, claim.key or ""))
        kept = None if answer_id is None else self._kept.get(answer_id)
        return None if kept is None or kept.recording.is_lost or kept.stopped.is_set() else kept

    async def _start(self, claim: Claim, run: Run, open_answers: OpenAnswers) -> Source:
        self._make_room()
        kept = Kept(claim, Recording(claim.answer_id))
        shared = self._shared_with(kept)
        if shared is not None and (held := await self._claim(shared, kept)) is not None:
            return agreed(held.digest, claim, SharedSource(shared, held))
        with self._listed(kept):
            await self.tasks.start(self._own, kept, run, open_answers, name=f"answer {claim.answer_id}")
        return kept.recording

    def _shared_with(self, kept: Kept) -> Recordings | None:
        return None if self.shared is None else self.shared.of(kept.claim.tenant)

    async def _claim(self, shared: Recordings, kept: Kept) -> Held | None:
        """Makes the recording known to the others, before its first event is sent; or who holds its key.

        Without a key nothing hangs on it: then an answer is not kept waiting, and the others are told later.
        """
        with anyio.move_on_after(None if kept.claim.key is not None else CLAIM_LIMIT_S):
            try:
                held = await shared.claim(kept.claim, LONGEST_S + self.keeping.keep_s)
            except GatewayFault:
                if kept.claim.key is not None:
                    raise
            else:
                kept.is_claimed = held is None
                return held
        return None

    @contextmanager
    def _listed(self, kept: Kept) -> Iterator[None]:
        """`kept` can be found from the start of the block on; not any more when the block fails."""
        self._kept[kept.claim.answer_id] = kept
        if kept.claim.key is not None:
            self._keys[kept.claim.owner, kept.claim.key] = kept.claim.answer_id
        try:
            yield
        except BaseException:
            self._forget(kept)
            raise

    def _forget(self, kept: Kept) -> None:
        self._kept.pop(kept.claim.answer_id, None)
        self._free_key(kept)

    def _free_key(self, kept: Kept) -> None:
        place = (kept.claim.owner, kept.claim.key or "")
        if self._keys.get(place) == kept.claim.answer_id:
            del self._keys[place]

    def _make_room(self) -> None:
        """Forgets the oldest finished answers until another one fits. Raises TooManyKept when too many are running."""
        size_bytes = sum(kept.recording.size_bytes for kept in self._kept.values())
        finished = sorted((kept for kept in self._kept.values() if kept.ended_s is not None), key=ended_s)
        for kept in finished:
            if len(self._kept) < KEPT_MOST and size_bytes < KEPT_MOST_BYTES:
                return
            size_bytes -= kept.recording.size_bytes
            self._forget(kept)
        if len(self._kept) >= KEPT_MOST or size_bytes >= KEPT_MOST_BYTES:
            raise TooManyKept(
                "too many answers are kept for clients that may come back; ask again, or without `resumable`"
            )

    async def _own(
        self,
        kept: Kept,
        run: Run,
        open_answers: OpenAnswers,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """The answer's owner. Raises ShuttingDown before it has started, afterwards nothing."""
        try:
            with open_answers.one() as halt:
                task_status.started()
                await self._run(kept, run, halt)
        finally:
            kept.recording.lose()
            self._note_end(kept)
            await self._share_end(kept)

    async def _run(self, kept: Kept, run: Run, halt: Halt) -> None:
        """Runs the answer into its recording, to which nothing else adds."""
        wire, recording = Native(kept.claim.answer_id), kept.recording

        async def emit(batch: tuple[Event, ...]) -> None:
            await checkpoint_if_cancelled()
            kept.has_failed = kept.has_failed or any(isinstance(event, Failed) for event in batch)
            recording.add(wire.chunk(batch), len(batch), is_end=any(isinstance(event, Done) for event in batch))
            if recording.size_bytes > RECORDING_LIMIT_BYTES:
                halt.now(TooManyKept("this answer is too long to be kept; ask without `resumable`"))

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(traceless, self._mind, kept, tasks.cancel_scope)
                tasks.start_soon(traceless, end_when_stopped, kept, tasks.cancel_scope)
                tasks.start_soon(traceless, self._share, kept)
                await run(emit, halt)
                tasks.cancel_scope.cancel()
        except Exception:  # in this group the answers of all other clients would fall with it
            log.exception("kept answer %s failed outside its own handling", kept.claim.answer_id)

    async def _mind(self, kept: Kept, scope: CancelScope) -> None:
        """Cancels `scope` once nobody has read for the grace, here or elsewhere."""
        recording = kept.recording
        while True:
            await recording.until_deserted()
            with anyio.move_on_after(self.keeping.grace_s):
                await recording.until_read()
                continue
            if not await self._is_read_elsewhere(kept):
                log.info("answer %s is given up: nobody came back for it", recording.answer_id)
                recording.lose()
                scope.cancel()
                return

    async def _is_read_elsewhere(self, kept: Kept) -> bool:
        shared, answer_id = self._shared_with(kept), kept.claim.answer_id
        if shared is None:
            return False
        try:
            return await shared.is_read(answer_id, max(self.keeping.grace_s, READ_WITHIN_S))
        except Exception as error:
            log.warning("whether answer %s is read elsewhere is not known: %s", answer_id, type(error).__name__)
            return False

    async def _share(self, kept: Kept) -> None:
        """Tells the other processes what was added, soon after it was, and that the answer is alive."""
        shared = self._shared_with(kept)
        if shared is None:
            return
        while True:
            if kept.recording.last == kept.shared_to:
                with anyio.move_on_after(ALIVE_EVERY_S):
                    await kept.recording.grown()
            await anyio.sleep(SHARE_EVERY_S)
            await self._tell(shared, kept, None)

    async def _tell(self, shared: Recordings, kept: Kept, expires_s: float | None) -> bool:
        """Adds what the others do not know yet; whether that could be done. What cannot be added now is added with the next."""
        try:
            state = await self._add(shared, kept, expires_s)
            if (
                state is State.GONE
            ):  # a database that has crashed comes back without recordings: it is told all of it anew
                kept.is_claimed, kept.shared_to = False, 0
                state = await self._add(shared, kept, expires_s)
        except Exception as error:
            log.warning("answer %s cannot be resumed elsewhere for now: %s", kept.claim.answer_id, type(error).__name__)
            return False
        if state is State.STOPPED:
            kept.stopped.set()
        return state is not State.GONE

    async def _add(self, shared: Recordings, kept: Kept, expires_s: float | None) -> State:
        chunks = kept.recording.chunks_after(kept.shared_to)
        if not kept.is_claimed:
            await self._claim(shared, kept)
        state = await shared.append(kept.claim.answer_id, chunks, expires_s)
        if state is State.KEPT and chunks:
            kept.shared_to = chunks[-1].last
        return state

    def _note_end(self, kept: Kept) -> None:
        """Keeps a finished answer for a while; of one that was given up nothing is left."""
        kept.ended_s = anyio.current_time()
        if kept.recording.is_lost:
            self._forget(kept)
        elif kept.has_failed:
            self._free_key(kept)  # a fault is no answer: asked again, it is asked anew

    async def _share_end(self, kept: Kept) -> None:
        """Tells the others of the end, also when this server ends with it; else as soon as the database lets it."""
        shared = self._shared_with(kept)
        if shared is None:
            return
        is_told = False
        with CancelScope(shield=True), anyio.move_on_after(LAST_SHARE_S):
            is_told = await self._end_shared(shared, kept)
        until_s = anyio.current_time() + self.keeping.keep_s
        while not is_told and kept.recording.is_ended and anyio.current_time() < until_s:
            await anyio.sleep(SHARE_AGAIN_S)
            is_told = await self._end_shared(shared, kept)

    async def _end_shared(self, shared: Recordings, kept: Kept) -> bool:
        answer_id = kept.claim.answer_id
        try:
            if kept.recording.is_lost:
                await shared.forget(answer_id)
                return True
            if not await self._tell(shared, kept, self.keeping.keep_s):
                return False
            if kept.has_failed:
                await shared.release(answer_id)
        except Exception as error:
            log.warning("the end of answer %s is not known elsewhere: %s", answer_id, type(error).__name__)
            return False
        return True

    async def sweep(self) -> None:
        """Forgets what has been kept long enough."""
        oldest_s = anyio.current_time() - self.keeping.keep_s
        for kept in tuple(self._kept.values()):
            if kept.ended_s is not None and kept.ended_s <= oldest_s and not kept.recording.readers:
                self._forget(kept)
        if self.shared is not None:
            try:
                await self.shared.sweep()
            except Exception as error:
                log.warning("what was kept is swept later: %s", type(error).__name__)

    async def _sweep_for_ever(self) -> None:
        while True:
            await anyio.sleep(SWEEP_EVERY_S)
            await self.sweep()


async def end_when_stopped(kept: Kept, scope: CancelScope) -> None:
    """Cancels `scope` once `kept` is stopped."""
    await kept.stopped.wait()
    log.info("answer %s was stopped", kept.claim.answer_id)
    kept.recording.lose()
    scope.cancel()


def ended_s(kept: Kept) -> float:
    return kept.ended_s or 0.0


def held_of(kept: Kept) -> Held:
    return Held(kept.claim.answer_id, kept.claim.digest, kept.recording.last, kept.recording.is_ended)


def agreed(digest: str, claim: Claim, source: Source) -> Source:
    """`source`, when it answers the same body. Raises IdempotencyKeyReused."""
    if digest != claim.digest:
        raise IdempotencyKeyReused("this Idempotency-Key came with another body before; a new question needs a new key")
    return source


@asynccontextmanager
async def open_keeper(keeping: Keeping | None = None, shared: Shared | None = None) -> AsyncIterator[Keeper]:
    """A keeper whose answers run at most until the end of the block; what is then left is cancelled, and closed before this returns."""
    async with anyio.create_task_group() as tasks:
        keeper = Keeper(tasks, keeping or Keeping(), shared)
        tasks.start_soon(keeper._sweep_for_ever)
        yield keeper
        tasks.cancel_scope.cancel()
