"""The house: everything that one server answers with, put together once and then only read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from gateway.access.keys import Keys
from gateway.admission import Admission
from gateway.chat.profiles import Profiles
from gateway.decisions import Decisions, NoDecisions
from gateway.gap_groups import GapGroups, NoGapGroups
from gateway.keeping.keeper import Keeper
from gateway.open_answers import OpenAnswers
from gateway.request import Options
from gateway.speculation import Speculation
from gateway.sse import SseSettings
from gateway.telemetry import Telemetry
from gateway.uploads.documents import Documents, NoDocuments
from gateway.uploads.passages import NoPassages, Passages
from gateway.uploads.upload import UPLOAD_BYTES
from gateway.upstreams.breaker import Breakers
from grading.ports import Grader
from retrieval.tenancy import DEFAULT
from streaming.answer import Parts
from streaming.budget import Limits, Verify


class Collections(Protocol):
    """Knows which collections can be asked."""

    def knows(self, collection: str, tenant: str) -> bool:
        """Whether `check` has found it before."""
        ...

    async def check(self, collection: str, tenant: str) -> None:
        """Returns when `collection` can be searched. Raises CollectionNotFound, RetrievalUnavailable or RetrievalMisconfigured."""
        ...


def any_question(question: str) -> None:
    """Whatever is asked is a question."""


@dataclass(frozen=True, slots=True)
class House:
    """`provider` is who generates and grades; `models` says, for people, which model does what."""

    parts: Parts
    limits: Limits
    collections: Collections
    telemetry: Telemetry
    provider: str
    models: Mapping[str, str] = field(default_factory=dict)
    keys: Keys = field(default_factory=Keys)
    origins: tuple[str, ...] = ()
    """Those, besides its own, whose pages may ask in a browser."""
    sse: SseSettings = field(default_factory=SseSettings)
    open_answers: OpenAnswers = field(default_factory=OpenAnswers)
    admission: Admission = field(default_factory=Admission)
    gaps: GapGroups = field(default_factory=NoGapGroups)
    graders: Mapping[str, Grader] = field(default_factory=dict)
    profiles: Profiles = field(default_factory=Profiles)
    documents: Documents = field(default_factory=NoDocuments)
    passages: Passages = field(default_factory=NoPassages)
    upload_bytes: int = UPLOAD_BYTES
    keeper: Keeper | None = None
    decisions: Decisions = field(default_factory=NoDecisions)
    speculation: Speculation = field(default_factory=lambda: Speculation("always"))
    breakers: Breakers = field(default_factory=Breakers)
    check_question: Callable[[str], None] = any_question
    """Raises InvalidRequest for a question that nobody here can be asked."""

    def parts_for(
        self,
        options: Options,
        collection: str = DEFAULT,
        tenant: str = DEFAULT,
        may_use: Callable[[str], bool] = lambda collection: True,  # noqa: ARG005
    ) -> Parts:
        """The collaborators as one request wants them, with the grader of its collection.

        What was learnt of a collection was learnt of the default tenant's; `may_use` says which other collections may be searched too.
        """
        own = self.graders if tenant == DEFAULT else {}
        usable = tuple(one for one in self.parts.sources if one.collection is None or may_use(one.collection))
        if self.speculation.sheds_looking_ahead:
            usable = tuple(replace(one, parallel=False) for one in usable)  # searched when needed
        grader = options.grader or own.get(collection, self.parts.grader)
        generator = options.generator or self.parts.generator
        # What the cache keeps may rest on a collection that is not for this caller, and another model wrote it.
        may_be_kept = options.generator is None and len(usable) == len(self.parts.sources)
        speculator = self.speculation.speculator(
            options.speculate, grader=grader.name, generator=generator.name, collection=collection, tenant=tenant
        )
        return replace(
            self.parts,
            grader=grader,
            generator=generator,
            sources=usable,
            cache=self.parts.cache if may_be_kept else None,
            speculator=speculator,
        )

    def limits_for(self, options: Options) -> Limits:
        """The budget as one request wants it: its own number of retries (at most two), never more time than the server allows."""
        retries, deadline_s, verify = options.max_retries, options.deadline_s, options.verify
        if retries is None and deadline_s is None and verify is None and options.output_tokens is None:
            return self.limits
        return replace(
            self.limits,
            max_retries=self.limits.max_retries if retries is None else retries,
            deadline_s=self.limits.deadline_s if deadline_s is None else min(deadline_s, self.limits.deadline_s),
            verify=self.limits.verify if verify is None else Verify(verify),
            output_tokens=min(self.limits.output_tokens, options.output_tokens or self.limits.output_tokens),
        )
