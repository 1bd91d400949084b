"""The local models, put together."""

from dataclasses import dataclass
from pathlib import Path

import anyio

from gateway.providers.local.embedder import BgeEmbedder
from gateway.providers.local.extractive import ExtractiveGenerator
from gateway.providers.local.files import reader_files, reranker_files
from gateway.providers.local.grader import LONGEST_TOKENS as READER_TOKENS
from gateway.providers.local.grader import ReaderGrader
from gateway.providers.local.judgement import JUNK_COST
from gateway.providers.local.network import Network
from gateway.providers.local.pairs import LONGEST_TOKENS as PAIR_TOKENS
from gateway.providers.local.pairs import PairScorer
from gateway.providers.local.reranker import CrossEncoder
from gateway.providers.local.slots import Slots, Urgency


@dataclass(frozen=True, slots=True)
class LocalModels:
    """One of each, over shared slots. Nothing to close; not bound to an event loop, but to one at a time."""

    embedder: BgeEmbedder
    reranker: CrossEncoder
    grader: ReaderGrader
    generator: ExtractiveGenerator
    pairs: PairScorer
    slots: Slots


async def load_local_models(
    *,
    embedder: bool = True,
    judges: bool = True,
    embedding_model_dir: Path | None = None,
    slots: int | None = None,
    junk_cost: float = JUNK_COST,
) -> LocalModels:
    """The models, loaded side by side on worker threads (about 0.2 s each); what is False here is loaded at its first use.

    `slots` bounds how many runs share the CPU (default: its cores, at most 4), one thread each. `embedding_model_dir`
    names another model of the BGE English family. `junk_cost` says how many refusals an answer on junk costs. Raises
    LocalModelMissing, whose message says what to do.
    """
    shared = Slots(slots)
    reader = Network(reader_files, READER_TOKENS)
    cross = Network(reranker_files, PAIR_TOKENS)
    pairs = PairScorer(cross, shared)
    bge = BgeEmbedder(shared, embedding_model_dir)
    wanted = ([bge.network] if embedder else []) + ([reader, cross] if judges else [])
    await _load(wanted, shared)
    return LocalModels(
        bge,
        CrossEncoder(pairs),
        ReaderGrader(reader, pairs, shared, junk_cost),
        ExtractiveGenerator(pairs),
        pairs,
        shared,
    )


async def _load(networks: list[Network], slots: Slots) -> None:
    try:
        async with anyio.create_task_group() as tasks:
            for network in networks:
                tasks.start_soon(slots.run, Urgency.VERDICT, network.load)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None  # one missing model is enough to say
