"""The messages of a chat, as its clients send them: the last of the user is the question, those before it are its history."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gateway.cleaning import clean, is_blank
from gateway.request import HISTORY_LIMIT, TURNS_LIMIT, clean_question, invalid
from streaming.ports import Turn

MESSAGES_LIMIT = 10_000  # what a body of a megabyte could hold; the newest of them are read


@dataclass(frozen=True, slots=True)
class Message:
    """One message; `unread` names a part of it that is no text (an image, a file), which nobody here can read."""

    role: Literal["user", "assistant"]
    text: str
    unread: str | None = None


def question_of(messages: Sequence[Message | None], field: str = "messages") -> tuple[str, tuple[Turn, ...]]:
    """The question and its history: of what is too long for one, the newest. None stands for a message that is left out.

    Raises InvalidRequest when there is no question, or one with a part that cannot be read.
    """
    asked = [at for at, message in enumerate(messages) if message is not None and message.role == "user"]
    if not asked:
        raise invalid(field, "holds no message of the user")
    question = messages[asked[-1]]
    assert question is not None
    if question.unread is not None:
        raise invalid(f"{field}.{asked[-1]}", f"holds a part of type {question.unread}; only text is read")
    return clean_question(question.text), newest([m for m in messages[: asked[-1]] if m is not None])


def newest(messages: Sequence[Message]) -> tuple[Turn, ...]:
    """The turns in order, cleaned, blank ones left out; of too many the last, because a chat grows and is not refused for that."""
    turns: list[Turn] = []
    size = 0
    for message in reversed(messages):
        text = clean(message.text).strip()
        size += len(text)
        if size > HISTORY_LIMIT or len(turns) == TURNS_LIMIT:
            break
        if not is_blank(text):
            turns.append(Turn(message.role, text))
    return tuple(reversed(turns))
