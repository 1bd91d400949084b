"""Faults of the model's service, provoked on the wire behind a whole gateway: what a client is told, what is asked again, what is left."""

import json
import os
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.bench.messages_api import MessagesApi, messages_api
from gateway.house import House
from gateway.providers.script import Script
from gateway.providers.scripted import ScriptedGrader
from gateway.settings import read_settings
from gateway.upstreams.breaker import CONFIG
from gateway.wiring import wired
from tests.support.clients import Told, ask, client
from tests.support.gateway_app import Running, eventually, running, with_parts

pytestmark = pytest.mark.anyio

SILENCE_S = 0.5
HELD = "grade_ms=300 ttft_ms=5 tps=2000 tokens=20"  # whatever happens to the draft happens before its verdict
SENT = "grade_ms=1 ttft_ms=100 tps=200 tokens=20"  # and after it


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the SDK's


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    for name in list(os.environ):
        if name.startswith(("GATEWAY_", "ANTHROPIC_", "OTEL_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(str(tmp_path))


@asynccontextmanager
async def gateway(base_url: str, *, grades_itself: bool = False, **more: object) -> AsyncIterator[Running]:
    """A gateway whose models are at `base_url`; its searches are scripted, with `grades_itself` its grades too."""
    settings = read_settings(
        anthropic_api_key="a-key",
        anthropic_base_url=base_url,
        retriever="scripted",
        graders=("model",),
        speculate="always",
        read_s=SILENCE_S,
        grade_timeout_s=2.0,
        deadline_s=20.0,
        **more,
    )
    async with wired(settings) as built:
        house: House = built.house
        if grades_itself:
            house = with_parts(house, grader=ScriptedGrader(Script(grade_ms=5)))
        async with running(house) as server:
            yield server
            await eventually(lambda: house.open_answers.count == 0 and house.admission.open == 0)


def calls(api: MessagesApi, kind: str = "generator", model: str | None = None) -> int:
    return sum(each.kind == kind and model in (None, each.model) for each in api.log)


def checked(told: Told) -> Told:
    """One beginning, one end, nothing after it."""
    assert told.status == 200
    assert told.names[0] == "started"
    assert told.names.count("started") == told.names.count("done") == 1
    assert told.names[-1] == "done"
    assert told.names.count("failed") + told.names.count("refusal") <= 1
    return told


@dataclass(frozen=True, slots=True)
class Case:
    """`faults` per draft; how it ends; how often the generator is asked; the draft whose text was sent, and how many tokens of it."""

    script: str
    ends: str
    asked: int
    draft: int = 0
    tokens: int | None = None


CASES = {
    "429, again when it says": Case(f"{HELD} fault=rate_limited,none]] [[wire: retry_after=1", "clean", 2, 2),
    "429, too late for the deadline": Case(
        f"{HELD} fault=rate_limited]] [[wire: retry_after=300", "generator_overloaded", 1
    ),
    "429 twice": Case(f"{HELD} fault=rate_limited", "generator_overloaded", 2),
    "500": Case(f"{HELD} fault=server_error,none", "clean", 2, 2),
    "500 twice": Case(f"{HELD} fault=server_error", "generator_unavailable", 2),
    "529": Case(f"{HELD} fault=overloaded,none", "clean", 2, 2),
    "401": Case(f"{HELD} fault=unauthorized,none", "generator_misconfigured", 1),
    "overloaded inside a 200, first": Case(f"{HELD} fault=overloaded@0,none", "clean", 2, 2),
    "overloaded inside a 200, held": Case(f"{HELD} fault=overloaded@10,none", "clean", 2, 2),
    "overloaded inside a 200, sent": Case(f"{SENT} fault=overloaded@10,none", "generator_overloaded", 1, 1, 10),
    "stall before the first token": Case(f"{HELD} fault=stall,none", "clean", 2, 2),
    "stall between tokens, sent": Case(f"{SENT} fault=stall@5,none", "generator_unavailable", 1, 1, 5),
    "body ends early, held": Case(f"{HELD} fault=ends@5,none", "clean", 2, 2),
    "body ends early, sent": Case(f"{SENT} fault=ends@5,none", "answer_incomplete", 1, 1, 5),
    "connection breaks, held": Case(f"{HELD} fault=cut@5,none", "clean", 2, 2),
    "connection breaks, sent": Case(f"{SENT} fault=cut@5,none", "answer_incomplete", 1, 1, 5),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_fault_of_the_model_is_time_before_release_and_one_fault_after_it(name: str) -> None:
    case = CASES[name]
    question = f"What? [[{case.script}]]"
    async with messages_api(Script()) as api, gateway(api.base_url) as server:
        told = checked(await ask(server.base_url, question))
        done = told.one("done")
        if case.ends == "clean":
            assert done["path"] == "clean"
        else:
            assert (done["path"], done["finish_reason"]) == ("failed", "error")
            assert told.one("failed")["type"] == case.ends
        assert calls(api) == case.asked
        assert calls(api, "grader") == 1
        words = Script.parse(question).words(1, case.draft) if case.draft else ()
        assert told.text == "".join(words[: case.tokens])
        assert told.names.count("sources") == (1 if case.draft else 0)
        await api.wait_until(lambda log: not any(each.is_open for each in log))


@pytest.mark.parametrize(
    ("fault", "asked"),
    [
        ("fail", 2),
        ("rate_limited]] [[wire: retry_after=30", 1),
        ("nonsense", 1),
        ("refusal", 1),
        ("stall", 2),
    ],
)
async def test_a_grader_that_gives_no_verdict_is_an_honest_refusal_that_releases_nothing(
    fault: str, asked: int
) -> None:
    question = f"What? [[ttft_ms=5 tps=2000 tokens=20 grade_ms=20 grader_fault={fault}]]"
    async with messages_api(Script()) as api, gateway(api.base_url) as server:
        told = checked(await ask(server.base_url, question))
        assert told.one("refusal")["reason"] == "grader_unavailable"
        assert (told.text, told.data("sources")) == ("", [])
        assert calls(api, "grader") == asked
        await api.wait_until(lambda log: not any(each.is_open for each in log))


@pytest.mark.parametrize("address", ["http://127.0.0.1:{closed}", "http://no-such-host.invalid"])
async def test_a_service_that_is_nowhere_is_a_fault_that_may_pass(address: str) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        closed = listener.getsockname()[1]
    base_url = address.format(closed=closed)
    async with gateway(base_url, grades_itself=True) as server:
        told = checked(await ask(server.base_url, "What?"))
        failed = told.one("failed")
        assert (failed["type"], failed["retryable"]) == ("generator_unavailable", True)
        assert "invalid" not in json.dumps(failed)
        assert str(closed) not in json.dumps(failed)
    async with gateway(base_url) as server:
        assert checked(await ask(server.base_url, "What?")).one("refusal")["reason"] == "grader_unavailable"


async def test_the_models_that_stand_in_are_asked_over_the_wire() -> None:
    stand_in: dict[str, Any] = {"fallback_generator_model": "claude-second", "fallback_grader_model": "claude-other"}
    question = f"What? [[{HELD} fault=server_error,none]]"
    async with messages_api(Script()) as api, gateway(api.base_url, **stand_in) as server:
        told = checked(await ask(server.base_url, question))
        assert told.one("done")["path"] == "clean"
        assert told.one("done")["usage"]["fallback_tokens"] == 20
        assert (calls(api), calls(api, model="claude-second"), calls(api, "grader")) == (2, 1, 1)
        refused = checked(await ask(server.base_url, "What? [[grade_ms=5 grader_fault=fail]]"))
        assert refused.one("refusal")["reason"] == "grader_unavailable"
        assert (calls(api, "grader"), calls(api, "grader", "claude-other")) == (3, 1)


async def test_a_model_that_is_left_alone_is_seen_costs_nothing_and_takes_nobody_out_of_service() -> None:
    async with messages_api(Script()) as api, gateway(api.base_url) as server, client(server.base_url) as http:
        generator = next(
            name for name in (await http.get("/readyz")).json()["upstreams"] if name.startswith("generator")
        )
        while calls(api) < CONFIG.minimum_number_of_calls:
            await ask(server.base_url, f"What? [[{HELD} fault=server_error]]")
        seen = await http.get("/readyz")
        assert (seen.status_code, seen.json()["upstreams"][generator]) == (200, "open")
        assert (await http.get("/healthz")).status_code == 200
        before = calls(api)
        told = checked(await ask(server.base_url, f"What? [[{HELD}]]"))
        assert told.one("failed")["type"] == "generator_unavailable"
        refused = checked(await ask(server.base_url, "What? [[verdict=insufficient grade_ms=5]]"))
        assert refused.one("refusal")["reason"] == "insufficient_evidence"  # needs no generator
        assert calls(api) == before
        samples = samples_of((await http.get("/metrics")).text, "gateway_upstream")
        assert samples["gateway_upstreams", "generator", "open"] == 1
        assert samples["gateway_upstreams", "generator", "closed"] == 0
        assert samples["gateway_upstreams", "grader", "closed"] == 1
        assert samples["gateway_upstream_openings_total", "generator", None] == 1


def samples_of(text: str, prefix: str) -> dict[tuple[str, str, str | None], float]:
    """The samples whose names begin so, by name, upstream and state."""
    found = {}
    for line in text.splitlines():
        if line.startswith(prefix):
            name, _, rest = line.partition("{")
            labels, _, value = rest.partition("} ")
            read = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            found[name, read["upstream"], read.get("state")] = float(value.split()[0])
    return found
