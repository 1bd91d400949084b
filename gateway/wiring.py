"""Wiring: from settings to a house that can serve. Vendors and models are imported here, when they are used, and closed in reverse."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar

import anyio

from gateway.access.hosts import is_loopback
from gateway.access.keys import Keys, Known, NoneStored
from gateway.admission import Admission
from gateway.beside import beside
from gateway.chat.profiles import Profiles
from gateway.chat.profiles_of import profiles_of
from gateway.decisions import Decisions, NoDecisions
from gateway.gap_groups import GapGroups, NoGapGroups
from gateway.graders import Available, GraderName, grader_of, graders_of
from gateway.house import House, any_question
from gateway.keeping.keeper import Keeper, Keeping, open_keeper
from gateway.library import AnyCollection, KnownCollections
from gateway.observing.metric_names import OPENINGS, POOL, UPSTREAMS, WAITING
from gateway.open_answers import OpenAnswers
from gateway.settings import Settings
from gateway.sources import open_sources
from gateway.speculation import Speculation
from gateway.sse import SseSettings
from gateway.telemetry import Telemetry
from gateway.uploads.documents import NoDocuments, StoredDocuments
from gateway.uploads.passages import NoPassages, StoredPassages
from gateway.upstreams.breaker import Breakers, Role
from gateway.upstreams.guarded import GuardedEmbedder
from gateway.voices import Voices, open_voices
from grading.calibrate import Calibration
from grading.correct import Fields
from grading.ports import Grader
from grading.routing import always
from retrieval.faults import DatabaseMissing
from retrieval.likeness import Likeness
from retrieval.ports import Embedder, Reranker, Retriever, SearchMode
from retrieval.remembering import RememberingEmbedder
from retrieval.sources import Source
from streaming.answer import Parts
from streaming.ports import AnswerCache, Gap, GapLog, Generator
from streaming.speculate import Always

if TYPE_CHECKING:
    from gateway.providers.local.models import LocalModels
    from gateway.waste_shares import WasteShares
    from retrieval.pool import Pool
    from retrieval.store import PassageStore

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class Judges:
    """Who grades, also for the collections that have a calibration of their own, and whose voices are heard; the profiles."""

    grader: Grader
    voices: Voices
    graders: Mapping[str, Grader] = field(default_factory=dict)
    profiles: Profiles = field(default_factory=Profiles)
    odds: Mapping[str, Calibration] = field(default_factory=dict)
    """What the free signals say, by collection."""


@dataclass(frozen=True, slots=True)
class Library:
    """The stored documents, and who turns text into vectors; the database, and its address for who serves."""

    store: "PassageStore"
    embedder: Embedder
    pool: "Pool"
    url: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where passages come from and where gaps go and are read. `library` is None for a scripted search."""

    sources: tuple[Source, ...]
    reranker: Reranker | None
    gaps: GapLog
    gap_groups: GapGroups
    library: Library | None


@dataclass(frozen=True, slots=True)
class Wired:
    """A house, and the library behind it."""

    house: House
    library: Library | None


@asynccontextmanager
async def wired(settings: Settings) -> AsyncIterator[Wired]:
    """Everything, started: database and models side by side. Raises a GatewayFault that says what to do when a part cannot start."""
    async with AsyncExitStack() as stack:
        telemetry = Telemetry.start(
            service_version=version("optimistic-gateway"),
            export=settings.export_traces,
            export_metrics=settings.export_metrics,
            metric_names=settings.metric_names,
            records_text=settings.record_text,
        )
        stack.push_async_callback(telemetry.aclose)
        breakers = Breakers()
        telemetry.metrics.observe(UPSTREAMS, breakers.states)
        telemetry.metrics.observe(OPENINGS, breakers.openings)
        evidence, local = await _evidence(settings, breakers, stack)
        if evidence.library is not None:
            telemetry.metrics.observe(POOL, evidence.library.pool.usage)
        judges = await _judges(settings, local, evidence.library, breakers, stack)
        keeper = await stack.enter_async_context(_keeper(settings, evidence.library))
        keys = await _keys(settings, evidence.library, stack)
        house = replace(_house(settings, evidence, judges, telemetry), keeper=keeper, keys=keys, breakers=breakers)
        if (shares := await _waste_shares(settings, evidence.library, stack)) is not None:
            house = replace(house, speculation=replace(house.speculation, shared=shares.of))
        telemetry.metrics.observe(WAITING, lambda: ((house.admission.waiting, {}),))
        house = replace(house, decisions=await _decisions(settings, evidence.library, stack))
        # It ends before the decision log does, which it adds to.
        await stack.enter_async_context(beside(telemetry.metrics.later.run, "counting"))
        yield Wired(house, evidence.library)


