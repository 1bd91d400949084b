"""Brave Search, as https://api-dashboard.search.brave.com/documentation describes it."""

from dataclasses import dataclass, field
from typing import Any

from gateway.providers.search.service import Nonsense, Request, Result, joined, objects, text_of, within

URL = "https://api.search.brave.com/res/v1/web/search"
QUERY_CHARACTERS, QUERY_WORDS = 400, 50  # documented limits of `q`; beyond them the service answers with 422
COUNT_LIMIT = 20  # documented maximum of `count`


@dataclass(frozen=True, slots=True)
class Brave:
    """Web results: a description, and further excerpts where the plan has them."""

    key: str = field(repr=False)
    url: str = URL

    def request(self, text: str, count: int) -> Request:
        parameters: dict[str, str | int | bool] = {
            "q": within(text, QUERY_CHARACTERS, QUERY_WORDS),
            "count": min(count, COUNT_LIMIT),
            "result_filter": "web",
            "text_decorations": "false",
        }
        headers = {"accept": "application/json", "x-subscription-token": self.key}
        return Request("GET", self.url, headers, parameters)

    def results(self, body: Any) -> list[Result]:
        """A search without results has no `web` at all."""
        if not isinstance(body, dict) or body.get("type") != "search":
            raise Nonsense("not an answer to a search")
        web = body.get("web") or {}
        if not isinstance(web, dict):
            raise Nonsense("a section of another shape")
        return [_result(each) for each in objects(web.get("results", []))]

    def refuses_key(self, status: int, content: bytes) -> bool:
        """A wrong key is a 422 with a code of its own."""
        return status in (401, 403) or (status == 422 and b"SUBSCRIPTION_TOKEN" in content)


def _result(found: Any) -> Result:
    text = joined([text_of(found.get("description")), text_of(found.get("extra_snippets"))])
    return Result(text_of(found.get("title")), text, text_of(found.get("url")), _age(found))


def _age(found: Any) -> dict[str, str]:
    age = text_of(found.get("page_age"))
    return {"date": age} if age else {}
