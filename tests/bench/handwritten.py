"""The loop that one would write by hand: search, grade, answer, one after the other, on Starlette, sse-starlette and the SDK's helpers.

    python -m tests.bench.handwritten    # prints the address it serves at, as the gateway does

It does the gateway's work of a clean answer (the same search, prompts, schema, passages and native events) and nothing else: it holds
nothing back, watches nobody leave and keeps no trace. tests/bench/overhead.py compares the two.
"""

import json
import os
import time
from collections.abc import AsyncIterator

import anyio
import uvicorn
from anthropic import AsyncAnthropic
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from gateway.providers.claude.request import messages
from gateway.providers.script import Script
from gateway.providers.scripted import ScriptedRetriever
from gateway.server import listen
from grading.parse import parse_grade
from grading.prompts import GENERATOR_SYSTEM, GRADE_SCHEMA, GRADER_SYSTEM, grader_message
from retrieval.passage import Passage
from retrieval.ports import Query
from streaming.ports import Prompt

MODEL = "claude-hand-written"
PASSAGES = 5
LIMIT_TOKENS = 1_024


def application(client: AsyncAnthropic) -> Starlette:
    """One route, `/v1/answers`."""
    retriever = ScriptedRetriever(Script())

    async def grade(question: str, passages: tuple[Passage, ...]) -> bool:
        said = await client.messages.create(
            model=MODEL,
            max_tokens=512,
            system=GRADER_SYSTEM,
            messages=[{"role": "user", "content": grader_message(question, passages)}],
            extra_body={"output_config": {"format": {"type": "json_schema", "schema": GRADE_SCHEMA}}},
        )
        text = "".join(block.text for block in said.content if block.type == "text")
        return parse_grade(text, MODEL).is_sufficient

    async def answer(question: str) -> AsyncIterator[ServerSentEvent]:
        began_s = time.perf_counter()
        yield event("started", {"question": question})
        passages = await retriever.retrieve(Query(question, k=PASSAGES))
        retrieval_ms = (time.perf_counter() - began_s) * 1000
        if not await grade(question, passages):
            yield event("refusal", {"reason": "insufficient_evidence"})
            yield event("done", {"path": "refused"})
            return
        yield event("sources", {"passages": [{"id": each.id, "title": each.title} for each in passages]})
        prompt = Prompt(question=question, passages=tuple(enumerate(passages, 1)), max_tokens=LIMIT_TOKENS)
        async with client.messages.stream(
            model=MODEL, max_tokens=LIMIT_TOKENS, system=GENERATOR_SYSTEM, messages=messages(prompt)
        ) as stream:
            async for each in stream:
                if each.type == "text":
                    yield event("token", {"text": each.text})
                elif each.type == "citation":
                    yield event("citation", {"title": getattr(each.citation, "title", None)})
        yield event("done", {"path": "clean", "timings_ms": {"retrieval": retrieval_ms}})

    async def answers(request: Request) -> EventSourceResponse:
        return EventSourceResponse(answer((await request.json())["question"]), sep="\n")

    return Starlette(routes=[Route("/v1/answers", answers, methods=["POST"])])


def event(name: str, data: dict[str, object]) -> ServerSentEvent:
    return ServerSentEvent(event=name, data=json.dumps(data), sep="\n")


async def serve() -> None:
    """Serves until SIGTERM."""
    listener = listen("127.0.0.1", 0)
    async with AsyncAnthropic(max_retries=0) as client:
        config = uvicorn.Config(application(client), http="httptools", ws="none", lifespan="off", log_level="error")
        listener.listen(128)  # from here on nobody is turned away
        print(f"Serving on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    os.environ.setdefault("ANTHROPIC_API_KEY", "bench")
    anyio.run(serve, backend_options={"use_uvloop": True})
