"""A draft that fails while nothing is sent: another model stands in, or the same is asked when its service says; a source that is away."""

import pytest

from grading.grade import Grade, Verdict
from retrieval.faults import RetrievalUnavailable
from streaming.budget import Limits, Verify
from streaming.events import Done, Failed, Refusal, Retry
from streaming.facts import DraftClosed, DraftStarted
from streaming.faults import GeneratorFault, GeneratorMisconfigured, GeneratorOverloaded, GeneratorUnavailable
from streaming.ports import Kept, Piece, Stopped, StopReason, Text, Usage
from tests.support.clock import run_virtual
from tests.support.fakes import DraftScript, FakeGenerator, FakeGrader, FakeRetriever, FakeVerifier, passages
from tests.support.loop import Loop

GOOD, BAD = Grade(Verdict.SUFFICIENT, relevant=(1,)), Grade(Verdict.INSUFFICIENT)
DOWN = GeneratorUnavailable("the model's service failed")


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def says(word: str, tokens: int = 7) -> DraftScript:
    end = Stopped(StopReason.END, Usage(10, tokens))
    return DraftScript(((0.1, (Text(word),)), (0.1, (end,))))


def breaks(fault: GeneratorFault, after: str = "") -> DraftScript:
    said: tuple[Piece, ...] = (Text(after),) if after else ()
    return DraftScript(((0.1, said),) if said else (), fault=fault)


def loop(
    *first: DraftScript, second: DraftScript | None = None, grade: Grade = GOOD, grade_s: float = 1.0, **more: object
) -> Loop:
    fallback = None if second is None else FakeGenerator([second], name="second")
    return Loop(
        FakeGrader([(grade_s, grade)]),
        FakeGenerator(list(first)),
        FakeRetriever([(0.0, passages(2))]),
        fallback=fallback,
        **more,  # type: ignore[arg-type]
    )


def played(backend: str, one: Loop) -> Loop:
    return run_virtual(backend, one.play)


def asked(one: Loop) -> tuple[int, int]:
    """Calls of the first model and of the one that stands in."""
    return len(one.generator.prompts), 0 if one.fallback is None else len(one.fallback.prompts)


@pytest.mark.parametrize(("after", "grade_s"), [("", 0.0), ("", 1.0), ("held ", 1.0)])
def test_another_model_stands_in_while_nothing_is_sent(backend: str, after: str, grade_s: float) -> None:
    one = played(backend, loop(breaks(DOWN, after), second=says("stood in"), grade_s=grade_s))
    assert one.text == "stood in"
    assert asked(one) == (1, 1)
    (done,) = one.of(Done)
    assert (done.path, done.usage["fallback_tokens"], done.usage["released_tokens"]) == ("clean", 7, 7)
    assert [fact.stands_in for fact in one.facts.of(DraftStarted)] == [None, "second"]
    assert [fact.stands_in for fact in one.facts.of(DraftClosed)] == [None, "second"]


def test_what_nobody_stood_in_for_says_nothing_of_it(backend: str) -> None:
    one = played(backend, loop(says("first"), second=says("stood in")))
    assert (one.text, asked(one)) == ("first", (1, 0))
    assert "fallback_tokens" not in one.of(Done)[0].usage


def test_nobody_stands_in_for_a_request_that_is_refused(backend: str) -> None:
    one = played(backend, loop(breaks(GeneratorMisconfigured("wrong key")), second=says("stood in")))
    assert asked(one) == (1, 0)
    assert one.of(Failed)[0].type == "generator_misconfigured"


def test_nobody_stands_in_once_something_was_sent(backend: str) -> None:
    one = played(backend, loop(breaks(DOWN, "sent "), second=says("stood in"), grade_s=0.0))
    assert (one.text, asked(one)) == ("sent ", (1, 0))
    (failed,), (done,) = one.of(Failed), one.of(Done)
    assert (failed.type, failed.retryable, done.path) == ("generator_unavailable", True, "failed")


def test_when_both_fail_it_is_one_fault_and_each_was_asked_once(backend: str) -> None:
    one = played(backend, loop(breaks(DOWN), second=breaks(GeneratorOverloaded("busy"))))
    assert asked(one) == (1, 1)
    assert [event.type for event in one.of(Failed)] == ["generator_overloaded"]
    assert one.names[-1] == "Done"


def test_an_answer_of_the_model_that_stood_in_is_not_kept_as_the_first_one_s(backend: str) -> None:
    class Cache:
        kept = 0

        async def find(self, question: str, collection: str, tenant: str) -> Kept | None:
            return None

        async def keep(self, question: str, collection: str, tenant: str, answer: Kept) -> None:
            self.kept += 1

    for first, keeps in ((says("A sentence."), 1), (breaks(DOWN), 0)):
        cache = Cache()
        limits = Limits(verify=Verify.ANNOTATE)
        one = loop(first, second=says("A sentence."), cache=cache, verifier=FakeVerifier(), limits=limits)
        assert played(backend, one).text == "A sentence."
        assert cache.kept == keeps


def test_a_service_is_asked_again_when_it_says_and_not_before(backend: str) -> None:
    one = played(backend, loop(breaks(GeneratorOverloaded("busy", 3.0)), says("again")))
    assert (one.text, asked(one)) == ("again", (2, 0))
    began = [at for at, fact in one.facts.told if isinstance(fact, DraftStarted)]
    assert began[1] - began[0] == pytest.approx(3.0)


def test_a_service_that_wants_to_be_asked_after_the_deadline_is_not(backend: str) -> None:
    one = played(backend, loop(breaks(GeneratorOverloaded("busy", 30.0)), says("late"), limits=Limits(deadline_s=20.0)))
    assert asked(one) == (1, 0)
    (failed,) = one.of(Failed)
    assert (failed.type, failed.retryable) == ("generator_overloaded", True)
    assert one.took_s == pytest.approx(1.0)  # with the verdict


def test_who_stands_in_waits_for_nobody(backend: str) -> None:
    one = played(backend, loop(breaks(GeneratorOverloaded("busy", 30.0)), second=says("stood in")))
    assert one.text == "stood in"
    assert one.took_s == pytest.approx(1.0)


def test_a_bad_verdict_ends_the_wait_for_a_busy_service(backend: str) -> None:
    one = played(
        backend,
        loop(breaks(GeneratorOverloaded("busy", 9.0)), says("no"), grade=BAD, limits=Limits(max_retries=0)),
    )
    assert asked(one) == (1, 0)
    assert one.took_s == pytest.approx(1.0)
    assert len(one.of(Refusal)) == 1


def test_a_new_attempt_asks_the_first_model_first(backend: str) -> None:
    one = loop(breaks(DOWN), says("first"), second=says("stood in"))
    one.grader = FakeGrader([(1.0, BAD), (1.0, GOOD)])
    played(backend, one)
    assert one.text == "first"
    assert len(one.of(Retry)) == 1


@pytest.mark.parametrize("is_parallel", [True, False])
def test_a_source_that_could_not_be_searched_is_named_in_the_refusal(backend: str, is_parallel: bool) -> None:
    away = FakeRetriever([(0.0, RetrievalUnavailable("away"))])
    one = loop(says("no"), grade=BAD, web=away, web_is_parallel=is_parallel, limits=Limits(max_retries=2))
    played(backend, one)
    (refusal,) = one.of(Refusal)
    assert len(away.queries) == 1
    assert refusal.searched.count("web: could not be searched") == 1
    assert one.gaps.gaps[-1].searched == refusal.searched
