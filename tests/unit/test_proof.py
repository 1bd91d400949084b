"""Sentences held until they are checked: in order, side by side, and never let through by a verifier that fails."""

import anyio
import pytest

from streaming.events import Claim, Verification
from streaming.ports import Cited, Piece, Text
from streaming.proof import CHECKS_AT_ONCE, Checked, Proof, annotated
from tests.support.clock import run_virtual
from tests.support.fakes import FakeVerifier, passages

NUMBERED = tuple(enumerate(passages(3), 1))
ROSES = (Text("Roses need some sun. "), Cited(2, 0, 21), Text("Ferns need some shade."), Cited(1, 21, 43))


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Stage:
    """A proof whose reports are marked as they come; `sent` is what it hands on, with the time."""

    def __init__(self, verifier: FakeVerifier, timeout_s: float = 10.0) -> None:
        self.verifier, self._timeout_s = verifier, timeout_s
        self.sent: list[tuple[float, str]] = []
        self.stopped: str | None = None
        self.claims: list[Claim] = []

    async def play(self, *batches: tuple[Piece, ...]) -> "Stage":
        began, count = anyio.current_time(), 0

        def report(checked: Checked) -> None:
            nonlocal count
            ready, unsupported = proof.mark(checked)
            count += 1
            self.sent.extend((anyio.current_time() - began, p.text) for p in ready if isinstance(p, Text))
            if unsupported is not None and self.stopped is None:
                self.stopped = unsupported.text
                proof.close()

        async with anyio.create_task_group() as tasks:
            proof = Proof(self.verifier, "q", NUMBERED, self._timeout_s, tasks, report)
            for number, batch in enumerate(batches, 1):
                proof.add(batch, is_last=number == len(batches))
        self.claims = proof.claims
        return self


def test_each_sentence_is_checked_against_what_it_cites_and_one_without_citation_against_the_set(backend: str) -> None:
    stage = run_virtual(backend, Stage(FakeVerifier()).play, (*ROSES, Text(" Nobody cites this one.")))
    assert {c.text: [p.id for p in c.passages] for c in stage.verifier.claims} == {
        "Roses need some sun.": ["p2"],
        "Ferns need some shade.": ["p1"],
        "Nobody cites this one.": ["p1", "p2", "p3"],
    }
    assert stage.claims == [Claim(0, 21, True, (2,)), Claim(21, 44, True, (1,)), Claim(44, 66, True, ())]


def test_checks_run_side_by_side_and_not_more_than_so_many_at_once(backend: str) -> None:
    text = "".join(f"This is sentence number {n}. " for n in range(CHECKS_AT_ONCE + 1))
    stage = run_virtual(backend, Stage(FakeVerifier(delay_s=1.0)).play, (Text(text),))
    assert [at for at, _ in stage.sent] == [1.0] * CHECKS_AT_ONCE + [2.0]
    assert "".join(said for _, said in stage.sent) == text


def test_what_claims_nothing_waits_for_its_turn_and_for_no_check(backend: str) -> None:
    preamble = Text("These are quotes only.\n\n", is_claim=False)
    stage = run_virtual(backend, Stage(FakeVerifier(delay_s=1.0)).play, (preamble, *ROSES))
    assert [at for at, _ in stage.sent] == [0.0, 1.0, 1.0]
    assert len(stage.verifier.claims) == 2


def test_an_unsupported_sentence_stops_what_comes_after_it_and_not_what_came_before(backend: str) -> None:
    stage = run_virtual(
        backend, Stage(FakeVerifier(lie="Ferns", delay_s=1.0)).play, (*ROSES, Text(" And some more of it."))
    )
    assert "".join(said for _, said in stage.sent) == "Roses need some sun. "
    assert stage.stopped == "Ferns need some shade. "
    assert [c.supported for c in stage.claims] == [True, False]


@pytest.mark.parametrize("verifier", [FakeVerifier(fault=ValueError("secret")), FakeVerifier(delay_s=9_999.0)])
def test_a_verifier_that_fails_or_stalls_has_supported_nothing(backend: str, verifier: FakeVerifier) -> None:
    stage = run_virtual(backend, Stage(verifier).play, ROSES)
    assert stage.sent == []
    assert stage.stopped == "Roses need some sun. "


class Miscounting(FakeVerifier):
    async def supported(self, question: str, claims: object) -> tuple[bool, ...]:
        return (True,) * self.count

    count = 0


@pytest.mark.parametrize("count", [0, 3])
def test_a_verifier_that_answers_about_more_or_fewer_sentences_has_supported_nothing(backend: str, count: int) -> None:
    verifier = Miscounting()
    verifier.count = count
    assert run_virtual(backend, Stage(verifier).play, ROSES).sent == []
    annotation = run_virtual(backend, annotated, verifier, "q", ROSES, NUMBERED, 1.0)
    assert annotation == Verification(False, ())


def test_once_closed_no_check_begins(backend: str) -> None:
    verifier = FakeVerifier(delay_s=9_999.0)

    async def play() -> float:
        async with anyio.create_task_group() as tasks:
            proof = Proof(verifier, "q", NUMBERED, 9_999.0, tasks, lambda _: None)
            proof.add(ROSES, is_last=True)
            proof.close()
        return anyio.current_time()

    assert run_virtual(backend, play) < 1.0
    assert (verifier.claims, verifier.running) == ([], 0)


def test_annotating_asks_once_and_names_the_unsupported_characters(backend: str) -> None:
    verifier = FakeVerifier(lie="Ferns")
    annotation = run_virtual(backend, annotated, verifier, "q", ROSES, NUMBERED, 1.0)
    assert annotation == Verification(False, (Claim(0, 21, True, (2,)), Claim(21, 43, False, (1,))))


def test_annotating_knows_a_citation_of_several_sentences(backend: str) -> None:
    said = (Text("Roses need some sun. Ferns need some shade."), Cited(3, 0, 43))
    annotation = run_virtual(backend, annotated, FakeVerifier(), "q", said, NUMBERED, 1.0)
    assert [claim.sources for claim in annotation.claims] == [(3,), (3,)]


def test_an_answer_that_claims_nothing_is_grounded_and_nobody_is_asked(backend: str) -> None:
    verifier = FakeVerifier(fault=ValueError("secret"))
    said = (Text("These are quotes only.", is_claim=False),)
    assert run_virtual(backend, annotated, verifier, "q", said, NUMBERED, 1.0) == Verification(True, ())
    assert verifier.claims == []
