"""Figures against hand-worked cases and against their definitions; the pictures of them."""

import re
import struct
import zlib
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.evaluation.figures import (
    Bin,
    Interval,
    Scored,
    auc,
    calibration_error,
    confusion,
    error_by_chance,
    intervals,
    reliability,
    share_decided,
    three_way_macro_f1,
)
from gateway.evaluation.picture import png_curve, terminal_curve
from gateway.evaluation.shown import sufficiency_table
from gateway.evaluation.sufficiency import Judged, report

CASES = st.lists(
    st.builds(Scored, st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0]), st.booleans(), st.sampled_from("abcdef")),
    min_size=1,
    max_size=40,
)


def scored(*pairs: tuple[float, bool]) -> list[Scored]:
    return [Scored(p, label, f"g{n}") for n, (p, label) in enumerate(pairs)]


@given(CASES)
def test_auc_is_the_share_of_pairs_in_the_right_order(cases: list[Scored]) -> None:
    pairs = [(a.p, b.p) for a in cases if a.label for b in cases if not b.label]
    found = auc(cases)
    if not pairs:
        assert isnan(found)
        return
    assert found == pytest.approx(sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs))


def test_the_confusion_at_a_threshold_and_what_follows_from_it() -> None:
    found = confusion(scored((0.9, True), (0.8, True), (0.7, False), (0.2, True), (0.1, False), (0.5, False)), 0.5)
    assert (found.released, found.refused_wrongly, found.released_wrongly, found.refused) == (2, 1, 2, 1)
    assert found.precision == pytest.approx(0.5)
    assert found.recall == pytest.approx(2 / 3)
    assert found.f1 == pytest.approx(4 / 7)
    assert found.f1_of_false == pytest.approx(2 / 5)
    assert found.macro_f1 == pytest.approx((4 / 7 + 2 / 5) / 2)
    assert found.cost(5) == pytest.approx(11 / 6)


def test_a_judge_that_says_what_is_true_has_no_calibration_error() -> None:
    assert calibration_error(scored(*[(0.25, n % 4 == 0) for n in range(40)])) < 0.11
    assert calibration_error(scored(*[(1.0, True)] * 10, *[(0.0, False)] * 10)) == 0
    assert calibration_error(scored(*[(1.0, False)] * 10)) == 1


def test_true_probabilities_have_an_error_by_chance_that_falls_with_the_number_of_cases() -> None:
    few = scored(*[(n / 60, n % 2 == 0) for n in range(60)])
    found = error_by_chance(few, seed=3)
    assert 0 < found.low < found.value < found.high
    assert found == error_by_chance(few, seed=3)
    assert found == error_by_chance([Scored(each.p, not each.label, each.group) for each in few], seed=3)
    assert error_by_chance(few * 16, seed=3).value == pytest.approx(found.value / 4, rel=0.2)
    assert error_by_chance(scored((1.0, False), (0.0, True)), seed=3) == Interval(0.0, 0.0, 0.0)
    assert isnan(error_by_chance([], seed=3).value)


def test_the_parts_of_the_reliability_curve_hold_every_case_once() -> None:
    cases = scored(*[(n / 103, n % 3 == 0) for n in range(103)])
    parts = reliability(cases)
    assert sum(part.count for part in parts) == 103
    assert [part.said for part in parts] == sorted(part.said for part in parts)
    assert max(part.count for part in parts) - min(part.count for part in parts) <= 1


def test_the_share_decided_stops_where_the_sure_ones_begin_to_be_wrong() -> None:
    sure = [(0.99, True)] * 19 + [(0.98, False)]
    unsure = [(0.6, False)] * 20
    assert share_decided(scored(*sure, *unsure)) == pytest.approx(20 / 40)
    assert share_decided(scored(*unsure)) == 0
    assert share_decided(scored((0.9, True), (0.9, False))) == 0  # one sureness is decided together


