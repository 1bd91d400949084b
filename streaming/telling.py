"""Telling: the last events of a stream, from how its attempts came out."""

from dataclasses import dataclass

import anyio
from anyio import CancelScope

from retrieval.faults import GatewayFault
from streaming import recall
from streaming.ask import Ask
from streaming.attempt import Emit, said
from streaming.budget import Limits, Verify
from streaming.course import Course
from streaming.drafting import TOKEN_LIMIT_BYTES, cut
from streaming.events import Done, Failed, Path, Reason, Status, Verification
from streaming.facts import Verified
from streaming.failing import Refused, gap_of
from streaming.gate import Answered, Broken
from streaming.halt import Halt
from streaming.ledger import Ledger
from streaming.parts import Parts
from streaming.ports import StopReason, Text
from streaming.proof import annotated
from streaming.refusal import disagreement, refusal


@dataclass(frozen=True, slots=True)
class Recalled:
    """An answer was sent from the cache of verified answers."""


Outcome = Answered | Recalled | Refused | Broken


class Telling:
    """Tells a client how its question came out: whatever follows the last token, and exactly one `Done`. Once."""

    def __init__(self, ask: Ask, parts: Parts, limits: Limits, emit: Emit, halt: Halt, ledger: Ledger) -> None:
        self._ask, self._parts, self._limits = ask, parts, limits
        self._emit, self._halt, self._ledger = emit, halt, ledger

    async def tell(self, outcome: Outcome, course: Course) -> tuple[Path, str | None]:
        """The path that was taken, and the reason of a refusal or the type of a fault. Raises nothing; a halt meanwhile is a fault."""
        match outcome:
            case Answered(_, stop) if stop.reason is not StopReason.REFUSAL:
                course.end("released")
                if (fault := await self._conclude(outcome, course)) is not None:
                    return await self.tell(Broken(fault), course)
                path, finish, reason = Path.CLEAN if course.attempt == 1 else Path.RECOVERED, stop.reason.value, None
            case Recalled():
                path, finish, reason = Path.CLEAN, StopReason.END.value, None
            case Answered():
                path, finish, reason = await self._refuse(Refused(Reason.DECLINED), course)
            case Refused():
                path, finish, reason = await self._refuse(outcome, course)
            case Broken(fault):
                course.end("failed")
                await self._emit((Failed(fault.type, str(fault), fault.retryable),))
                path, finish, reason = Path.FAILED, "error", fault.type
        await self._emit((Done(path, finish, course.attempt, self._ledger.usage(), course.timings()),))
        return path, reason

    async def _conclude(self, answered: Answered, course: Course) -> GatewayFault | None:
        """What follows the last token: where the sources disagree, and which sentences they support. The fault it was halted with."""
        conflicts = answered.grade.conflicts
        with CancelScope() as scope:
            self._halt.bind(scope)
            if conflicts:
                await self._emit(said(tuple(cut(Text(f"\n\n{disagreement(conflicts)}"), TOKEN_LIMIT_BYTES))))
            is_whole = answered.stop.reason is StopReason.END and not conflicts
            await self._verify(course, is_keepable=is_whole)
        return self._halt.fault if scope.cancelled_caught else None

    async def _verify(self, course: Course, *, is_keepable: bool) -> None:
        """Says which sentences of the released answer its passages support; keeps a whole answer that all of them do."""
        race, verifier = course.race, self._parts.verifier
        if race is None or verifier is None or self._limits.verify is Verify.OFF:
            return
        if self._limits.verify is Verify.ANNOTATE:
            await self._emit((Status(course.attempt, "verifying"),))
            limit_s = min(self._limits.grade_timeout_s, course.began + self._limits.deadline_s - anyio.current_time())
            verification = await annotated(verifier, course.question, race.released, race.sources, limit_s)
        else:
            verification = Verification(True, race.claims)
        unsupported = sum(not claim.supported for claim in verification.claims)
        course.observer.note(Verified(course.attempt, verification.grounded, len(verification.claims), unsupported))
        await self._emit((verification,))
        if verification.grounded and is_keepable and not race.falls_back:  # what is kept is kept as the first model's
            await recall.keep(self._parts.cache, self._ask, course.question, race)

    async def _refuse(self, refused: Refused, course: Course) -> tuple[Path, str, str]:
        course.end("refused")
        gap = gap_of(refused, self._ask, course.question, course.searched, course.attempt)
        await self._emit((await refusal(refused.reason, gap, self._parts.gaps, course.found.kept),))
        finish = "budget" if refused.reason is Reason.BUDGET_EXHAUSTED else "refusal"
        return Path.REFUSED, finish, refused.reason
