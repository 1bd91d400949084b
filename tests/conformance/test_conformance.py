"""The black-box suite: it acquits this gateway on each of its routes, and convicts two servers that are wrong, each of what it does."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from gateway.settings import read_settings
from gateway.wiring import wired
from tests.conformance.__main__ import MAPPINGS
from tests.conformance.foreign import serving
from tests.conformance.judge import Wrong
from tests.conformance.mapping import Mapping, MappingInvalid, read_mapping
from tests.conformance.run import Report, run, shown
from tests.conformance.sse import events_of
from tests.conformance.upstream import upstream
from tests.conformance.visit import Patience
from tests.support.gateway_app import running

pytestmark = pytest.mark.anyio

OURS = ("native", "chat-completions", "ai-sdk")
PATIENCE = Patience(act_s=3.0, whole_s=30.0)  # what a busy test machine gets; a person's run asks for 1 s


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def mapping(name: str) -> Mapping:
    return read_mapping(MAPPINGS / f"{name}.toml")


@asynccontextmanager
async def our_gateway(folder: Path, models_url: str) -> AsyncIterator[str]:
    settings = read_settings(
        home=folder,
        provider="anthropic",
        retriever="scripted",
        graders=("model",),
        anthropic_api_key="any",
        anthropic_base_url=models_url,
        export_traces=False,
        export_metrics=False,
        speculate="always",
    )
    async with wired(settings) as built, running(built.house) as server:
        yield server.base_url


@pytest.mark.parametrize("name", OURS)
async def test_our_gateway_is_acquitted_and_had_every_occasion_to_be_wrong(name: str, tmp_path: Path) -> None:
    ours = mapping(name)
    async with upstream(ours.grader) as api, our_gateway(tmp_path, api.base_url) as url:
        report = await run(url, ours, api.log, patience=PATIENCE)
    assert not report.is_convicted, shown(report)
    assert all(report.occasions[wrong] for wrong in Wrong), shown(report)
    assert not report.unknown


async def convicted(kind: str, patience: Patience) -> Report:
    foreign = mapping("foreign")
    async with upstream(foreign.grader) as api, serving(kind, api.base_url) as url:
        return await run(url, foreign, api.log, patience=patience)


async def test_server_that_leaks_is_convicted_of_that_and_of_bodies_that_just_end() -> None:
    report = await convicted("leaking", PATIENCE)
    assert {finding.wrong for finding in report.findings} == {Wrong.LEAKED, Wrong.UNENDED, Wrong.ALTERED}, shown(report)
    assert {finding.case for finding in report.of(Wrong.LEAKED)} >= {"clean", "one attempt discarded"}
    assert {finding.case for finding in report.of(Wrong.UNENDED)} >= {"model breaks off", "model overloaded"}
    assert {finding.case for finding in report.of(Wrong.ALTERED)} >= {"one attempt discarded"}


async def test_server_that_cancels_nothing_is_convicted_of_that_alone() -> None:
    report = await convicted("lingering", Patience(act_s=1.5))
    assert {finding.wrong for finding in report.findings} == {Wrong.UNCUT, Wrong.WAITED, Wrong.OUTLIVED}, shown(report)
    assert len({finding.number for finding in report.of(Wrong.OUTLIVED)}) == 2


def test_events_are_read_as_the_standard_says_however_they_are_cut() -> None:
    body = b": note\r\nevent: a\r\ndata: 1\r\ndata: 2\r\n\r\ndata:x\n\nevent: none\n\nid: 4\ndata: y\rdata: z\r\rdata: lost\n"
    for size in range(1, len(body) + 1):
        pieces = [(float(at), body[at : at + size]) for at in range(0, len(body), size)]
        assert [(each.name, each.data) for each in events_of(pieces)] == [
            ("a", "1\n2"),
            ("message", "x"),
            ("message", "y\nz"),
        ]


def test_mapping_that_lacks_something_is_refused_by_name(tmp_path: Path) -> None:
    text = (MAPPINGS / "native.toml").read_text()
    for broken in (
        "path = 1 2",
        text.replace("terminal", "ends"),
        text.replace("{question}", ""),
        text.replace(', field = "text"', ""),
    ):
        (tmp_path / "m.toml").write_text(broken)
        with pytest.raises(MappingInvalid, match=r"m\.toml"):
            read_mapping(tmp_path / "m.toml")


async def test_command_says_how_it_is_used_and_gives_its_verdict_as_exit_code(tmp_path: Path) -> None:
    told = await anyio.run_process([sys.executable, "-m", "tests.conformance", "--help"])
    for word in (b"ANTHROPIC_BASE_URL", b"--mapping", b"native.toml"):
        assert word in told.stdout
    refused = await anyio.run_process(
        [sys.executable, "-m", "tests.conformance", "http://127.0.0.1:1", "--mapping", str(tmp_path)], check=False
    )
    assert refused.returncode == 2
