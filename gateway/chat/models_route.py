"""`GET /v1/models` and `GET /v1/models/{model}`: the profiles, as the models that a chat client can choose from."""

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gateway.chat.completions import problem
from gateway.house import House
from gateway.problems import headers_of, send_json, status_of
from retrieval.faults import GatewayFault
from streaming.wire import openai
from streaming.wire.format import Json

ROUTE = "/v1/models"
ONE_ROUTE = "/v1/models/{model:path}"


class ModelsRoute:
    """The ASGI application of both routes."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        try:
            self._house.keys.check(Headers(scope=scope))
            await send_json(send, 200, self._body(scope["path_params"].get("model")))
        except GatewayFault as fault:
            status = status_of(fault)
            await send_json(send, status, problem(fault), headers_of(fault, status))

    def _body(self, name: str | None) -> Json:
        """One model, or the list of them. Raises ModelNotFound."""
        profiles = self._house.profiles
        if name is not None:
            return openai.model(profiles.of(name).name, profiles.created_s)
        return {"object": "list", "data": [openai.model(profile.name, profiles.created_s) for profile in profiles]}
