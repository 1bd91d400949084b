"""Every route is asked, by schemathesis, what /openapi.json allows and what it forbids: no 5xx, and each answer is as described."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from gateway.gaps import PostgresGaps
from gateway.uploads.documents import StoredDocuments
from gateway.uploads.passages import StoredPassages
from retrieval.pool import open_pool
from retrieval.store import PassageStore
from tests.support.embedders import HashingEmbedder
from tests.support.gateway_app import Running, running, scripted_house
from tests.support.postgres import emptied

pytestmark = pytest.mark.anyio

# Left out: that what fits the schema is taken. A blank question and a text of hidden characters fit it, and are refused.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
)
CONFIGURATION = """\
[checks.negative_data_rejection]
expected-statuses = [400, 404, 405, 406, 408, 409, 413, 415, 422]
"""
LEAST_CASES = 60  # of all routes together: that it asked at all


@pytest.fixture
async def server(database_url: str) -> AsyncIterator[Running]:
    async with open_pool(emptied(database_url), size=4) as pool:
        embedder, store = HashingEmbedder(), PassageStore(pool)
        house = replace(
            scripted_house(),
            documents=StoredDocuments(store, embedder),
            passages=StoredPassages(store),
            gaps=PostgresGaps(pool, embedder),
        )
        async with running(house) as server:
            yield server


@pytest.mark.timeout(120)
async def test_no_request_that_the_document_allows_or_forbids_breaks_a_route(server: Running, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("schemathesis")
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)
    command = [str(program), "run", f"{server.base_url}/openapi.json", "--checks", ",".join(CHECKS), "--seed", "7"]
    bounds = [
        "--phases",
        "fuzzing",
        "--max-examples",
        "12",
        "--max-failures",
        "5",
        "--request-timeout",
        "30",
        "--no-color",
    ]
    told = await anyio.run_process([*command, *bounds], check=False, cwd=tmp_path, stderr=subprocess.STDOUT)
    said = told.stdout.decode()
    assert told.returncode == 0, said
    (cases,) = re.findall(r"(\d+) generated", said)
    assert int(cases) >= LEAST_CASES, said
