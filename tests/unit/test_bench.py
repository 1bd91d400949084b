"""The bench without its processes: its questions, its profiles, its simulation and what it shows. Virtual time throughout."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway.bench import frontier_shown, shown
from gateway.bench.frontier import Load, checked, frontier
from gateway.bench.logged import profile_of
from gateway.bench.outcome import bucket, discarded_ratio, figures, gain_kept, outcome, times_of
from gateway.bench.profile import Answer, Delays, Kind, Mix, Profile, ProfileUnreadable, Sample, read_profile
from gateway.bench.run import Asked, Plan, Turns
from gateway.bench.simulation import Policy, simulated
from gateway.bench.strategies import CLASSIC, STRATEGIES, Strategy, told_odds
from gateway.bench.workload import Odds, Planned, defaults_of, planned
from gateway.cli import cli
from gateway.providers.script import Script
from gateway.providers.scripted import passage
from grading.correct import DEFAULT_POLICY

STEADY = Profile(delays=Delays(sigma=0.0))
SLOW = Profile(delays=Delays(grade=800.0, first_token=300.0, sigma=0.0))
SURE = 0.99  # no wider set is prepared
RARE = 0.1  # answers in a second: never two at once


def one(kind: Kind, p: float = 0.9) -> list[Planned]:
    return [Planned(1, kind, p)]


def first_byte(strategy: Strategy, kind: Kind, profile: Profile = STEADY, p: float = 0.9) -> float:
    (found,) = simulated(profile, Policy(strategy, profile.prices.second), one(kind, p), RARE)
    return round(found.first_byte_ms, 3)


def test_the_mix_is_exact_and_its_order_drawn() -> None:
    found = planned(Profile(), 100)
    assert Counter(each.kind for each in found) == {"clean": 85, "partial": 7, "insufficient": 5, "refused": 3}
    assert len({each.number for each in found}) == 100
    assert found == planned(Profile(), 100) != planned(Profile(), 100, seed=2)
    thirds = Profile(mix=Mix(clean=1, partial=1, insufficient=1, refused=0))
    assert sorted(Counter(each.kind for each in planned(thirds, 100)).values()) == [33, 33, 34]


def test_every_asker_meets_the_same_delays_and_no_two_questions_do() -> None:
    defaults = Script.parse(defaults_of(Profile()))
    mine, yours = (Script.parse(Planned(1, "clean", 0.5).question(asker), defaults) for asker in ("never 1", "plain 2"))
    other = Planned(2, "clean", 0.5).script(defaults)
    assert mine.question != yours.question
    for attempt in (1, 2):
        assert mine.due_s(attempt) == yours.due_s(attempt) != other.due_s(attempt)
        assert mine.grade_s(attempt) == yours.grade_s(attempt) != other.grade_s(attempt)


def test_what_is_known_before_the_verdict_is_calibrated_and_as_telling_as_the_profile_says() -> None:
    odds = Odds(Profile(), random.Random(3), 0.85)
    clean, failing = [odds.draw(True) for _ in range(8_500)], [odds.draw(False) for _ in range(1_500)]
    for low in (0.6, 0.7, 0.8, 0.9):
        held, not_ = (sum(low <= p < low + 0.1 for p in ps) for ps in (clean, failing))
        assert held / (held + not_) == pytest.approx(low + 0.05, abs=0.05)
    pairs = [(clean[n % 8_500], failing[n % 1_500]) for n in range(0, 200_000, 7)]
    assert sum(a > b for a, b in pairs) / len(pairs) == pytest.approx(0.75, abs=0.02)
    asked = Planned(1, "partial", 0.25, second_p=0.75).question("x")
    assert [told_odds(asked, (passage(1, search),)) for search in (1, 2, 3)] == [0.25, 0.75, 0.75]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("delays = ", "Invalid value"),
        ("[delays]\nretrieve = -1", "delays.retrieve"),
        ("[delays]\nretreive = 1", "delays.retreive"),
        ("[mix]\nclean = 0\npartial = 0\ninsufficient = 0\nrefused = 0", "all 0"),
        ("[mix]\nauc = 0.2", "mix.auc"),
        ("[prices]\nsecond = 'much'", "prices.second"),
    ],
)
def test_a_profile_that_cannot_be_says_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ProfileUnreadable, match=r"mine\.toml") as raised:
        read_profile(path)
    assert said in str(raised.value)


def test_a_profile_says_only_what_is_different(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[delays]\ngrade = 900\n")
    assert read_profile(path) == Profile(name="mine", delays=Delays(grade=900))
    with pytest.raises(ProfileUnreadable):
        read_profile(tmp_path / "none.toml")


def test_a_logged_profile_plays_what_was_logged() -> None:
    rows = [(0.01 * n, 0.1 * n, 0.2 * n) for n in range(1, 31)]
    profile = profile_of(rows, [("clean", 6), ("partial", 2), ("refused", 1)])
    assert profile.mix == Mix(clean=6, partial=2, insufficient=0, refused=1)
    assert profile.samples[0] == Sample(retrieve=10, grade=100, first_token=200)
    script = planned(profile, 1)[0].script(Script.parse(defaults_of(profile)))
    assert (script.retrieve_s(1), script.grade_s(1), script.due_s(1)[0]) in [pytest.approx(row) for row in rows]
    with pytest.raises(ProfileUnreadable, match="19 attempts"):
        profile_of(rows[:19], [])
    with pytest.raises(ProfileUnreadable, match="no question"):
        profile_of(rows, [])


# r = 40, g = 250, t = 400, rewrite 250: the table of the strategies, DESIGN section 1
@pytest.mark.parametrize(
    ("strategy", "clean", "recovered", "refused"),
    [
        ("plain", 440, 440, 440),
        ("classic", 690, 40 + 250 + 250 + 690, 40 + 250 + 250 + 290),
        ("never", 690, 290 + 690, 580),
        ("always", 440, 290 + 440, 580),
        ("adaptive", 440, 290 + 440, 580),
    ],
)
def test_the_simulation_takes_what_the_arithmetic_says(
    strategy: Strategy, clean: float, recovered: float, refused: float
) -> None:
    assert first_byte(strategy, "clean", p=SURE) == clean
    assert first_byte(strategy, "partial", p=SURE) == first_byte(strategy, "insufficient", p=SURE) == recovered
    assert first_byte(strategy, "refused", p=SURE) == refused


def test_a_doubtful_set_has_a_wider_one_ready() -> None:
    """r + r + max(g, t), also where the verdict names a gap before the wider set has its own; and where that one does not do, the gap query
    has lost no time."""
    assert first_byte("adaptive", "insufficient", p=0.3) == 40 + 40 + 400
    assert first_byte("adaptive", "partial", p=0.3) == 40 + 40 + 400
    assert first_byte("adaptive", "clean", p=0.3) == 440
    gap_alone = [replace(each, is_widened=False) for each in one("partial", 0.3)]
    (found,) = simulated(STEADY, Policy("adaptive", STEADY.prices.second), gap_alone, RARE)
    assert round(found.first_byte_ms, 3) == 290 + 440
    assert found.path == "recovered"


def test_of_the_failing_questions_the_wider_set_answers_as_many_as_the_profile_says() -> None:
    found = planned(Profile(), 100, extra=40)
    mix, extra = [each for each in found if not each.is_extra], [each for each in found if each.is_extra]
    assert Counter(each.kind for each in extra) == {"partial": 19, "insufficient": 13, "refused": 8}
    for questions, failing in ((mix, 15), (extra, 40)):
        held = [each for each in questions if each.kind in ("partial", "insufficient") and each.is_widened]
        assert len(held) == 0.6 * failing
    gap_alone = next(each for each in found if not each.is_widened)
    script = gap_alone.script(Script.parse(defaults_of(Profile())))
    assert [script.grade(search, 5).verdict for search in (1, 2, script.wider)] == ["partial", "sufficient", "partial"]


def test_adaptive_waits_for_the_verdict_where_a_set_looks_bad() -> None:
    assert first_byte("adaptive", "clean", p=0.01) == first_byte("never", "clean")


def test_a_draft_that_waits_for_a_slow_grader_discards_little_and_loses_nothing() -> None:
    questions = planned(SLOW, 300)
    found = [
        each
        for strategy in STRATEGIES
        for each in simulated(SLOW, Policy(strategy, SLOW.prices.second), questions, RARE)
    ]
    share, kept = discarded_ratio(found), gain_kept(found)
    assert share is not None
    assert 0 < share <= 0.15
    assert kept == pytest.approx(1.0, abs=0.01)


def test_nobody_discards_more_in_a_minute_than_the_bucket_holds() -> None:
    failing = Profile(
        delays=Delays(grade=2_000, first_token=100, sigma=0.5),
        answer=Answer(tokens=200),
        mix=Mix(clean=1, partial=1, insufficient=0, refused=0, auc=0.5),
    )
    spent: list[int] = []
    for limit in (200, 1_000, 1_000_000):
        policy = Policy("adaptive", 100.0, waste_tokens=limit)
        found = simulated(failing, policy, planned(failing, 200), rate=10.0)  # over within a minute
        spent.append(sum(each.discarded_tokens for each in found))
    assert 0 < spent[0] <= 200
    assert spent[0] < spent[1] <= 1_000 < spent[2]


def test_under_load_nobody_speculates_and_under_more_nobody_looks_ahead() -> None:
    questions = planned(STEADY, 200)
    pressed, overrun = (
        simulated(STEADY, Policy("adaptive", 1.0, busy_streams=0, max_streams=most), questions, 1_000.0)
        for most in (1_000, 0)
    )
    waiting = simulated(STEADY, Policy("never", 1.0), questions, 1_000.0)
    for path in ("clean", "failure path"):
        assert sorted(times_of(overrun, path)) == pytest.approx(sorted(times_of(waiting, path)))
    assert sorted(times_of(pressed, "clean")) == pytest.approx(sorted(times_of(waiting, "clean")))
    assert sum(times_of(pressed, "failure path")) < 0.9 * sum(times_of(waiting, "failure path"))
    assert sum(each.discarded_tokens for each in pressed) == 0


def test_the_frontier_costs_more_the_more_a_second_is_worth_and_takes_less() -> None:
    found = frontier(Profile(), Load(answers=150, rate=5.0))
    adaptive = [point for point in found["points"] if point["strategy"] == "adaptive"]
    costs = [point["cost_of_1000"] for point in adaptive]
    times = [point["first_byte_ms"]["clean"]["p50"] for point in adaptive]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]
    assert times == sorted(times, reverse=True)
    assert frontier_shown.picture(found).startswith(b"\x89PNG")
    assert "adaptive @0.4" in frontier_shown.table(found, None)


def test_a_server_is_compared_question_by_question() -> None:
    questions = planned(Profile(), 40)
    late = [
        replace(each, first_byte_ms=each.first_byte_ms + 7)
        for each in simulated(Profile(), Policy("never", 0.05), questions, RARE)
    ]
    (check,) = checked(Profile(), late, RARE).values()
    assert check["beyond_ms"]["min"] == check["beyond_ms"]["max"] == pytest.approx(7)
    assert check["same_path"] == 40
    assert "7.0" in frontier_shown.table(frontier(Profile(), Load(answers=100)), {"never": check})


def test_each_question_is_put_to_every_strategy_before_the_next() -> None:
    turns = Turns()
    turns.add(1, planned(Profile(), 20), STRATEGIES, seed=1)
    rounds = [[turn.strategy for turn in group] for _, group in groupby(turns.turns, lambda turn: turn.planned.number)]
    assert len(rounds) == 20
    assert all(sorted(each) == sorted(STRATEGIES) for each in rounds)
    assert len({each[0] for each in rounds}) > 1


def test_a_failing_question_beyond_the_mix_counts_on_its_own_path_alone() -> None:
    turns, questions = Turns(), planned(Profile(), 20, extra=4)
    turns.add(1, questions, STRATEGIES, seed=1)
    assert len(turns.turns) == Plan(STRATEGIES, 20, runs=1, failing=4).answers == 20 * 5 + 4 * 3
    (extra, *_) = (each for each in questions if each.is_extra)
    mix = measured("never", [100, 100])
    found = [*mix, Asked(1, extra, "never", 900, "refused" if extra.kind == "refused" else "recovered", 50, 1.0)]
    told = figures(found)
    assert {path: times["n"] for path, times in told["first_byte_ms"].items() if path != "recovered"} == {
        "clean": 2,
        "failure path": 1,
        "all": 2,
    } | ({"refused": 1} if extra.kind == "refused" else {})
    assert (told["discarded_tokens"], told["cost_of_1000"]) == (0, 1.0)


def measured(strategy: Strategy, times: Sequence[float], kind: Kind = "clean", discarded: int = 0) -> list[Asked]:
    path = "refused" if kind == "refused" else "clean"
    return [Asked(1, Planned(n, kind, 0.5), strategy, ms, path, discarded, 0.001) for n, ms in enumerate(times)]


def test_figures_count_a_question_where_it_belongs() -> None:
    found = [*measured("plain", [100, 200, 300]), *measured("plain", [900], "partial")]
    told = figures(found)
    assert told["first_byte_ms"]["clean"]["p50"] == 200
    assert told["first_byte_ms"]["recovered"]["p50"] == told["first_byte_ms"]["failure path"]["p50"] == 900
    assert told["unchecked"] == 1  # it was answered from a set that does not hold the answer
    assert told["off_script"] == 0
    assert told["cost_of_1000"] == 1.0
    assert figures([replace(found[0], path="failed")])["off_script"] == 1
    assert times_of(found, "all") == [100, 200, 300, 900]


def whole(factor: float) -> dict[str, object]:
    """The outcome of a made-up measurement."""
    found = [
        *measured("never", [700 * factor] * 3),
        *measured("always", [400 * factor] * 3, discarded=40),
        *measured("adaptive", [430 * factor] * 3, discarded=4),
        *measured("never", [900 * factor], "refused"),
        *measured("adaptive", [600 * factor], "refused"),
    ]
    return outcome(Profile(), Plan(("never", "always", "adaptive"), 4, 1), found)


def test_ratios_say_what_is_kept_and_what_is_missed() -> None:
    found = whole(1.0)
    assert found["ratios"]["clean p50: adaptive / never"] == round(430 / 700, 3)  # type: ignore[index]
    asked = [replace(each, told_discarded=30) for each in measured("adaptive", [400] * 21)]
    lines = {line.what: line for line in shown.ratios({**found, "slow_grader": found, "bucket": bucket(asked, 600)})}
    assert (lines["tokens discarded in a minute, of a bucket"].seen, bucket(asked, 630)["limit"]) == ("630", 630)
    assert lines["tokens discarded in a minute, of a bucket"].is_met is False
    assert lines["gain of always over never that adaptive keeps"].is_met is False
    assert lines["gain of always over never that adaptive keeps"].seen == "90%"
    assert lines["tokens discarded where the grader is slow: adaptive / always"].is_met is True
    assert "clean p50: adaptive / classic" not in lines  # was not measured


def test_a_comparison_shows_then_and_now() -> None:
    old, new = json.loads(json.dumps(whole(1.0))), whole(0.5)
    text = shown.comparison(old, new)
    assert "700, 350 (-50 %)" in text
    assert "another" not in text
    old["machine"]["cores"] = 999
    old["plan"]["runs"] = 999
    assert "another plan" in shown.comparison(old, new)
    assert "another machine" in shown.comparison(old, new)


def test_what_is_shown_is_a_table_and_a_picture() -> None:
    found = whole(1.0)
    assert "failure path" in shown.table(found)
    assert shown.picture(found).startswith(b"\x89PNG")


def test_the_published_loop_rewrites_before_every_retry() -> None:
    assert CLASSIC.keys() == DEFAULT_POLICY.keys()
    assert {strategy.value for row in CLASSIC.values() for strategy in row} == {"rewrite"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["bench", *arguments])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--strategies", "plain,psychic"), "psychic"),
        (("--strategies", ","), "no strategy"),
        (("--from-log", "--profile", "x.toml"), "not both"),
        (("--since", "yesterday"), "length of time"),
        (("--profile", "nowhere.toml"), "nowhere.toml"),
        (("--compare", "nowhere.json"), "nowhere.json"),
    ],
)
def test_what_cannot_be_asked_is_a_usage_error(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in result.output


def test_an_older_bench_of_another_form_is_not_compared_with(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"form": 0}')
    assert run("--compare", str(tmp_path / "old.json")).exit_code == 2


def test_a_simulation_alone_needs_no_server(tmp_path: Path) -> None:
    out, drawn = tmp_path / "s.json", tmp_path / "s.png"
    result = run("--simulate", "--alone", "--answers", "100", "--json", str(out), "--picture", str(drawn))
    assert result.exit_code == 0, result.output
    assert json.loads(out.read_text())["check"] is None
    assert drawn.read_bytes().startswith(b"\x89PNG")
