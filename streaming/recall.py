"""Recalling verified answers: from the race to the cache, and from the cache to events."""

from streaming.ask import Ask
from streaming.attempt import Race, said
from streaming.drafting import TOKEN_LIMIT_BYTES, cut
from streaming.events import Event, Sources, Status
from streaming.ports import AnswerCache, Cited, Kept, Text

FROM_CACHE = "from the cache of verified answers"


async def find(cache: AnswerCache | None, ask: Ask, question: str) -> Kept | None:
    """The kept answer to `question`; None where nothing is kept, and for a question that filters or a history narrow."""
    if cache is None or is_narrowed(ask, question):
        return None
    return await cache.find(question, ask.collection, ask.tenant)


async def keep(cache: AnswerCache | None, ask: Ask, question: str, race: Race) -> None:
    """Keeps what `race` released, which every passage it rests on supports."""
    if cache is None or is_narrowed(ask, question):
        return
    text = "".join(p.text for p in race.released if isinstance(p, Text))
    citations = tuple(p for p in race.released if isinstance(p, Cited))
    await cache.keep(question, ask.collection, ask.tenant, Kept(text, citations, race.sources))


def is_narrowed(ask: Ask, question: str) -> bool:
    """Whether the words of `question` are not all that it depends on: filters, or a history that was not worked into it."""
    return bool(ask.filters or (ask.history and question == ask.question))


def events_of(kept: Kept) -> tuple[Event, ...]:
    """The kept answer as it is sent: it says where it comes from, its sources, its text, its citations."""
    lead = (Status(0, "generating", FROM_CACHE), Sources(0, kept.passages))
    return lead + said((*cut(Text(kept.text), TOKEN_LIMIT_BYTES), *kept.citations))