@asynccontextmanager
async def library(settings: Settings) -> AsyncIterator[Library]:
    """The library alone, for work that answers nothing. Raises as `wired`."""
    async with AsyncExitStack() as stack:
        database, models = await side_by_side(_database(settings, stack), _local_models(settings, judges=False))
        yield _library(*database, await _embedder(settings, models, Breakers(), stack))


@asynccontextmanager
async def database_url(settings: Settings) -> AsyncIterator[str]:
    """The address of the database: the one set, or that of an embedded server that runs inside the block."""
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    from retrieval.embedded import EmbeddedPostgres

    async with EmbeddedPostgres(settings.home) as url:
        yield url


@asynccontextmanager
async def owner_url(settings: Settings) -> AsyncIterator[str]:
    """The address of the database as the owner of its tables, for migrations, keys and reports; where none is set, as `database_url`."""
    if settings.owner_url is not None:
        yield settings.owner_url.get_secret_value()
        return
    async with database_url(settings) as url:
        yield url


async def _decisions(settings: Settings, books: Library | None, stack: AsyncExitStack) -> Decisions:
    """The decision log; none without a database or where it is switched off."""
    if books is None or not settings.decision_rows:
        return NoDecisions()
    from gateway.decision_log import open_decision_log

    return await stack.enter_async_context(open_decision_log(books.pool, settings.decision_rows))


async def _waste_shares(settings: Settings, books: Library | None, stack: AsyncExitStack) -> "WasteShares | None":
    """What several gateways may discard together; None where there is only this one: with a database of its own, or none."""
    if books is None or settings.database_url is None:
        return None
    from gateway.waste_shares import open_waste_shares

    shares = open_waste_shares(books.pool, settings.waste_tokens, settings.deadline_s)
    return await stack.enter_async_context(shares)


def _house(settings: Settings, evidence: Evidence, judges: Judges, telemetry: Telemetry) -> House:
    books = evidence.library
    parts = Parts(
        sources=evidence.sources,
        reranker=evidence.reranker,
        grader=judges.grader,
        generator=judges.voices.generator,
        fallback=judges.voices.fallback,
        rewriter=judges.voices.rewriter,
        verifier=judges.voices.verifier,
        speculator=Always(),  # until a request says how (House.parts_for)
        gaps=evidence.gaps,
        fields=None if books is None else _fields(books),
        cache=None if books is None else _cache(settings, books, judges.voices.generator, evidence.sources),
        policy=settings.correction_policy(),
        similarity=None if books is None else Likeness(books.embedder),
        router=always(SearchMode.DENSE)
        if books is None
        else settings.router(),  # a script knows a wider search by its mode
    )
    open_answers = OpenAnswers()
    return House(
        parts=parts,
        limits=settings.limits(),
        collections=AnyCollection() if books is None else KnownCollections(books.store, books.embedder),
        telemetry=telemetry,
        provider=settings.chosen_provider,
        models={
            "generator": judges.voices.generator.name,
            "grader": judges.grader.name,
            "embeddings": "scripted" if books is None else books.embedder.model,
        },
        origins=settings.cors_origins,
        sse=SseSettings(settings.ping_s, settings.send_timeout_s, settings.charset),
        graders=judges.graders,
        profiles=judges.profiles,
        gaps=evidence.gap_groups,
        documents=NoDocuments() if books is None else StoredDocuments(books.store, books.embedder),
        passages=NoPassages() if books is None else StoredPassages(books.store),
        upload_bytes=settings.upload_bytes,
        open_answers=open_answers,
        admission=Admission(settings.bounds()),
        speculation=Speculation(
            settings.speculate,
            settings.terms(),
            judges.odds,
            lambda: open_answers.count,
        ),
        check_question=_script_check(settings) if settings.plays_scripts else any_question,
    )


