"""Fusion, pure."""

from hypothesis import given
from hypothesis import strategies as st

from retrieval.fusion import Legs, blended, fuse
from retrieval.passage import Passage

FIGURES = st.floats(0, 1, allow_nan=False)
CANDIDATES = st.lists(st.builds(Legs, cosine=FIGURES, lexical=FIGURES), max_size=20)


def ranking(candidates: dict[str, Legs], **options: float) -> list[str]:
    scores = dict(zip(candidates, fuse(list(candidates.values()), **options), strict=True))
    return sorted(scores, key=lambda name: -scores[name])


def test_the_nearest_passage_beats_one_that_is_middling_in_both_legs() -> None:
    """What reciprocal-rank fusion gets wrong: a paraphrase shares no word with the right passage."""
    candidates = {"right": Legs(0.85, 0.0), "wordy": Legs(0.55, 0.3), "near": Legs(0.6, 0.0), "far": Legs(0.3, 0.2)}
    assert ranking(candidates)[0] == "right"


def test_words_decide_between_passages_that_are_equally_near() -> None:
    assert ranking({"a": Legs(0.7, 0.0), "b": Legs(0.7, 0.4), "c": Legs(0.2, 0.1)}) == ["b", "a", "c"]


def test_words_alone_decide_where_dense_has_no_weight() -> None:
    assert ranking({"a": Legs(0.9, 0.1), "b": Legs(0.1, 0.2)}, dense_weight=0.0) == ["b", "a"]


@given(CANDIDATES)
def test_figures_lie_between_0_and_1_in_the_order_given(candidates: list[Legs]) -> None:
    figures = fuse(candidates)
    assert len(figures) == len(candidates)
    assert all(0 <= figure <= 1 + 1e-9 for figure in figures)


@given(CANDIDATES)
def test_better_in_both_legs_is_never_ranked_lower(candidates: list[Legs]) -> None:
    figures = fuse(candidates)
    for one, its in zip(candidates, figures, strict=True):
        for other, others in zip(candidates, figures, strict=True):
            if one.cosine >= other.cosine and one.lexical >= other.lexical:
                assert its >= others - 1e-9


def test_a_title_that_the_question_names_decides_between_equals_and_not_against_the_nearest() -> None:
    candidates = {"near": Legs(0.9, 0.3), "named": Legs(0.6, 0.3, named=True), "far": Legs(0.6, 0.3)}
    assert ranking(candidates) == ["near", "named", "far"]


def test_no_candidates_give_no_figures() -> None:
    assert fuse([]) == []


def test_a_cross_encoder_moves_what_is_close_and_not_what_is_far() -> None:
    def read(name: str, fused: float, logit: float) -> Passage:
        return Passage(name, name, "", "", scores={"fused": fused, "rerank": logit})

    best = [read("a", 0.9, -2.0), read("b", 0.85, 4.0), read("c", 0.1, 6.0)]
    found = blended(best, [Passage("rest", "rest", "", "")])
    assert [one.id for one in found] == ["b", "a", "c", "rest"]
    assert found[0].scores["fused"] == 0.85
    assert found[0].score == found[0].scores["blended"]
