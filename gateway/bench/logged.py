"""A profile from the decision log: what this server's own searches, verdicts and first tokens took, and how its questions turned out."""

from typing import Any

from gateway.bench.profile import Delays, Mix, Profile, ProfileUnreadable, Sample
from retrieval.pool import Connection, Pool
from retrieval.tenancy import DEFAULT

READ_LIMIT_S = 30.0
SAMPLES = 5_000  # of the newest
FEWEST = 20

_SAMPLES = """
SELECT retrieval_s, grade_s, first_token_s FROM decision
WHERE at > now() - make_interval(secs => %s) AND retrieval_s IS NOT NULL AND grade_s IS NOT NULL AND first_token_s IS NOT NULL
ORDER BY id DESC LIMIT %s
"""
_KINDS = """
SELECT CASE WHEN path = 'recovered' THEN coalesce(verdict, 'insufficient') ELSE path END, count(*) FROM decision
WHERE at > now() - make_interval(secs => %s) AND attempt = 1 AND path IN ('clean', 'recovered', 'refused') GROUP BY 1
"""


async def logged_profile(pool: Pool, since_s: float) -> Profile:
    """The profile of the last `since_s` seconds. Raises ProfileUnreadable where too few attempts were logged, RetrievalUnavailable."""

    async def read(connection: Connection) -> tuple[list[Any], list[Any]]:
        samples = await (await connection.execute(_SAMPLES, (since_s, SAMPLES))).fetchall()
        kinds = await (await connection.execute(_KINDS, (since_s,))).fetchall()
        return samples, kinds

    return profile_of(*await pool.run_for(DEFAULT, read, READ_LIMIT_S))


def profile_of(samples: list[Any], kinds: list[Any]) -> Profile:
    """The profile of rows (seconds of a search, a verdict, a first token) and of counts by kind. Raises ProfileUnreadable."""
    if len(samples) < FEWEST:
        raise ProfileUnreadable(
            f"the decision log holds {len(samples)} attempts with a search, a verdict and a draft; at least {FEWEST} are needed"
        )
    drawn = tuple(
        Sample(retrieve=retrieve * 1000, grade=grade * 1000, first_token=first * 1000)
        for retrieve, grade, first in samples
    )
    counts = {"clean": 0, "partial": 0, "insufficient": 0, "refused": 0, **dict(kinds)}
    if not any(counts.values()):
        raise ProfileUnreadable("the decision log holds no question that was answered or refused")
    mix = Mix.model_validate({name: counts[name] for name in ("clean", "partial", "insufficient", "refused")})
    grade = sorted(each.grade for each in drawn)[len(drawn) // 2]  # a rewrite is a call like a grade
    return Profile(name="decision log", delays=Delays(rewrite=grade, sigma=0.0), mix=mix, samples=drawn)
