"""The benches' own sums: a leak that is there is counted, a percentile is one of the values, a cut stream is noticed."""

import pytest

from gateway.bench.figures import percentile, spread
from gateway.bench.load import events, unchunked
from gateway.bench.upstream import Exchange, Moment, Upstream
from tests.bench.own_documents import Question, holds
from tests.bench.race import leaked

RELEASED = Exchange("generator", "q", attempt=2, draft=1)


def test_words_of_a_draft_that_was_not_released_are_counted_as_leaked() -> None:
    assert leaked(b'{"text": "a2d1w0 a2d1w1 "}', RELEASED) == 0
    assert leaked(b'{"text": "a1d1w0 a2d1w1 "}', RELEASED) == len("a1d1w0")
    assert leaked(b'{"text": "a2d1w0 "}', None) == len("a2d1w0")


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 5), (0.9, 9), (0.95, 10), (0.99, 10), (1.0, 10)])
def test_percentile_is_the_least_value_that_enough_values_do_not_exceed(share: float, value: float) -> None:
    assert percentile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], share) == value


def test_nothing_measured_is_no_figure() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        spread([])


def test_body_that_is_cut_short_is_no_answer() -> None:
    whole = b'HTTP/1.1 200 OK\r\n\r\n1c\r\nevent: done\ndata: {"n": 1}\n\n\r\n0\r\n\r\n'
    assert events(unchunked(whole)) == [("done", {"n": 1})]
    with pytest.raises((AssertionError, ValueError)):
        unchunked(whole[:-5])
    with pytest.raises(AssertionError):
        unchunked(whole.replace(b"200", b"503"))


def test_second_draft_of_the_same_set_is_an_exchange_of_its_own() -> None:
    said = {"connection": 1, "model": "m", "question": "q", "attempt": 1, "tokens": 0}
    lines = [
        ("request", 1, "grader", 0),
        ("request", 2, "generator", 1),
        ("request", 3, "generator", 2),
        ("closed", 2, "generator", 1),
    ]
    upstream = Upstream([Moment(t=n, event=e, id=i, kind=k, draft=d, **said) for n, (e, i, k, d) in enumerate(lines)])  # type: ignore[arg-type]
    first, second = upstream.drafts("q")
    assert first.at_s == {"request": 1, "closed": 3}
    assert second.at_s == {"request": 2}
    assert len(upstream.grades("q")) == 1


def test_passage_is_of_a_section_when_a_heading_on_its_path_is() -> None:
    question = Question("?", where=("Exit codes", "Decision 0001"))
    assert holds(question, ["Retrieval › Chunking", "Operations › Exit codes"])
    assert holds(question, ["Decision 0001: one gate decides, one task writes"])
    assert not holds(question, ["Retrieval › Chunking"])
