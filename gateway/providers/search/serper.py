"""Serper (Google results), as https://serper.dev describes it."""

from dataclasses import dataclass, field
from typing import Any

from gateway.providers.search.service import Nonsense, Request, Result, objects, text_of, within

URL = "https://google.serper.dev/search"
QUERY_CHARACTERS = 2_000  # no documented limit; an address of the search engine behind it takes about this much
COUNT_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Serper:
    """The highlighted answer with its page, where there is one, then the organic results."""

    key: str = field(repr=False)
    url: str = URL

    def request(self, text: str, count: int) -> Request:
        parameters: dict[str, str | int | bool] = {
            "q": within(text, QUERY_CHARACTERS),
            "num": min(count, COUNT_LIMIT),
        }
        return Request("POST", self.url, {"x-api-key": self.key}, parameters)

    def results(self, body: Any) -> list[Result]:
        if not isinstance(body, dict) or not {"organic", "searchParameters"} & body.keys():
            raise Nonsense("not an answer to a search")
        box = body.get("answerBox")
        boxed = [_result(box)] if isinstance(box, dict) and box.get("link") else []
        return boxed + [_result(each) for each in objects(body.get("organic", []))]

    def refuses_key(self, status: int, content: bytes) -> bool:  # noqa: ARG002
        """A wrong key is a 403 here."""
        return status in (401, 403)


def _result(found: Any) -> Result:
    text = text_of(found.get("snippet")) or text_of(found.get("answer"))
    date = text_of(found.get("date"))
    return Result(text_of(found.get("title")), text, text_of(found.get("link")), {"date": date} if date else {})
