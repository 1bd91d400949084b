"""A crowd of clients of one server: many questions, so many at once."""

from collections.abc import Sequence

import anyio

from gateway.bench.load import Reply, ask


def port_of(base_url: str) -> int:
    return int(base_url.rpartition(":")[2])


async def load(port: int, questions: Sequence[str], streams: int, spread_s: float = 0.0) -> list[Reply]:
    """Asks them all, so many at once; the first of each client `spread_s / streams` after the last one's."""
    waiting, replies = iter(questions), list[Reply]()

    async def client(number: int) -> None:
        await anyio.sleep(number * spread_s / streams)
        for question in waiting:
            replies.append(await ask(port, question, {}))

    async with anyio.create_task_group() as tasks:
        for number in range(streams):
            tasks.start_soon(client, number)
    return replies
