"""The bench against its own processes: a scripted model's service and a gateway, as `gateway bench` runs them."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from gateway import decision_log
from gateway.bench.logged import logged_profile
from gateway.bench.outcome import outcome
from gateway.bench.profile import Answer, Delays, Mix, Profile, ProfileUnreadable
from gateway.bench.run import Asked, Plan, Turns, asked, play
from gateway.bench.stage import StageBroken, running, staged
from gateway.bench.strategies import STRATEGIES
from gateway.bench.workload import FAILING, defaults_of, planned
from gateway.cli import cli
from gateway.decision_log import open_decision_log
from retrieval.pool import open_pool
from tests.support.clients import ask
from tests.support.gateway_app import eventually, scripted_house
from tests.support.gateway_app import running as serving
from tests.support.postgres import emptied

pytestmark = pytest.mark.anyio
QUICK = Profile(
    delays=Delays(retrieve=1, grade=3, first_token=5, rewrite=2, sigma=0.0),
    answer=Answer(tokens=4, tokens_per_s=2_000, passage_words=5),
    mix=Mix(clean=1, partial=1, insufficient=1, refused=1),
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


async def test_every_strategy_answers_its_own_way_and_nothing_stays(tmp_path: Path) -> None:
    before = children()
    turns = Turns()
    turns.add(1, planned(QUICK, 8), STRATEGIES, seed=1)
    async with staged(tmp_path, defaults_of(QUICK)) as stage:
        assert len(children() - before) == 2
        await play(stage, turns.turns, concurrency=4)
        upstream = stage.upstream()
    assert children() == before
    found = [asked(turn, upstream, QUICK) for turn in turns.turns]
    paths = {strategy: Counter(one.path for one in found if one.strategy == strategy) for strategy in STRATEGIES}
    assert paths.pop("plain") == {"clean": 8}
    assert all(each == {"clean": 2, "recovered": 4, "refused": 2} for each in paths.values()), paths
    for turn in turns.turns:
        calls = Counter(exchange.kind for exchange in upstream.of(turn.question))
        is_failing = turn.planned.kind in FAILING
        grades = 0 if turn.strategy == "plain" else 1 + is_failing
        ahead = calls["grader"] - grades  # of a wider set that was prepared, and not needed
        assert ahead == 0 or (turn.strategy == "adaptive" and ahead == 1), turn
        assert calls["rewriter"] == (turn.strategy == "classic" and is_failing), turn
        if turn.strategy in ("plain", "classic", "never"):
            assert calls["generator"] == (turn.strategy == "plain" or turn.planned.kind != "refused"), turn
    assert all(one.cost > 0 and one.first_byte_ms > 0 and one.discarded_tokens >= 0 for one in found)
    assert not any(one.discarded_tokens for one in found if one.strategy in ("plain", "classic", "never"))
    cheapest = min(STRATEGIES, key=lambda name: sum(one.cost for one in found if one.strategy == name))
    assert cheapest == "plain"


async def test_a_process_that_does_not_serve_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StageBroken, match=r"gateway\.bench\.server ended"):
        async with running(["gateway.bench.server"], tmp_path, {"GATEWAY_NO_SUCH_SETTING": "1", "GATEWAY_PORT": "x"}):
            pass
    assert "GATEWAY_PORT" in capfd.readouterr().err


async def test_a_profile_is_read_from_the_decision_log(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "PAUSE_S", 0.0)
    quick = "retrieve_ms=1 grade_ms=4 ttft_ms=2 tokens=2"
    questions = [f"Is it? [[{quick}]]"] * 20 + [f"Is it? [[{quick} verdict=partial,sufficient]]"] * 2
    async with open_pool(emptied(database_url), size=2) as pool:
        with pytest.raises(ProfileUnreadable, match="0 attempts"):
            await logged_profile(pool, 3600.0)
        async with (
            open_decision_log(pool, 1_000) as log,
            serving(replace(scripted_house(), decisions=log)) as server,
        ):
            for question in questions:
                await ask(server.base_url, question)
            await eventually(lambda: not server.house.telemetry.metrics.open_answers)
        profile = await logged_profile(pool, 3600.0)
    assert profile.mix == Mix(clean=20, partial=2, insufficient=0, refused=0)
    assert len(profile.samples) >= 20
    assert all(each.grade >= 4 for each in profile.samples)


def test_the_command_measures_writes_draws_and_compares(tmp_path: Path) -> None:
    (tmp_path / "quick.toml").write_text(
        "[delays]\nretrieve = 1\ngrade = 3\nfirst_token = 5\nrewrite = 2\n[answer]\ntokens = 4\ntokens_per_s = 2000\n"
    )
    old, out, drawn = tmp_path / "old.json", tmp_path / "new.json", tmp_path / "new.png"
    made_up = [Asked(1, planned(QUICK, 1)[0], "never", 10_000.0, "clean", 0, 1.0)]
    old.write_text(json.dumps(outcome(QUICK, Plan(("never",)), made_up)))
    options = [
        "--profile",
        str(tmp_path / "quick.toml"),
        "--questions",
        "4",
        "--failing",
        "1",
        "--runs",
        "1",
        "--concurrency",
        "2",
    ]
    files = ["--json", str(out), "--picture", str(drawn), "--compare", str(old)]
    result = CliRunner().invoke(cli, ["bench", *options, "--strategies", "never,adaptive", *files])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(out.read_text())
    assert set(found["strategies"]) == {"never", "adaptive"}
    assert all(each["off_script"] == 0 for each in found["strategies"].values())
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert "10000, " in result.output
    assert "another profile" in result.output
    assert found["strategies"]["never"]["first_byte_ms"]["failure path"]["n"] >= 1