def _keeper(settings: Settings, books: Library | None) -> AbstractAsyncContextManager[Keeper]:
    """Who keeps resumable answers: closed before the pool, as everything that is opened after it."""
    keeping = Keeping(settings.resume_grace_s, settings.resume_keep_s)
    if books is None or not settings.shares_recordings:
        return open_keeper(keeping)
    from gateway.keeping.stored_recordings import StoredRecordings

    return open_keeper(keeping, StoredRecordings(books.pool))


def _fields(books: Library) -> Fields:
    from retrieval.fields import PostgresFields

    return PostgresFields(books.pool)


def _cache(settings: Settings, books: Library, generator: Generator, sources: Sequence[Source]) -> AnswerCache | None:
    """The cache of verified answers; None where it is switched off."""
    if settings.cache == "off":
        return None
    from gateway.cache import PostgresCache

    collections = [one.collection for one in sources if one.collection is not None]
    return PostgresCache(books.pool, books.embedder, generator.name, collections=collections)


async def _evidence(
    settings: Settings, breakers: Breakers, stack: AsyncExitStack
) -> "tuple[Evidence, LocalModels | None]":
    local = settings.chosen_provider == "local" or settings.grades_here
    if settings.retriever == "scripted":
        models = await _local_models(settings, judges=True) if local else None
        sources = await open_sources(settings.sources, _scripted_retriever(settings), None, stack, breakers)
        return Evidence(sources, None, NoGaps(), NoGapGroups(), None), models
    database, models = await side_by_side(_database(settings, stack), _local_models(settings, judges=local))
    pool, url = database
    books = _library(pool, url, RememberingEmbedder(await _embedder(settings, models, breakers, stack)))
    await books.store.check(books.embedder)

    from gateway.gaps import PostgresGaps
    from gateway.observing.traced_pool import TracedPool
    from retrieval.postgres import PostgresRetriever

    reranker = None if models is None else models.reranker
    own = PostgresRetriever(TracedPool(pool), books.embedder)
    gaps = PostgresGaps(pool, books.embedder)
    sources = await open_sources(settings.sources, own, books, stack, breakers)
    return Evidence(sources, reranker, gaps, gaps, books), models


async def _keys(settings: Settings, books: Library | None, stack: AsyncExitStack) -> Keys:
    """Who may ask; keys in the database count too. On an address that others reach a key is needed, also while there is none."""
    stored: Known = NoneStored()
    if books is not None:
        from gateway.access.key_ring import open_key_ring

        stored = await stack.enter_async_context(open_key_ring(books.url))
    given = (key.get_secret_value() for key in settings.api_keys)
    return Keys(
        given,
        stored,
        always_needed=not is_loopback(settings.host),
        hosts=settings.allowed_hosts,
        origins=settings.cors_origins,
    )


async def _database(settings: Settings, stack: AsyncExitStack) -> "tuple[Pool, str]":
    """The pool under the role that serves, over a database that is up to date."""
    from retrieval.pool import open_pool
    from retrieval.schema import migrate
    from retrieval.serving import as_role, serving

    owner = await stack.enter_async_context(owner_url(settings))
    await migrate(owner)
    url = as_role(owner) if settings.database_url is None else await serving(settings.database_url.get_secret_value())
    return await stack.enter_async_context(open_pool(url, size=settings.pool_size)), url


