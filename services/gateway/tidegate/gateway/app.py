"""The tenant listener's application: model endpoints answered directly, everything else by FastAPI."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response

from tidegate.events.types import Dialect, TargetId
from tidegate.gateway import models
from tidegate.gateway.credentials import Principal
from tidegate.gateway.endpoints import ENDPOINTS
from tidegate.gateway.errors import GatewayError, render
from tidegate.gateway.exchange import App, Exchange, Message, Receive, Scope, Send, exchange_of
from tidegate.gateway.serving import Serving
from tidegate.gateway.worker import Worker

_Asker = tuple[Serving, Mapping[TargetId, bool], Principal, Dialect]


class Dispatcher:
    """Method and path decide; the path is the parsed one, never the Host."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._rest: App = build_rest(worker)

    def direct(self, exchange: Exchange) -> Awaitable[None] | None:
        """Serve a model endpoint. No coroutine of its own: every frame is passed at each wake-up."""
        head = exchange.head
        if head.method == "POST":
            endpoint = ENDPOINTS.get(head.path)
            if endpoint is not None:
                return self._worker.handle(exchange, endpoint)
        return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What FastAPI answers, with a request id as on every answer."""
        line = b"x-tidegate-request-id", self._worker.ids.next().encode()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), line]}
            await send(message)

        await self._rest(scope, receive, sending)


def build_rest(worker: Worker) -> Any:
    """Health, readiness and the routes."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.get("/healthz")
    async def healthz() -> Response:
        return _json({"status": "ok"})

    @app.get("/readyz")
    async def readyz() -> Response:
        why = worker.not_ready()
        return _json(
            {"status": "ready" if why is None else "not ready", "why": why}, 200 if why is None else 503
        )

    @app.head("/")
    async def root() -> Response:
        return Response(status_code=200)

    @app.get("/v1/models")
    async def list_models(request: Request) -> Response:
        return _told(request, lambda asker: models.listed(*asker, dict(request.query_params)))

    @app.get("/v1/models/{name:path}")
    async def show_model(name: str, request: Request) -> Response:
        return _told(request, lambda asker: models.one(*asker, name))

    def _told(request: Request, tell: Callable[[_Asker], dict[str, Any]]) -> Response:
        dialect = _dialect_of(request)
        try:
            principal = worker.caller_of(exchange_of(request.scope).head).principal
            return _json(tell((worker.serving, worker.planner.switches(), principal, dialect)))
        except GatewayError as error:
            return _failed(error, dialect)

    @app.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
    async def nothing(path: str, request: Request) -> Response:
        error = GatewayError("not_found", f"There is no {request.method} /{path} here.")
        return _failed(error, "anthropic" if path.startswith("v1/messages") else "openai")

    return app


def _dialect_of(request: Request) -> Dialect:
    """Whose client asks: `GET` has no path of a dialect's own."""
    fields = request.headers
    is_anthropic = "anthropic-version" in fields or ("x-api-key" in fields and "authorization" not in fields)
    return "anthropic" if is_anthropic else "openai"


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")


def _failed(error: GatewayError, dialect: Dialect) -> Response:
    rendered = render(error, dialect)
    return Response(rendered.body, rendered.status, media_type="application/json")
