"""A draft in flight, by itself."""

from collections.abc import AsyncIterator

import anyio
import pytest

from streaming.drafting import Drafting
from streaming.faults import AnswerIncomplete
from streaming.gate import Signal
from streaming.ledger import Ledger
from streaming.ports import Piece, Prompt
from streaming.room import Room
from tests.support.fakes import Facts

pytestmark = pytest.mark.anyio


class Breaking:
    """A draft whose connection breaks under its reader when it is cut, whatever else the reader is told."""

    name = "breaking"

    def __init__(self) -> None:
        self.is_read, self._is_cut = anyio.Event(), anyio.Event()

    async def draft(self, prompt: Prompt) -> "Breaking":
        return self

    def __aiter__(self) -> AsyncIterator[tuple[Piece, ...]]:
        return self

    async def __anext__(self) -> tuple[Piece, ...]:
        self.is_read.set()
        with anyio.CancelScope(shield=True):
            await self._is_cut.wait()
        raise AnswerIncomplete("the connection broke")

    def cut(self) -> None:
        self._is_cut.set()

    async def aclose(self) -> None:
        """Is closed already."""


async def test_a_draft_that_breaks_because_it_was_closed_reports_no_failure() -> None:
    """Nobody would take the report, and the race, the report and the draft's frames would keep each other."""
    told: list[Signal] = []
    breaking = Breaking()
    drafting = Drafting(1, 1, breaking, Prompt("Is it?", ()), Room(), 5.0, told.append, Ledger().open(1, 1), Facts())
    async with anyio.create_task_group() as tasks:
        drafting.start(tasks)
        with anyio.fail_after(5):
            await breaking.is_read.wait()
        drafting.close("discarded")
    assert told == []
