"""Tavily, as https://docs.tavily.com/documentation/api-reference/endpoint/search describes it."""

from dataclasses import dataclass, field
from typing import Any

from gateway.providers.search.service import Nonsense, Request, Result, objects, text_of, within

URL = "https://api.tavily.com/search"
QUERY_CHARACTERS = 400  # beyond it: "Query is too long. Max query length is 400 characters."
COUNT_LIMIT = 20  # documented maximum of `max_results`


@dataclass(frozen=True, slots=True)
class Tavily:
    """Web results, each with the content that matters for the query; the service's own answer is not asked for."""

    key: str = field(repr=False)
    url: str = URL

    def request(self, text: str, count: int) -> Request:
        parameters: dict[str, str | int | bool] = {
            "query": within(text, QUERY_CHARACTERS),
            "max_results": min(count, COUNT_LIMIT),
            "search_depth": "basic",
            "include_answer": False,
        }
        return Request("POST", self.url, {"authorization": f"Bearer {self.key}"}, parameters)

    def results(self, body: Any) -> list[Result]:
        if not isinstance(body, dict):
            raise Nonsense("not an object")
        return [_result(each) for each in objects(body.get("results"))]

    def refuses_key(self, status: int, content: bytes) -> bool:  # noqa: ARG002
        return status in (401, 403)


def _result(found: Any) -> Result:
    date = text_of(found.get("published_date"))
    return Result(
        text_of(found.get("title")),
        text_of(found.get("content")),
        text_of(found.get("url")),
        {"date": date} if date else {},
    )
