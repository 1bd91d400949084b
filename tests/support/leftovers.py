"""What is left of requests in a server: nothing may be."""

import anyio

from tests.support.gateway_app import Running, Spans, eventually

GONE_S = 15.0  # the contract says 200 ms (measured by the bench); 5 s were too few for 200 clients at a load of 20 on two cores


def answer_tasks() -> list[str]:
    """The names of tasks that belong to an answer."""
    names = [task.name or "" for task in anyio.get_running_tasks()]
    return [name for name in names if name.startswith(("answer ", "draft ", "grade "))]


def leftovers(server: Running, spans: Spans) -> dict[str, object]:
    """All that may be left of a request, and should not be."""
    generator = server.house.parts.generator
    found = {
        "slots": server.house.open_answers.count,
        "spans": list(spans.open.values()),
        "tasks": answer_tasks(),
        "connections": len(server.server.server_state.connections),
        "server tasks": len(server.server.server_state.tasks),
        "drafts": getattr(generator, "open_drafts", 0),
    }
    return {name: what for name, what in found.items() if what}


async def assert_nothing_is_left(server: Running, spans: Spans) -> None:
    await eventually(lambda: not leftovers(server, spans), GONE_S)
    assert leftovers(server, spans) == {}


def is_parked(server: Running) -> bool:
    """Whether the server's only connection waits for its client to read."""
    (connection,) = server.server.server_state.connections
    return bool(connection.flow.write_paused)  # type: ignore[union-attr]
