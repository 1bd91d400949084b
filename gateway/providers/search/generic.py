"""Any search service that answers with JSON: where it is, how it is asked and where its results are, all by setting."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.providers.search.service import Method, Nonsense, Request, Result, objects, text_of, within

QUERY_CHARACTERS = 2_000  # what addresses and bodies of unknown servers can be expected to take

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def path(written: str) -> tuple[str | int, ...]:
    """A path such as `data.items`, `hits[0].source` or `$.results` as steps; `$` or nothing is the body itself.

    Raises ValueError for anything else.
    """
    rest = written.removeprefix("$")
    steps: list[str | int] = []
    at = 0
    while at < len(rest):
        step = _STEP.match(rest, at)
        if step is None:
            raise ValueError(f"{written!r} is not a path: use names joined by dots, and [0] for a place in a list")
        steps.append(step.group(1) or int(step.group(2)))
        at = step.end()
    return tuple(steps)


def at(value: Any, steps: tuple[str | int, ...]) -> Any:
    """What stands at the path; None where it leads nowhere."""
    for step in steps:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return None
    return value


@dataclass(frozen=True, slots=True)
class Paths:
    """Where the list of results is in the body, and the rest in each result."""

    results: tuple[str | int, ...] = ("results",)
    title: tuple[str | int, ...] = ("title",)
    text: tuple[str | int, ...] = ("text",)
    url: tuple[str | int, ...] = ("url",)


@dataclass(frozen=True, slots=True)
class Generic:
    """A service that takes the query under one name, as a parameter (GET) or in a JSON object (POST).

    `headers` hold the key, if it needs one. `fixed` parameters go with every request.
    """

    url: str
    method: Method = "GET"
    query: str = "q"
    count: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    fixed: Mapping[str, str | int | bool] = field(default_factory=dict)
    paths: Paths = field(default_factory=Paths)

    def request(self, text: str, count: int) -> Request:
        asked: dict[str, str | int | bool] = {**self.fixed, self.query: within(text, QUERY_CHARACTERS)}
        if self.count is not None:
            asked[self.count] = count
        return Request(self.method, self.url, {"accept": "application/json", **self.headers}, asked)

    def results(self, body: Any) -> list[Result]:
        found = at(body, self.paths.results)
        if found is None:
            raise Nonsense("nothing at the path of the results")
        return [self._result(each) for each in objects(found)]

    def refuses_key(self, status: int, content: bytes) -> bool:  # noqa: ARG002
        return status in (401, 403)

    def _result(self, found: Any) -> Result:
        title, text, url = (text_of(at(found, steps)) for steps in (self.paths.title, self.paths.text, self.paths.url))
        return Result(title, text, url)
