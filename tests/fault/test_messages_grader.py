"""A grading model that is busy, slow, or says its verdict badly (field reports C3, C4, C7), and the SDK's ways (C8)."""

import inspect
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from anthropic.resources.messages import AsyncMessages

from gateway.bench.messages_api import MessagesApi, messages_api
from gateway.providers.claude.client import open_client
from gateway.providers.claude.grader import AnthropicGrader
from gateway.providers.claude.structured import usage_of
from gateway.providers.script import Script
from grading.faults import GraderUnavailable
from grading.grade import Verdict
from tests.support.graders import passages

pytestmark = pytest.mark.anyio

QUICK = Script(grade_ms=5)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the SDK's


@asynccontextmanager
async def claude(*, read_s: float = 5) -> AsyncIterator[tuple[AnthropicGrader, MessagesApi]]:
    async with messages_api(QUICK) as api:
        client = open_client("a-key", api.base_url, connect_s=5, read_s=read_s)
        try:
            yield AnthropicGrader(client, "claude-scripted"), api
        finally:
            await client.close()


@pytest.mark.parametrize("fault", ["rate_limited", "fail"])
async def test_a_busy_grader_is_unavailable_at_once_and_retry_after_is_not_slept(fault: str) -> None:
    async with claude() as (grader, api):
        with pytest.raises(GraderUnavailable, match="overloaded or limits our rate"), anyio.fail_after(5):
            await grader.grade(f"q [[grader_fault={fault}]] [[wire: retry_after=30]]", passages())
        assert len(api.log) == 1


async def test_a_silent_grader_is_unavailable_after_the_read_limit() -> None:
    async with claude(read_s=0.2) as (grader, _):
        with pytest.raises(GraderUnavailable, match="did not answer in time"), anyio.fail_after(5):
            await grader.grade("q [[grader_fault=stall]]", passages())


async def test_a_conflict_that_the_script_names_comes_with_the_verdict() -> None:
    async with claude() as (grader, _):
        assert (await grader.grade("q [[conflicts=figures]]", passages())).conflicts == "figures"
        assert (await grader.grade("q", passages())).conflicts is None


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("said", ["none", "fenced", "prose", "bom", "backticks", "twice"])
async def test_a_verdict_is_read_however_it_is_wrapped(said: str, verdict: Verdict) -> None:
    async with claude() as (grader, _):
        grade = await grader.grade(f"q [[verdict={verdict} grader_fault={said}]]", passages())
    assert grade.verdict is verdict
    assert (grade.missing is None) == (verdict is Verdict.SUFFICIENT and said != "backticks")


@pytest.mark.parametrize(
    ("said", "why"), [("nonsense", "no verdict"), ("refusal", "refusal"), ("max_tokens", "max_tokens")]
)
async def test_a_grader_without_a_verdict_says_why(said: str, why: str) -> None:
    async with claude() as (grader, _):
        with pytest.raises(GraderUnavailable, match=why):
            await grader.grade(f"q [[grader_fault={said}]]", passages())


async def test_a_grader_with_a_wrong_key_is_unavailable() -> None:
    async with messages_api(QUICK) as api:
        client = open_client("", api.base_url, connect_s=1, read_s=1)
        with pytest.raises(GraderUnavailable):
            await AnthropicGrader(client, "claude-scripted").grade("q", passages())
        await client.close()


def test_the_sdk_is_pinned_below_its_next_major_version() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    (pin,) = [name for name in project["project"]["dependencies"] if name.startswith("anthropic")]
    assert ">=" in pin
    assert ",<" in pin


async def test_the_sdk_takes_its_own_time_outs_and_no_temperature() -> None:
    assert "temperature" not in inspect.signature(AsyncMessages.create).parameters
    client = open_client("a-key", None, connect_s=1.5, read_s=9)
    assert client.timeout == httpx2.Timeout(connect=1.5, pool=1.5, read=9, write=9)
    assert client.max_retries == 0
    await client.close()


async def test_the_sdk_makes_no_spans_of_its_own_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_OPEN_TELEMETRY", "true")
    client = open_client("a-key", None, connect_s=1, read_s=1)
    traced = client.open_telemetry
    assert traced["traces"]["enabled"] is False
    assert traced["propagation"] is False
    await client.close()


async def test_a_grade_says_what_tokens_it_took() -> None:
    async with claude() as (grader, _):
        grade = await grader.grade("q [[verdict=partial]]", passages())
    assert grade.input_tokens is not None
    assert grade.output_tokens is not None
    assert grade.input_tokens > grade.output_tokens > 0


@pytest.mark.parametrize("said", [{}, {"usage": None}, {"usage": "many"}, {"usage": {"input_tokens": "x"}}])
def test_tokens_that_nobody_counts_cost_no_grade(said: dict[str, object]) -> None:
    assert usage_of(said) is None
