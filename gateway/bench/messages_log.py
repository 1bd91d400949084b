"""What the scripted Messages server saw and did, by request, with the moments on the machine's monotonic clock."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal, TextIO

import anyio

Kind = Literal["grader", "generator", "passages", "rewriter", "verifier"]
Moment = Literal["request", "responded", "first_token", "finished", "closed"]


@dataclass(slots=True)
class Exchange:
    """One request and its answer. Moments are `time.monotonic()`, comparable between processes of one machine.

    `responded_s` is when the first byte of the answer was written, `finished_s` when the last one was; `closed_s` is when the peer's
    end of the connection was seen to be closed before that. `tokens` were written so far, of a reply that is no stream all at once.
    """

    id: int
    connection: int
    kind: Kind
    model: str
    question: str
    attempt: int
    draft: int
    received_s: float
    responded_s: float | None = None
    first_token_s: float | None = None
    finished_s: float | None = None
    closed_s: float | None = None
    tokens: int = 0
    input_tokens: int = 0

    @property
    def is_open(self) -> bool:
        return self.finished_s is None and self.closed_s is None


class Log(list[Exchange]):
    """The exchanges in the order of their requests; each moment is also a JSON line in `file` as it happens."""

    def __init__(self, file: TextIO | None = None) -> None:
        super().__init__()
        self._file = file
        self._changed = asyncio.Event()

    def note(self, exchange: Exchange, moment: Moment) -> None:
        """Stamps `moment`, with the time that it is now; a request, with that at which it had come."""
        now = exchange.received_s if moment == "request" else time.monotonic()
        match moment:
            case "request":
                self.append(exchange)
            case "responded":
                exchange.responded_s = now
            case "first_token":
                exchange.first_token_s = now
            case "finished":
                exchange.finished_s = now
            case "closed":
                exchange.closed_s = now
        self.wake()
        if self._file is not None:
            said = {k: v for k, v in asdict(exchange).items() if not k.endswith("_s")}
            self._file.write(json.dumps({"t": now, "event": moment, **said}) + "\n")
            self._file.flush()

    def wake(self) -> None:
        """Lets whoever waits look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_until(self, condition: "Callable[[Log], bool]", within_s: float = 5.0) -> None:
        """Returns when `condition` holds, looking again after every moment and token. Raises TimeoutError, with the log, else."""
        with anyio.move_on_after(within_s) as scope:
            while not condition(self):
                await self._changed.wait()
        if scope.cancelled_caught:
            raise TimeoutError(f"not within {within_s:g} s; the log is {[*self]}")

    def of(self, kind: str, attempt: int | None = None) -> list[Exchange]:
        """The exchanges of a kind, and of an attempt where one is named."""
        return [e for e in self if e.kind == kind and (attempt is None or e.attempt == attempt)]

    @property
    def open(self) -> list[Exchange]:
        """Those still going on: a draft here after its answer ended is leaked."""
        return [e for e in self if e.is_open]
