"""`GET /v1/models` and `GET /v1/models/{model}`: the profiles, as the models that a chat client can choose from."""

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gateway.access.caller import Caller, Role
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
            caller = self._house.keys.caller(Headers(scope=scope))
            caller.require(Role.ASK)
            await send_json(send, 200, self._body(scope["path_params"].get("model"), caller))
        except GatewayFault as fault:
            status = status_of(fault)
            await send_json(send, status, problem(fault), headers_of(fault, status))

    def _body(self, name: str | None, caller: Caller) -> Json:
        """One model, or the list of those whose collection the caller may use. Raises ModelNotFound and CollectionForbidden."""
        profiles = self._house.profiles
        if name is not None:
            profile = profiles.of(name)
            caller.require_collection(profile.collection)
            return openai.model(profile.name, profiles.created_s)
        usable = [profile for profile in profiles if caller.may_use(profile.collection)]
        return {"object": "list", "data": [openai.model(profile.name, profiles.created_s) for profile in usable]}
