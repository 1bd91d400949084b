"""The report's figures from the decision log: exact percentiles of every answer that is still in the table."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.reporting.report import FAILURE_PATH, NEVER, Ahead, Seen, Spread
from retrieval.pool import Connection, Pool
from retrieval.tenancy import DEFAULT

LIMIT_S = 60.0

_COUNTS = """
SELECT
  count(*) FILTER (WHERE attempt = 2),
  coalesce(sum(released_tokens), 0), coalesce(sum(discarded_tokens), 0),
  coalesce(sum(duplicates), 0), coalesce(sum(conflicts), 0),
  count(*) FILTER (WHERE attempt = attempts AND grounded), count(*) FILTER (WHERE attempt = attempts AND NOT grounded),
  count(*) FILTER (WHERE speculate_delay_s IS NOT NULL AND drafts > 0 AND outcome = 'released'),
  count(*) FILTER (WHERE speculate_delay_s IS NOT NULL AND drafts > 0 AND outcome <> 'released'),
  coalesce(sum(greatest(0, least(first_token_s, grade_s - speculate_delay_s))) FILTER (WHERE drafts > 0 AND outcome = 'released'), 0),
  count(*) FILTER (WHERE attempt = 1 AND looks_ahead), count(*) FILTER (WHERE attempt = 1 AND looks_ahead AND attempts > 1)
FROM decision WHERE at > now() - make_interval(secs => %s)
"""
_REFUSALS = """
SELECT coalesce(reason, 'other'), count(*) FROM decision
WHERE at > now() - make_interval(secs => %s) AND attempt = attempts AND path = 'refused' GROUP BY 1
"""
_STRATEGIES = """
SELECT strategy, coalesce(outcome, 'other'), count(*) FROM decision
WHERE at > now() - make_interval(secs => %s) AND attempt > 1 GROUP BY 1, 2
"""
_SPREADS = """
SELECT CASE WHEN grouping(path) = 0 THEN path ELSE %(failure)s END,
  count({column}), percentile_disc(ARRAY[.5, .95, .99]) WITHIN GROUP (ORDER BY {column})
FROM decision
WHERE at > now() - make_interval(secs => %(since)s) AND {column} IS NOT NULL AND {rows}
GROUP BY GROUPING SETS ((path), (path <> 'clean'))
HAVING grouping(path) = 0 OR bool_and(path <> 'clean')
"""
_COLUMNS: Mapping[str, tuple[str, str]] = {  # stage: column, which rows count
    "first_byte": ("first_byte_s", "attempt = attempts"),
    "total": ("total_s", "attempt = attempts"),
    "retrieval": ("retrieval_s", "true"),
    "grade": ("grade_s", "true"),
    "verdict_to_close": ("close_s", "true"),
}


async def seen_in_log(pool: Pool, since_s: float) -> Seen:
    """What the log holds of the last `since_s` seconds, of every tenant whose rows the database user may see.

    The tables' owner sees all, the role that serves those of the default tenant. Raises RetrievalUnavailable.
    """

    async def read(connection: Connection) -> Seen:
        spreads: dict[tuple[str, str], Spread] = {}
        for stage, (column, rows) in _COLUMNS.items():
            query = _SPREADS.format(column=column, rows=rows)
            found = await connection.execute(query, {"failure": FAILURE_PATH, "since": since_s})
            for path, count, figures in await found.fetchall():
                spreads[stage, path] = Spread(count, *map(float, figures)) if count else NEVER
        (counts,) = await (await connection.execute(_COUNTS, (since_s,))).fetchall()
        refusals = await (await connection.execute(_REFUSALS, (since_s,))).fetchall()
        strategies = await (await connection.execute(_STRATEGIES, (since_s,))).fetchall()
        return _seen(spreads, counts, refusals, strategies)

    return await pool.run_for(DEFAULT, read, LIMIT_S)


def _seen(
    spreads: Mapping[tuple[str, str], Spread],
    counts: Sequence[Any],
    refusals: Sequence[Sequence[Any]],
    strategies: Sequence[Sequence[Any]],
) -> Seen:
    corrected, released, discarded, duplicates, conflicts, grounded, ungrounded, hits, misses, *ahead = map(
        float, counts
    )
    by_strategy: dict[str, dict[str, float]] = {}
    for strategy, outcome, count in strategies:
        by_strategy.setdefault(strategy, {})[outcome] = count
    return Seen(
        source="the decision log",
        spreads=spreads,
        refusals={reason: count for reason, count in refusals},  # noqa: C416  pairs of a row
        tokens={"released": released, "discarded": discarded},
        grounded={"true": grounded, "false": ungrounded},
        strategies=by_strategy,
        speculation={"hit": hits, "miss": misses},
        ahead=Ahead(*ahead),
        corrected=corrected,
        duplicates=duplicates,
        conflicts=conflicts,
    )