async def _local_models(settings: Settings, *, judges: bool) -> "LocalModels | None":
    """The local models that are used; None where none is needed and none is installed."""
    by_default = (
        settings.chosen_provider != "local" and not settings.graders
    )  # then a model grades alone where none is installed
    needed = (judges and not by_default) or settings.embeddings_url is None
    try:
        from gateway.providers.local.models import load_local_models
    except ImportError as error:
        if needed:
            raise DatabaseMissing(
                "local models need the extra `local` (`make run` installs it), or set ANTHROPIC_API_KEY and GATEWAY_EMBEDDINGS_URL"
            ) from error
        return None
    return await load_local_models(embedder=settings.embeddings_url is None, judges=judges)


async def _embedder(
    settings: Settings, models: "LocalModels | None", breakers: Breakers, stack: AsyncExitStack
) -> Embedder:
    if settings.embeddings_url is None:
        assert models is not None
        return models.embedder
    from gateway.providers.embeddings import HttpEmbedder

    assert settings.embeddings_model is not None
    assert settings.embeddings_dimensions is not None
    key = settings.embeddings_api_key
    embedder = HttpEmbedder(
        settings.embeddings_url,
        settings.embeddings_model,
        settings.embeddings_dimensions,
        api_key=None if key is None else key.get_secret_value(),
    )
    breaker = breakers.of(Role.EMBEDDINGS, settings.embeddings_model)
    return GuardedEmbedder(await stack.enter_async_context(embedder), breaker, embedder.timeout_s)


def _library(pool: "Pool", url: str, embedder: Embedder) -> Library:
    from retrieval.store import PassageStore

    return Library(PassageStore(pool), embedder, pool, url)


async def _judges(
    settings: Settings,
    local: "LocalModels | None",
    books: Library | None,
    breakers: Breakers,
    stack: AsyncExitStack,
) -> Judges:
    voices = await open_voices(settings, local, breakers, stack)
    names = _graders_that_can_be(settings, local)
    available = Available(local, voices.graders, await _calibrations(books), voices.standby)
    limit_s = settings.grade_timeout_s
    profiles = profiles_of(settings.profiles, voices.models, names, available, limit_s)
    odds = available.calibrations["score"] if books is not None else {}
    return Judges(grader_of(names, available, limit_s), voices, graders_of(names, available, limit_s), profiles, odds)


def _graders_that_can_be(settings: Settings, local: "LocalModels | None") -> tuple[GraderName, ...]:
    """Those that are set; by default a model alone where local ones are not installed."""
    if settings.grades_here and local is None:
        return ("model",)
    return settings.chosen_graders


async def _calibrations(books: Library | None) -> dict[str, dict[str, Calibration]]:
    """What `gateway calibrate --store` has stored, by grader and collection."""
    if books is None:
        return {}
    from gateway.evaluation.calibrations import PostgresCalibrations

    stored = PostgresCalibrations(books.pool)
    return {name: await stored.newest(grader=name) for name in ("calibrated", "score")}


def _script_check(settings: Settings) -> Callable[[str], None]:
    from gateway.providers.script import Script
    from gateway.providers.scripted import playable

    return playable(Script.parse(settings.script))


def _scripted_retriever(settings: Settings) -> Retriever:
    from gateway.providers.script import Script
    from gateway.providers.scripted import ScriptedRetriever

    return ScriptedRetriever(Script.parse(settings.script))


class NoGaps:
    """Keeps no gaps: a scripted search has no database (streaming.ports.GapLog)."""

    async def record(self, gap: Gap) -> str | None:  # noqa: ARG002
        return None


async def side_by_side(first: Awaitable[A], second: Awaitable[B]) -> tuple[A, B]:
    """Both results. The first failure cancels the other and is raised as itself."""
    found: dict[int, object] = {}
    failures: list[Exception] = []

    async def run(place: int, work: Callable[[], Awaitable[object]], scope: anyio.CancelScope) -> None:
        try:
            found[place] = await work()
        except Exception as error:
            failures.append(error)
            scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, 0, lambda: first, tasks.cancel_scope)
        tasks.start_soon(run, 1, lambda: second, tasks.cancel_scope)
    if failures:
        raise failures[0]
    return found[0], found[1]  # type: ignore[return-value]
