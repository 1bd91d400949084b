"""The report's arithmetic, its table and its picture; what it makes of samples."""

import json
import math
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from gateway.cli import cli
from gateway.observing.metric_names import BUCKETS_S
from gateway.reporting.command import seconds_of
from gateway.reporting.from_prometheus import Sample, seen_in
from gateway.reporting.report import FAILURE_PATH, Report, Seen, Spread, quantile
from gateway.reporting.shown import picture, table

BOUNDS = (*BUCKETS_S, math.inf)


def histogram(path: str, times: list[float], name: str = "gateway_answer_duration_seconds_bucket") -> list[Sample]:
    return [
        (name, {"path": path, "le": "+Inf" if bound == math.inf else str(bound)}, sum(t <= bound for t in times))
        for bound in BOUNDS
    ]


TIMES = {"clean": [0.6] * 85 + [0.9] * 5, "recovered": [1.2] * 6, "refused": [0.7] * 4}
SAMPLES: list[Sample] = [
    *(sample for path, times in TIMES.items() for sample in histogram(path, times)),
    ("gateway_corrections_total", {"strategy": "gap_query", "result": "released"}, 6),
    ("gateway_corrections_total", {"strategy": "rewrite", "result": "refused"}, 4),
    ("gateway_corrections_total", {"strategy": "gap_query", "result": "discarded"}, 2),
    ("gateway_refusals_total", {"reason": "insufficient_evidence"}, 3),
    ("gateway_refusals_total", {"reason": "grader_unavailable"}, 1),
    ("gateway_tokens_total", {"fate": "released", "exact": "true"}, 900),
    ("gateway_tokens_total", {"fate": "discarded", "exact": "false"}, 100),
    ("gateway_speculations_total", {"decision": "now", "use": "hit"}, 96),
    ("gateway_speculations_total", {"decision": "now", "use": "miss"}, 14),
    ("gateway_speculations_total", {"decision": "wait", "use": "unused"}, 2),
    ("gateway_answers_verified_total", {"grounded": "false"}, 1),
    ("gateway_answers_verified_total", {"grounded": "true"}, 3),
]
REPORT = Report(seen_in(SAMPLES, "a test"), price=15.0)


@pytest.mark.parametrize(
    ("rate", "share"),
    [
        ("correction", 0.1),
        ("recovery", 0.6),
        ("refusal", 0.04),
        ("abstention", 0.03),
        ("failure", 0.0),
        ("grounding failure", 0.25),
        ("discarded tokens", 0.1),
        ("speculation hit", 96 / 110),
    ],
)
def test_rates(rate: str, share: float) -> None:
    assert REPORT.rates[rate] == pytest.approx(share)


def test_failure_path_is_every_path_but_the_clean_one() -> None:
    assert REPORT.answers(FAILURE_PATH) == 10
    assert REPORT.all_answers == 100
    assert 1.0 < REPORT.spread("total", FAILURE_PATH).p99 <= 1.5
    assert REPORT.ratio("total", FAILURE_PATH) == pytest.approx(
        REPORT.spread("total", FAILURE_PATH).p99 / REPORT.spread("total", "clean").p99
    )


def test_success_is_told_by_strategy_and_discarded_tokens_by_their_cost() -> None:
    assert REPORT.success == {"gap_query": (0.75, 8), "rewrite": (0.0, 4)}
    assert REPORT.cost == pytest.approx(100 * 15 / 1e6)
    assert replace(REPORT, price=None).cost is None


@pytest.mark.parametrize("q", [0.5, 0.95, 0.99])
def test_quantile_from_buckets_is_in_the_bucket_of_the_exact_one(q: float) -> None:
    times = [0.03 + 0.011 * n for n in range(400)]
    counts = [sum(t <= bound for t in times) for bound in BOUNDS]
    exact = sorted(times)[int(q * len(times))]
    place = next(n for n, bound in enumerate(BOUNDS) if exact <= bound)
    assert (BOUNDS[place - 1] if place else 0) <= quantile(q, BOUNDS, counts) <= BOUNDS[place]


def test_quantile_beyond_the_last_bound_is_that_bound_and_of_nothing_is_none() -> None:
    assert quantile(0.99, (1.0, math.inf), (0, 5)) == 1.0
    assert Spread.in_buckets(BOUNDS, [0] * len(BOUNDS)).count == 0
    assert math.isnan(Spread.of([]).p99)


def test_exact_spread_is_by_nearest_rank() -> None:
    assert Spread.of([float(n) for n in range(100, 0, -1)]) == Spread(100, 51.0, 96.0, 100.0)


def test_samples_of_several_gateways_add_up() -> None:
    twice = Report(seen_in([*SAMPLES, *SAMPLES], "two"))
    assert twice.all_answers == 200
    assert twice.spread("total", "clean").p99 == REPORT.spread("total", "clean").p99


def test_json_has_null_where_there_is_no_figure_and_is_json() -> None:
    told = json.loads(json.dumps(REPORT.as_json(), allow_nan=False))
    assert told["seconds"]["total"]["failed"]["p99"] is None
    assert told["seconds"]["total"]["clean"]["count"] == 90
    assert told["rates"]["refusal"] == 0.04
    thirds = json.loads(json.dumps(Report(seen_in([(n, of, v / 3) for n, of, v in SAMPLES], "by a third")).as_json()))
    for report in (told, thirds):  # Prometheus extrapolates: counts come as 33.333
        counts = [report["duplicates"], report["conflicts"], *report["answers"].values(), *report["refusals"].values()]
        counts += [report["tokens"]["discarded"], report["strategies"]["gap_query"]["count"]]
        counts += [each["count"] for stage in report["seconds"].values() for each in stage.values()]
        assert {type(count) for count in counts} == {int}
        assert {type(each["p50"]) for each in report["seconds"]["total"].values()} == {float, type(None)}
    empty = Report(Seen("nothing", {}))
    assert json.loads(json.dumps(empty.as_json(), allow_nan=False))["rates"]["refusal"] is None


def test_table_says_it_all_in_words() -> None:
    text = table(REPORT)
    for words in ("100 answers", "failure_path", "correction", "gap_query", "100 tokens discarded, which cost 0.0015"):
        assert words in text
    assert "nan" not in text + table(Report(Seen("nothing", {})))


def test_picture_is_a_png_also_of_nothing() -> None:
    assert picture(REPORT).startswith(b"\x89PNG")
    assert picture(Report(Seen("nothing", {}))) != picture(REPORT)


@pytest.mark.parametrize(("span", "seconds"), [("90s", 90), ("24h", 86_400), ("7d", 604_800), ("1", None), ("", None)])
def test_lengths_of_time(span: str, seconds: float | None) -> None:
    assert seconds_of(span) == seconds


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--since", "soon"), 2, "no length of time"),
        (("--prometheus", "http://a", "--gateway", "http://b"), 2, "not both"),
        (("--gateway", "http://127.0.0.1:9"), 1, "http://127.0.0.1:9/metrics cannot be reached: nothing listens there"),
        (("--gateway", "nonsense"), 2, "--gateway nonsense is no address"),
        (("--prometheus", "localhost:9090"), 2, "--prometheus localhost:9090 is no address"),
    ],
)
def test_what_cannot_be_reported_is_said(arguments: tuple[str, ...], code: int, words: str) -> None:
    found = CliRunner().invoke(cli, ["report", *arguments])
    assert found.exit_code == code
    assert words in found.output
    assert "Traceback" not in found.output
