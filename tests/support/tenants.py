"""Two tenants in one database, each with documents that say its secret, and a house that serves both by their keys."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from gateway.access.caller import Role
from gateway.access.key_ring import open_key_ring
from gateway.access.keys import Keys
from gateway.access.stored_keys import NewKey, StoredKeys
from gateway.cache import PostgresCache
from gateway.chat.profiles import Profile, Profiles
from gateway.gaps import PostgresGaps
from gateway.house import House
from gateway.keeping.keeper import open_keeper
from gateway.keeping.stored_recordings import StoredRecordings
from gateway.library import KnownCollections
from gateway.request import Options
from gateway.uploads.documents import StoredDocuments
from gateway.uploads.passages import StoredPassages
from retrieval.elsewhere import Elsewhere
from retrieval.pool import Pool, open_pool
from retrieval.postgres import PostgresRetriever
from retrieval.sources import HOUSE, Source
from retrieval.store import PassageStore
from tests.support.embedders import HashingEmbedder
from tests.support.gateway_app import scripted_house, with_parts
from tests.support.library import shelve
from tests.support.postgres import emptied

MINE, YOURS = "mine", "yours"
SECRETS = {MINE: "The vault of mine opens with aubergine.", YOURS: "The vault of yours opens with zucchini."}
WORDS = {MINE: "aubergine", YOURS: "zucchini"}


@dataclass(frozen=True, slots=True)
class Tenants:
    """A house over one database, under the role that serves; `keys` are secrets, by tenant."""

    house: House
    pool: Pool
    stored_keys: StoredKeys
    keys: dict[str, str]


@asynccontextmanager
async def two_tenants(owner_url: str) -> AsyncIterator[Tenants]:
    """Both have the collections `default` and `shared-name`, and a document of the same name in each."""
    url, embedder = emptied(owner_url), HashingEmbedder()
    async with (
        open_pool(url, size=4) as pool,
        open_pool(owner_url, size=1) as owner,
        open_key_ring(url, every_s=1.0) as ring,
        open_keeper(shared=StoredRecordings(pool)) as keeper,
    ):
        for tenant, text in SECRETS.items():
            for collection in ("default", "shared-name"):
                texts = {f"{tenant}-{collection}": text}
                await shelve(pool, embedder, texts, collection=collection, tenant=tenant)
        stored_keys = StoredKeys(owner)
        keys = {
            tenant: (await stored_keys.create(NewKey(tenant, tenant, frozenset({Role.ADMIN}))))[1] for tenant in SECRETS
        }
        yield Tenants(_house(pool, embedder, Keys((), ring), keeper), pool, stored_keys, keys)


def _house(pool: Pool, embedder: HashingEmbedder, keys: Keys, keeper: object) -> House:
    store, own = PassageStore(pool), PostgresRetriever(pool, embedder)
    gaps = PostgresGaps(pool, embedder)
    sources = (Source(HOUSE, own), Source("shelf", Elsewhere(own, collection="shared-name"), collection="shared-name"))
    cache = PostgresCache(pool, embedder, "scripted", collections=("shared-name",))
    house = with_parts(scripted_house(), gaps=gaps, sources=sources, cache=cache)
    return replace(
        house,
        keys=keys,
        keeper=keeper,  # type: ignore[arg-type]
        collections=KnownCollections(store, embedder),
        gaps=gaps,
        documents=StoredDocuments(store, embedder),
        passages=StoredPassages(store),
        profiles=Profiles((Profile("plain", "default", Options()), Profile("shelf", "shared-name", Options()))),
    )
