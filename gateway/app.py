"""The application: routes to handlers, faults to bodies. No middleware of ours: each handler is plain ASGI."""

from collections.abc import Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.answers import Answers, Form
from gateway.chat.completions import ChatCompletions
from gateway.chat.completions import problem as openai_problem
from gateway.chat.models_route import ONE_ROUTE as MODEL_ROUTE
from gateway.chat.models_route import ROUTE as MODELS_ROUTE
from gateway.chat.models_route import ModelsRoute
from gateway.chat.profiles import Profiles
from gateway.chat.ui_chat import UiChat
from gateway.gap_routes import ROUTE as GAPS_ROUTE
from gateway.gap_routes import Gaps
from gateway.health import Healthz, Readyz
from gateway.house import House
from gateway.keeping.resume import ONE_ROUTE as ANSWER_ROUTE
from gateway.keeping.resume import ROUTE as EVENTS_ROUTE
from gateway.keeping.resume import Events, Stop
from gateway.native_form import NativeForm
from gateway.observing.metrics_route import ROUTE as METRICS_ROUTE
from gateway.observing.metrics_route import SLOW_ROUTE, MetricsRoute, SlowestRoute
from gateway.openapi import ROUTE as OPENAPI_ROUTE
from gateway.openapi import OpenApi
from gateway.problems import MethodNotAllowed, RouteNotFound, body_of, defect, headers_of, status_of
from gateway.uploads.passages import ROUTE as PASSAGE_ROUTE
from gateway.uploads.passages import PassageRoute
from gateway.uploads.routes import ONE_ROUTE as DOCUMENT_ROUTE
from gateway.uploads.routes import ROUTE as DOCUMENTS_ROUTE
from gateway.uploads.routes import DocumentsRoute
from gateway.web import LATENCY_ROUTE, Page
from gateway.web import ROUTES as PAGE_ROUTES
from retrieval.faults import GatewayFault
from streaming.wire.format import dumps

JSON = "application/json"
OPENAI_PATHS = (
    "/v1/chat/",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/models",
    "/v1/responses",
)  # where its clients knock


class Application(Starlette):
    """Starlette's, but for questions: they go to their route straight away.

    What lies between would be on the stack of every open stream, eight calls deep: 3 KiB. There is nothing in it for a route that refuses
    and breaks in its own words.
    """

    def __init__(self, answers: Mapping[str, ASGIApp], **given: Any) -> None:
        super().__init__(**given)
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._answers.get(scope["path"]) if scope.get("method") == "POST" else None
        await (super().__call__ if route is None else route)(scope, receive, send)


def application(house: House) -> Starlette:
    """The ASGI application that serves `house`. The house outlives it: whoever put it together closes it."""
    answers = {form.path: Answers(house, form) for form in forms(house.profiles)}
    app = Application(
        answers,
        routes=[
            *(Route(path, route, methods=["POST"]) for path, route in answers.items()),
            Route(MODELS_ROUTE, models := ModelsRoute(house), methods=["GET"]),
            Route(MODEL_ROUTE, models, methods=["GET"]),
            Route(EVENTS_ROUTE, Events(house), methods=["GET"]),
            Route(ANSWER_ROUTE, Stop(house), methods=["DELETE"]),
            Route(DOCUMENTS_ROUTE, documents := DocumentsRoute(house), methods=["GET", "POST"]),
            Route(DOCUMENT_ROUTE, documents, methods=["DELETE"]),
            Route(PASSAGE_ROUTE, PassageRoute(house), methods=["GET"]),
            Route(GAPS_ROUTE, Gaps(house), methods=["GET"]),
            Route(OPENAPI_ROUTE, OpenApi(), methods=["GET"]),
            Route("/healthz", Healthz(), methods=["GET"]),
            Route("/readyz", Readyz(house), methods=["GET"]),
            Route(METRICS_ROUTE, MetricsRoute(house), methods=["GET"]),
            Route(SLOW_ROUTE, SlowestRoute(house), methods=["GET"]),
            Route(LATENCY_ROUTE, Page("latency.html"), methods=["GET"]),
            *(Route(path, Page(), methods=["GET"]) for path in PAGE_ROUTES),
        ],
        exception_handlers={404: not_found, 405: method_not_allowed, 500: broken},
    )
    app.router.redirect_slashes = False  # a redirected POST is sent again by some clients, as a GET by others
    return app


CORS_METHODS = ("GET", "POST", "DELETE")
CORS_SHOWN = ("retry-after", "x-should-retry", "x-vercel-ai-ui-message-stream")


def served(house: House) -> ASGIApp:
    """The application of `house`. Browsers are told which pages of other origins may ask, before they ask and with each response."""
    app = application(house)
    if not house.origins:
        return app
    return CORSMiddleware(
        app, house.origins, allow_methods=CORS_METHODS, allow_headers=("*",), expose_headers=CORS_SHOWN
    )


def forms(profiles: Profiles) -> tuple[Form, ...]:
    """The forms in which a question is taken."""
    return NativeForm(), ChatCompletions(profiles), UiChat(profiles)


def not_found(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return unrouted(request, RouteNotFound("there is nothing at this path"))


def method_not_allowed(request: Request, error: Exception) -> Response:
    allowed = (error.headers or {}).get("Allow", "") if isinstance(error, HTTPException) else ""
    return unrouted(request, MethodNotAllowed(f"{request.method} is not answered here"), {"Allow": allowed})


def unrouted(request: Request, fault: GatewayFault, headers: dict[str, str] | None = None) -> Response:
    """The response to a request that no route takes, in the shape that is read where it came."""
    body = openai_problem(fault) if request.url.path.startswith(OPENAI_PATHS) else body_of(fault)
    told = {**(headers or {}), **{name.decode(): value.decode() for name, value in headers_of(fault, status_of(fault))}}
    return Response(dumps(body), status_of(fault), told, media_type=JSON)


def broken(request: Request, error: Exception) -> Response:  # noqa: ARG001
    """The body of a defect of ours; the server logs the traceback, the client sees none of it."""
    fault = defect()
    return Response(dumps(body_of(fault)), status_of(fault), media_type=JSON)
