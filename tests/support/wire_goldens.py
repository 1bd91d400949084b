"""What each wire format says of each scenario, as it is kept in tests/unit/wire/. `python -m tests.support.wire_goldens` writes it anew."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from streaming.wire import native, openai
from streaming.wire.aisdk import AiSdk
from streaming.wire.format import Json, Wire
from streaming.wire.native import Native
from streaming.wire.openai import Heading, OpenAI
from streaming.wire.told import Told
from tests.support.scenarios import ANSWER_ID, SCENARIOS, TRACE_ID, Batches

FOLDER = Path(__file__).resolve().parents[1] / "unit" / "wire"
HEADING = Heading(ANSWER_ID, "gateway", 1_795_000_000)


def streamed(wire: Wire, batches: Batches) -> str:
    """The whole stream."""
    return b"".join(map(wire.chunk, batches)).decode("ascii")


def whole(body: Callable[[Told], Json], batches: Batches) -> str:
    """The one body, for people."""
    told = Told()
    for batch in batches:
        for event in batch:
            told.take(event)
    return json.dumps(body(told), indent=1) + "\n\n"


SAYS: Mapping[str, Callable[[Batches], str]] = {
    "native": lambda batches: streamed(Native(ANSWER_ID), batches),
    "native whole": lambda batches: whole(lambda told: native.whole(told, ANSWER_ID, TRACE_ID), batches),
    "openai": lambda batches: streamed(OpenAI(HEADING), batches),
    "openai with usage": lambda batches: streamed(OpenAI(HEADING, with_usage=True), batches),
    "openai whole": lambda batches: whole(lambda told: openai.whole(told, HEADING), batches),
    "aisdk": lambda batches: streamed(AiSdk(), batches),
}


def file_of(name: str) -> Path:
    return FOLDER / f"{name.replace(' ', '_')}.txt"


def golden(name: str) -> str:
    """Every scenario in one text, each below its name."""
    return "".join(f"==== {scenario}\n\n{SAYS[name](batches)}" for scenario, batches in SCENARIOS.items())


if __name__ == "__main__":
    for each in SAYS:
        file_of(each).write_text(golden(each))
