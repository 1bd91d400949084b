"""`gateway serve`: from settings to a server that answers, and from a signal to an exit that cuts nobody off."""

import gc
import signal
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import anyio
from anyio import CancelScope

from gateway.access.hosts import is_loopback
from gateway.access.keys import Keys, OpenToAll
from gateway.app import served
from gateway.screen import Screen, sample_question
from gateway.server import Server, listen
from gateway.settings import Settings
from gateway.wiring import Library, wired
from retrieval.faults import CollectionNotFound

LOOKS = 1_000  # of the garbage collector at what is new, before one at what has outlived its look: some 2,000 answers


async def serve(settings: Settings, docs: Path | None, screen: Screen) -> None:
    """Serves until SIGTERM or SIGINT; the first one drains, a second exits at once, one before serving began stops the start.

    With `docs` that folder is brought up to date first. Raises PortInUse, GatewayFault, FileNotFoundError or OpenToAll, perhaps in a group.
    Whatever ends it, everything that was started is stopped before it returns.
    """
    with (
        closing(listen(settings.host, settings.port)) as listener,
        anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals,
    ):
        async with anyio.create_task_group() as tasks:
            orders = Orders(tasks.cancel_scope)
            tasks.start_soon(orders.obey, signals)
            async with wired(settings) as built:
                require_keys(settings, built.house.keys)
                await fill(built.library, docs, screen)
                documents, question = await to_ask(built.library)
                address = address_of(settings.host, listener.getsockname()[1])
                server = Server(
                    served(built.house),
                    built.house.open_answers,
                    settings.drain_grace_s,
                    on_start=lambda: screen.serving(
                        address, built.house.models, documents, question, built.house.keys.are_needed
                    ),
                )
                orders.server = server
                keep_what_is_loaded()
                look_again_seldom()
                await server.run_until_stopped(listener)
            tasks.cancel_scope.cancel()


def require_keys(settings: Settings, keys: Keys) -> None:
    """Raises OpenToAll."""
    if not is_loopback(settings.host) and not keys.are_set:
        raise OpenToAll(
            "GATEWAY_HOST is reachable from other machines: make a key with `gateway keys create`, set GATEWAY_API_KEYS, or use 127.0.0.1"
        )


class Orders:
    """What signals mean: stop the start, drain, exit."""

    def __init__(self, start: CancelScope) -> None:
        self.server: Server | None = None
        self._start = start
        self._stopping = False

    async def obey(self, signals: AsyncIterator[signal.Signals]) -> None:
        """Obeys each signal as it comes."""
        async for _ in signals:
            if self.server is None:
                self._start.cancel()
            elif self._stopping:
                self.server.stop_now()
            else:
                self._stopping = True
                self.server.stop()


def keep_what_is_loaded() -> None:
    """Takes what the start has loaded out of the garbage collector's sight: it stays until the end.

    A full collection walks every object that it sees, about 200,000 after the start: 120 ms in which no stream moves. Of what
    requests leave it takes 0.6 ms (tests/bench/race.py shows the pauses in its p99).
    """
    gc.collect()
    gc.freeze()


def look_again_seldom() -> None:
    """Has the garbage collector look once at what is new, as ever, and but seldom again at what was in use then.

    That is what open answers hold. An answer that is over leaves nothing for the collector (tests/http/test_garbage.py); with 64 open a
    second look took 5 ms, in which no stream moves, after every 20 answers, a third one 23 ms. What a fault may leave still goes.
    """
    new, _, oldest = gc.get_threshold()
    gc.set_threshold(new, LOOKS, oldest)


async def fill(library: Library | None, docs: Path | None, screen: Screen) -> None:
    """Brings the documents at `docs` up to date, where there are any to keep."""
    if docs is not None and library is not None:
        from retrieval.ingest import ingest

        with screen.progress() as progress:
            report = await ingest(docs, library.store, library.embedder, progress=progress)
        screen.ingested(report)


async def to_ask(library: Library | None, collection: str = "default") -> tuple[int | None, str]:
    """How many documents the collection has (None: there is no library), and a question to begin with."""
    if library is None:
        return None, sample_question(None)
    try:
        documents = await library.store.documents(collection)
    except CollectionNotFound:
        documents = ()
    return len(documents), sample_question(documents)


def address_of(host: str, port: int) -> str:
    """The address to type; a wildcard host is reached through this machine's own name for itself."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"
