"""The gateway of a bench as a process: one house, served in each strategy on a port of its own.

    python -m gateway.bench.server

prints a JSON object of ports by strategy on its first line, and serves until SIGTERM or SIGINT.
"""

import json
import signal
import sys
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial

import anyio

from gateway.app import application
from gateway.bench.strategies import STRATEGIES, Strategy, house_for, told_odds
from gateway.house import House
from gateway.serve import keep_what_is_loaded
from gateway.server import Server, listen
from gateway.settings import Settings, read_settings
from gateway.wiring import wired

GRACE_S = 0.0
HOST = "127.0.0.1"


async def serve(settings: Settings) -> None:
    """Serves as the module says. Raises as `wired`."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with wired(settings) as built:
            house = replace(built.house, speculation=replace(built.house.speculation, odds=told_odds))
            with ExitStack() as listeners:
                async with anyio.create_task_group() as tasks:
                    keep_what_is_loaded()
                    running = Running(house, listeners)
                    for server, listener in running.servers:
                        tasks.start_soon(server.run_until_stopped, listener)
                    await running.started.wait()
                    print(json.dumps(running.ports), flush=True)
                    async for _ in signals:
                        break
                    for server, _ in running.servers:
                        server.stop()


class Running:
    """A server for each strategy."""

    def __init__(self, house: House, listeners: ExitStack) -> None:
        self.started = anyio.Event()
        self.ports: dict[Strategy, int] = {}
        self.servers = []
        self._starting = len(STRATEGIES)
        for strategy in STRATEGIES:
            listener = listeners.enter_context(closing(listen(HOST, 0)))
            self.ports[strategy] = listener.getsockname()[1]
            mine = house_for(strategy, house)
            server = Server(application(mine), mine.open_answers, GRACE_S, on_start=self._one_more)
            self.servers.append((server, listener))

    def _one_more(self) -> None:
        self._starting -= 1
        if not self._starting:
            self.started.set()


if __name__ == "__main__":
    anyio.run(partial(serve, read_settings()), backend_options={"use_uvloop": sys.platform != "win32"})
