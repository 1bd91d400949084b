"""The setting of the correction policy: rows of verdict and cause, each with the strategies to try in order."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticCustomError

from grading.correct import DEFAULT_POLICY, Cause, Policy, Strategy
from grading.grade import Verdict

Rows = Mapping[str, Mapping[str, tuple[str, ...]]]
"""As a TOML file says it: `[policy.partial]` with `gap = ["gap_query", "broaden"]`."""


def policy_rows(value: object) -> Rows:
    """The rows that `value` says: a table of tables, or the text of a variable, as JSON or as `partial.gap=gap_query,broaden; ...`.

    Raises PydanticCustomError, which names what is wrong and what could stand there.
    """
    table = _table(value) if isinstance(value, str) else value
    if not isinstance(table, Mapping):
        raise _wrong("must be rows of verdict.cause=strategy,strategy")
    return {str(verdict): _causes(str(verdict), causes) for verdict, causes in table.items()}


def policy_of(rows: Rows) -> Policy:
    """The default policy with these rows in place of its own. A row without strategies refuses at once."""
    own = {
        (Verdict(verdict), Cause(cause)): tuple(Strategy(name) for name in names)
        for verdict, causes in rows.items()
        for cause, names in causes.items()
    }
    return {**DEFAULT_POLICY, **own}


def _table(text: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise _wrong(f"is no JSON: {error}") from None
    table: dict[str, dict[str, str]] = {}
    for row in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, names = row.partition("=")
        verdict, dot, cause = name.strip().partition(".")
        if not equals or not dot:
            raise _wrong(f"{row!r} must be verdict.cause=strategy,strategy")
        if cause in table.setdefault(verdict, {}):
            raise _wrong(f"{verdict}.{cause} stands there twice")
        table[verdict][cause] = names
    return table


def _causes(verdict: str, causes: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(causes, Mapping):
        raise _wrong(f"{verdict} must be a table of causes")
    return {str(cause): _strategies(verdict, str(cause), names) for cause, names in causes.items()}


def _strategies(verdict: str, cause: str, names: object) -> tuple[str, ...]:
    known = {(row[0].value, row[1].value) for row in DEFAULT_POLICY}
    if (verdict, cause) not in known:
        rows = ", ".join(sorted(f"{one}.{other}" for one, other in known))
        raise _wrong(f"there is no row {verdict}.{cause}; the rows are {rows}")
    listed = [part.strip() for part in names.split(",")] if isinstance(names, str) else names
    if not isinstance(listed, list | tuple):
        raise _wrong(f"{verdict}.{cause} must be a list of strategies")
    found = tuple(str(name) for name in listed if name != "")
    for name in found:
        if name not in set(Strategy):
            raise _wrong(f"{verdict}.{cause} has {name!r}; the strategies are {', '.join(Strategy)}")
    if len(set(found)) < len(found):
        raise _wrong(f"{verdict}.{cause} names a strategy twice")
    return found


def _wrong(reason: str) -> PydanticCustomError:
    return PydanticCustomError("policy", "{reason}", {"reason": reason})