def test_the_bootstrap_draws_groups_and_gives_the_same_for_the_same_seed() -> None:
    together = [Scored(0.9 if n % 2 else 0.2, bool(n % 2), f"g{n // 10}") for n in range(100)]
    alone = [Scored(each.p, each.label, str(n)) for n, each in enumerate(together)]
    measure = {
        "recall": lambda cases: confusion(cases, 0.5).recall,
        "share": lambda cases: sum(c.label for c in cases) / len(cases),
    }
    first, second = intervals(alone, measure, 7, 200), intervals(alone, measure, 7, 200)
    assert first == second
    assert intervals(alone, measure, 8, 200)["share"] != first["share"]
    assert first["recall"] == Interval(1.0, 1.0, 1.0)
    assert first["share"].low < first["share"].value < first["share"].high
    assert intervals(together, measure, 7, 200)["share"] == Interval(0.5, 0.5, 0.5)  # every group is half and half


def test_macro_f1_of_three_verdicts_is_over_the_kinds_that_the_labels_hold() -> None:
    pairs = [("sufficient", "sufficient"), ("partial", "insufficient"), ("insufficient", "insufficient")]
    assert three_way_macro_f1(pairs) == pytest.approx((1 + 0 + 2 / 3) / 3)
    assert three_way_macro_f1([("sufficient", "partial"), ("sufficient", "sufficient")]) == pytest.approx(2 / 3)


def test_a_report_has_every_set_and_their_mean() -> None:
    judged = [
        Judged(origin, f"{origin}{n}", 0.9 if n % 2 else 0.1, "sufficient" if n % 2 else "partial", "partial")
        for origin in ("a", "b")
        for n in range(20)
    ]
    found = report(judged, 0.8, 5.0, seed=0)
    told = found.as_json()
    assert [each.name for each in found.sets] == ["a", "b"]
    assert (told["auc"], told["cost"], told["cases"]) == (1.0, 0.0, 40)
    assert told["sets"]["a"]["intervals"]["auc"] == [1.0, 1.0]
    assert (told["together"]["cases"], told["together"]["auc"]) == (40, 1.0)
    assert report(judged, 0.8, 5.0, seed=0) == found


def test_a_figure_that_is_no_number_is_null_and_a_dash_in_the_table() -> None:
    found = report([Judged("a", "g", 0.1, "partial", "partial")], 0.8, 5.0, seed=0)
    told = found.as_json()
    assert told["auc"] is None
    assert told["sets"]["a"]["precision"] is None
    table = sufficiency_table(found, "by hand")
    assert "nan" not in table
    assert re.search(r"^a +0/1 +- ", table, re.MULTILINE)


BINS = [Bin(20, 0.05, 0.0), Bin(20, 0.5, 0.75), Bin(20, 1.0, 1.0)]


def test_the_terminal_curve_marks_each_part_where_it_lies() -> None:
    lines = terminal_curve(BINS).splitlines()
    body = [line[6:] for line in lines if "|" in line]
    assert body[0][48] == "o"
    assert body[-1][2] == "o"
    assert body[4][24] == "o"
    assert sum(line.count("o") for line in body) == 3


def test_the_png_can_be_decoded_and_shows_a_dot_for_each_part() -> None:
    png = png_curve(BINS)
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks = dict(chunks_of(png))
    width, height, depth, colours = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, colours) == (8, 2)
    rows = zlib.decompress(chunks[b"IDAT"])
    assert len(rows) == height * (1 + 3 * width)

    def pixel(x: int, y: int) -> bytes:
        start = y * (1 + 3 * width) + 1 + 3 * x
        return rows[start : start + 3]

    for part in BINS:
        assert pixel(40 + round(part.said * 400), 440 - round(part.true * 400)) == bytes((31, 90, 180))
    assert pixel(5, 5) == b"\xff\xff\xff"


def chunks_of(png: bytes) -> list[tuple[bytes, bytes]]:
    found, place = [], 8
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        kind, content = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        assert struct.unpack(">I", png[place + 8 + length : place + 12 + length])[0] == zlib.crc32(kind + content)
        found.append((kind, content))
        place += 12 + length
    return found
