"""The form of the AI SDK's chats: `POST /api/chat`, as `useChat` sends it by its default transport."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.answers import Asked
from gateway.chat.messages import MESSAGES_LIMIT, Message, question_of
from gateway.chat.profiles import Profiles
from gateway.native_form import whole
from gateway.problems import InvalidRequest, body_of
from gateway.request import AnswerRequest, bad_fields
from retrieval.faults import GatewayFault
from streaming.wire import aisdk
from streaming.wire.format import Json

TOLERANT = ConfigDict(strict=True, extra="ignore", frozen=True)


class PartBody(BaseModel):
    model_config = TOLERANT
    type: str
    text: str = ""


class MessageBody(BaseModel):
    model_config = TOLERANT
    role: Literal["system", "user", "assistant"]
    parts: list[PartBody]


class UiChatBody(BaseModel):
    """What is read of the body of `POST /api/chat`; `model` names a profile."""

    model_config = TOLERANT
    messages: Annotated[list[MessageBody], Field(min_length=1, max_length=MESSAGES_LIMIT)]
    model: str | None = None


class UiChat:
    """See gateway.answers.Form."""

    path = "/api/chat"

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles

    def read(self, value: object) -> Asked:
        try:
            body = UiChatBody.model_validate(value)
        except ValidationError as error:
            raise InvalidRequest("the request is not valid", bad_fields(error)) from None
        profile = self._profiles.of(body.model)
        question, history = question_of([message(said) for said in body.messages])
        request = AnswerRequest(question, history, profile.collection, {}, stream=True, options=profile.options)
        return Asked(request, lambda ask: aisdk.AiSdk(), whole)  # noqa: ARG005

    def problem(self, fault: GatewayFault) -> Json:
        return body_of(fault)


def message(said: MessageBody) -> Message | None:
    """A turn of the user or the assistant: its text parts. Instructions of the system are left out."""
    if said.role == "system":
        return None
    texts = [part.text for part in said.parts if part.type == "text"]
    unread = next((part.type for part in said.parts if part.type == "file"), None)
    return Message(said.role, "\n".join(texts), unread)
