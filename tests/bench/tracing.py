"""`make bench-tracing`: what full tracing costs the first answer byte and the throughput, and what a collector that fails changes.

Four gateways answer the same script in turn, question by question and burst by burst, so that whatever else the machine does meets
all of them: without export, with a collector, with one that nobody runs any more, with one that never answers.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import anyio
import psutil

from gateway.bench.figures import Json, Line, machine, report, spread
from tests.support.clients import client
from tests.support.gateway_process import GatewayProcess, gateway_process
from tests.support.jaeger_stack import free_port

SCRIPT = "[[retrieve_ms=5 grade_ms=30 ttft_ms=20 tps=1000 tokens=60]]"
QUESTIONS, ROUNDS, BURST, AT_ONCE, WARM_UP = 200, 8, 100, 16, 30
OFF, ON = "no export", "collected"
FIRST_BYTE_REACH_MS, THROUGHPUT_REACH = 1.0, 0.05

COLLECTOR = """
import sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
silent = sys.argv[2] == "silent"
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        if silent:
            threading.Event().wait(600)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *args):
        pass
server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
server.daemon_threads = True
print("ready", flush=True)
server.serve_forever()
"""


@dataclass(slots=True)
class Side:
    """One gateway and what it was measured to do."""

    name: str
    process: GatewayProcess
    first_byte_ms: list[float] = field(default_factory=list)
    answers_a_second: list[float] = field(default_factory=list)
    processor_ms: list[float] = field(default_factory=list)

    async def ask(self, http: Any) -> float:
        """Seconds until the first answer byte; the stream is read to its end."""
        began = time.perf_counter()
        first = 0.0
        async with http.stream("POST", "/v1/answers", json={"question": "Is it?"}) as response:
            async for chunk in response.aiter_bytes():
                if not first and b"event: token" in chunk:
                    first = time.perf_counter() - began
        assert first
        return first

    async def burst(self) -> None:
        """BURST answers, AT_ONCE at a time."""
        used = psutil.Process(self.process.process.pid).cpu_times()
        began = time.perf_counter()
        limiter = anyio.CapacityLimiter(AT_ONCE)
        async with client(self.process.base_url) as http, anyio.create_task_group() as tasks:

            async def one() -> None:
                async with limiter:
                    await self.ask(http)

            for _ in range(BURST):
                tasks.start_soon(one)
        took_s = time.perf_counter() - began
        now = psutil.Process(self.process.process.pid).cpu_times()
        self.answers_a_second.append(BURST / took_s)
        self.processor_ms.append((now.user + now.system - used.user - used.system) * 1000 / BURST)


async def measure(sides: list[Side]) -> None:
    """All of it, the sides in turn, each round beginning with another one."""
    async with AsyncExitStack() as stack:
        clients = {side.name: await stack.enter_async_context(client(side.process.base_url)) for side in sides}
        for number in range(WARM_UP + QUESTIONS):
            for side in rotated(sides, number):
                first_s = await side.ask(clients[side.name])
                if number >= WARM_UP:
                    side.first_byte_ms.append(first_s * 1000)
    for number in range(ROUNDS):
        for side in rotated(sides, number):
            await side.burst()


def rotated(sides: list[Side], by: int) -> list[Side]:
    place = by % len(sides)
    return sides[place:] + sides[:place]


@contextmanager
def collector(kind: str) -> Iterator[str]:
    """The address of a collector, in a process of its own."""
    port = free_port()
    with subprocess.Popen([sys.executable, "-c", COLLECTOR, str(port), kind], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


@asynccontextmanager
async def four() -> AsyncIterator[list[Side]]:
    """The gateways, running inside the block."""
    async with AsyncExitStack() as stack:
        settings: Mapping[str, Mapping[str, str]] = {
            OFF: {},
            ON: exporting(stack.enter_context(collector("well"))),
            "nobody there": exporting(f"http://127.0.0.1:{free_port()}"),
            "never answers": exporting(stack.enter_context(collector("silent"))),
        }
        sides = []
        for name, environment in settings.items():
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gateway-bench-")))
            process = await stack.enter_async_context(gateway_process(home, GATEWAY_SCRIPT=SCRIPT, **environment))
            sides.append(Side(name, process))
        yield sides


def exporting(endpoint: str) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}


def figures(sides: list[Side]) -> tuple[list[Line], Json]:
    """The table and the JSON."""
    off = sides[0]
    lines = []
    for side in sides[1:]:
        pairs = [mine - other for mine, other in zip(side.first_byte_ms, off.first_byte_ms, strict=True)]
        later_ms = median(pairs)
        slower = 1 - median(
            mine / other for mine, other in zip(side.answers_a_second, off.answers_a_second, strict=True)
        )
        dearer = median(side.processor_ms) - median(off.processor_ms)
        lines += [
            Line(
                f"first answer byte, {side.name}: later than without export, p50 of pairs",
                f"{later_ms:+.3f} ms",
                f"{FIRST_BYTE_REACH_MS:g} ms at most",
                later_ms <= FIRST_BYTE_REACH_MS,
            ),
            Line(
                f"throughput, {side.name}: lost, median of rounds",
                f"{slower:+.1%}",
                f"{THROUGHPUT_REACH:.0%} at most",
                slower <= THROUGHPUT_REACH,
            ),
            Line(
                f"processor time of an answer, {side.name}: more", f"{dearer:+.3f} ms of {median(off.processor_ms):.2f}"
            ),
        ]
    told = {
        side.name: {
            "first_byte_ms": spread(side.first_byte_ms),
            "answers_a_second": spread(side.answers_a_second),
            "processor_ms": spread(side.processor_ms),
        }
        for side in sides
    }
    return lines, told


async def run(keep: Path | None) -> int:
    async with four() as sides:
        await measure(sides)
        lines, told = figures(sides)
    return report(
        "Tracing", lines, {"machine": machine(), "sides": told, "lines": [asdict(line) for line in lines]}, keep
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="keep the figures in this file")
    given = parser.parse_args()
    raise SystemExit(anyio.run(run, given.json, backend_options={"use_uvloop": True}))


if __name__ == "__main__":
    main()
