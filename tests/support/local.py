"""The local models as tests use them: loaded once for the whole run, at their first use."""

from collections.abc import Sequence
from functools import cache

from gateway.providers.local.models import LocalModels, local_models
from retrieval.passage import Passage


@cache
def shared_models() -> LocalModels:
    """One set for all tests, which run one after another: not bound to an event loop."""
    return local_models()


def passages(*texts: str | tuple[str, str]) -> tuple[Passage, ...]:
    """Passages p1, p2, ... from texts or (title, text)."""
    pairs = [("", each) if isinstance(each, str) else each for each in texts]
    return tuple(Passage(f"p{n}", f"doc-{n}", title, text) for n, (title, text) in enumerate(pairs, 1))


GARDEN = passages(
    ("Roses", "Roses need six hours of sun a day. They are pruned in March, before the buds open."),
    ("Tulips", "Tulip bulbs are planted in October. The bulbs go fifteen centimetres deep."),
    ("Ferns", "Ferns grow in shade. Most of them like wet soil."),
    ("Tools", "A spade is oiled after use. The shed is locked at night."),
)


def numbered(found: Sequence[Passage]) -> tuple[tuple[int, Passage], ...]:
    return tuple(enumerate(found, 1))
