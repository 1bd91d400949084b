"""Health: `/healthz` says that the loop is alive, `/readyz` whether new questions should be sent here."""

from starlette.types import Receive, Scope, Send

from gateway.house import House
from gateway.problems import send_json


class Healthz:
    """200 as long as the event loop turns: no database and no model is asked, so that their outages restart nothing."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send_json(send, 200, {"status": "ok"})


class Readyz:
    """200 when ready, 503 when draining. A house is put together whole before it is served, so the rest is known by then.

    An upstream that is left alone is shown and changes no status: every replica would be taken out of service for it, refusals and
    kept answers with them.
    """

    def __init__(self, house: House) -> None:
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        is_draining = self._house.open_answers.is_draining
        detail = {
            "status": "draining" if is_draining else "ready",
            "models": dict(self._house.models),
            "upstreams": self._house.breakers.shown(),
            "open_answers": self._house.open_answers.count,
        }
        await send_json(send, 503 if is_draining else 200, detail)
