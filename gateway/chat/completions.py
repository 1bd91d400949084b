"""The form of OpenAI's chat completions: `POST /v1/chat/completions`.

Fields that mean nothing here (temperature, tools, seed, ...) are passed over, as clients expect; so are messages of the system and of
tools: the gateway has instructions of its own, which what a client sends must not loosen.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.answers import Asked
from gateway.chat.messages import MESSAGES_LIMIT, Message, question_of
from gateway.chat.profiles import Profiles
from gateway.problems import InvalidRequest, RateExceeded, TooManyStreams, Unauthorized, status_of
from gateway.request import AnswerRequest, bad_fields, invalid
from retrieval.faults import GatewayFault
from streaming.ask import Ask
from streaming.wire import openai
from streaming.wire.format import Json

TOLERANT = ConfigDict(strict=True, extra="ignore", frozen=True)
CODES: Mapping[
    type[GatewayFault], str
] = {  # OpenAI's own words, which clients look for; else the code is the fault's type
    Unauthorized: "invalid_api_key",
    TooManyStreams: "rate_limit_exceeded",
    RateExceeded: "rate_limit_exceeded",
}
READ = ("text", "refusal")  # kinds of parts that are not missed when only texts are read


class PartBody(BaseModel):
    model_config = TOLERANT
    type: str
    text: str = ""


class MessageBody(BaseModel):
    model_config = TOLERANT
    role: str
    content: str | list[PartBody] | None = None


class StreamOptionsBody(BaseModel):
    model_config = TOLERANT
    include_usage: bool | None = None


class ChatBody(BaseModel):
    """What is read of the body of `POST /v1/chat/completions`."""

    model_config = TOLERANT
    model: str
    messages: Annotated[list[MessageBody], Field(min_length=1, max_length=MESSAGES_LIMIT)]
    stream: bool | None = None
    stream_options: StreamOptionsBody | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    n: Annotated[int, Field(ge=1, le=1)] | None = None


class ChatCompletions:
    """See gateway.answers.Form."""

    path = "/v1/chat/completions"

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles

    def read(self, value: object) -> Asked:
        try:
            body = ChatBody.model_validate(value)
        except ValidationError as error:
            raise InvalidRequest("the request is not valid", bad_fields(error)) from None
        with_usage = bool(body.stream_options and body.stream_options.include_usage)

        def heading(ask: Ask) -> openai.Heading:
            return openai.Heading(ask.answer_id, body.model, int(time.time()))

        return Asked(
            self._request(body),
            lambda ask: openai.OpenAI(heading(ask), with_usage=with_usage),
            lambda told, ask: openai.whole(told, heading(ask)),
        )

    def problem(self, fault: GatewayFault) -> Json:
        return problem(fault)

    def _request(self, body: ChatBody) -> AnswerRequest:
        profile = self._profiles.of(body.model)
        question, history = question_of([message(said) for said in body.messages])
        output_tokens = body.max_completion_tokens or body.max_tokens
        return AnswerRequest(
            question=question,
            history=history,
            collection=profile.collection,
            filters={},
            stream=bool(body.stream),
            options=replace(profile.options, output_tokens=output_tokens),
        )


def message(said: MessageBody) -> Message | None:
    """A turn of the user or the assistant; None for what is left out. Raises InvalidRequest for a role that nobody knows."""
    match said.role:
        case "user" | "assistant" as role:
            parts = said.content if isinstance(said.content, list) else [PartBody(type="text", text=said.content or "")]
            unread = next((part.type for part in parts if part.type not in READ), None)
            return Message(role, "\n".join(part.text for part in parts if part.type == "text"), unread)
        case "system" | "developer" | "tool" | "function":
            return None
        case _:
            raise invalid("messages", "hold a role that is not system, developer, user, assistant, tool or function")


def problem(fault: GatewayFault) -> Json:
    """`fault` as OpenAI's clients read it: its message says everything, `param` names the first field that is wrong."""
    fields = fault.fields if isinstance(fault, InvalidRequest) else ()
    said = [f"{field.path}: {field.message}" for field in fields if field.message not in str(fault)]
    code = next((code for of, code in CODES.items() if isinstance(fault, of)), fault.type)
    return openai.error("; ".join([str(fault), *said]), kind(fault), code, fields[0].path if fields else None)


def kind(fault: GatewayFault) -> str:
    """OpenAI's word for the kind of fault."""
    status = status_of(fault)
    if status == 401:
        return "authentication_error"
    if status == 403:
        return "permission_error"
    if status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"
