"""A prompt -> the body of a Messages request. Pure.

What a later request about the same question has in common with this one comes first, in the same bytes: the system prompt, the history,
the passages in their order; a merged set goes on where the first one ended. What differs, and the question to a model that answers, come
last. A service that keeps what it has read (https://platform.claude.com/docs/en/build-with-claude/prompt-caching) finds it again, block
by block; it is asked to keep it up to the last passage, by the mark KEPT, only where the setting says so: keeping costs.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from grading.prompts import visible
from retrieval.passage import Passage
from streaming.ports import Prompt, Turn

if TYPE_CHECKING:
    from anthropic.types import CacheControlEphemeralParam, MessageParam, SearchResultBlockParam, TextBlockParam

KEPT: "Final[CacheControlEphemeralParam]" = {"type": "ephemeral"}
"""Marks the last block of what is to be kept."""

# The service cites whole blocks, so a passage goes in sentence by sentence: a quote is then what supports, not the page it stands on.
# The pattern begins with one set of characters, which `re` skips to: six times as fast as three alternatives tried at every place.
SENTENCE_END = re.compile(r"[.!?。！？\n](?:(?<=[。！？])|(?<=[.!?])\s+(?=\S)|(?<=\n)\n*(?=\S))")


def citable(prompt: Prompt) -> tuple[tuple[int, Passage], ...]:
    """The numbered passages that can be sent: the service takes no blank text."""
    return tuple((n, passage) for n, passage in prompt.passages if visible(passage.text).strip())


def messages(prompt: Prompt, *, keeps: bool = False) -> "list[MessageParam]":
    """The earlier turns, then one turn of the user: the passages as search results in order, and the question."""
    question: TextBlockParam = {"type": "text", "text": visible(prompt.question)}
    results = [_search_result(each) for each in citable(prompt)]
    if keeps and results:
        results[-1]["cache_control"] = KEPT
    return [*_earlier(prompt.history), {"role": "user", "content": [*results, question]}]


def texts(parts: Sequence[str], *, keeps: bool = False) -> "list[TextBlockParam]":
    """A text in parts, as blocks, of which a later request may have the first ones."""
    blocks: list[TextBlockParam] = [{"type": "text", "text": part} for part in parts]
    if keeps and blocks:
        blocks[-1]["cache_control"] = KEPT
    return blocks


def sentences(text: str) -> list[str]:
    """`text` in its sentences, with their white space; joined they are `text` again."""
    ends = [found.end() for found in SENTENCE_END.finditer(text)]
    parts = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    whole: list[str] = []
    for part in parts:
        if whole and not (part.strip() and whole[-1].strip()):  # no block may be blank
            whole[-1] += part
        elif part:
            whole.append(part)
    return whole


def _search_result(numbered: tuple[int, Passage]) -> "SearchResultBlockParam":
    number, passage = numbered
    return {
        "type": "search_result",
        "source": visible(passage.url or passage.document_id) or f"passage {number}",
        "title": visible(passage.title) or f"Passage {number}",
        "content": [{"type": "text", "text": part} for part in sentences(visible(passage.text))],
        "citations": {"enabled": True},
    }


def _earlier(history: tuple[Turn, ...]) -> "list[MessageParam]":
    """The turns that the service takes: none blank, the first one the user's."""
    said = [turn for turn in history if visible(turn.content).strip()]
    while said and said[0].role != "user":
        said = said[1:]
    return [_message(turn) for turn in said]


def _message(turn: Turn) -> "MessageParam":
    if turn.role == "assistant":
        return {"role": "assistant", "content": visible(turn.content)}
    return {"role": "user", "content": visible(turn.content)}
