"""The tenant listener's application: model endpoints answered directly, everything else by FastAPI."""

from collections.abc import Awaitable
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response

from tidegate.events.types import Dialect
from tidegate.gateway.endpoints import ENDPOINTS
from tidegate.gateway.errors import GatewayError, render
from tidegate.gateway.exchange import App, Message, Receive, Scope, Send, exchange_of
from tidegate.gateway.worker import Worker


class Dispatcher:
    """Method and path decide; the path is the parsed one, never the Host."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._rest: App = build_rest(worker)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """One request. No coroutine of its own: every frame is passed at each wake-up."""
        if scope["method"] == "POST":
            endpoint = ENDPOINTS.get(scope["path"])
            if endpoint is not None:
                return self._worker.handle(exchange_of(scope), endpoint)
        return self._named(scope, receive, send)

    async def _named(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What FastAPI answers, with a request id as on every answer."""
        line = b"x-tidegate-request-id", self._worker.ids.next().encode()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), line]}
            await send(message)

        await self._rest(scope, receive, sending)


def build_rest(worker: Worker) -> Any:
    """Health, readiness and the list of routes."""
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
    async def models(request: Request) -> Response:
        try:
            principal = worker.caller_of(exchange_of(request.scope).head).principal
        except GatewayError as error:
            return _failed(error, _dialect_of(request))
        routes = [route for route in worker.serving.routes.values() if principal.may_use(route.name)]
        if _dialect_of(request) == "anthropic":
            return _json(_anthropic_models([route.name for route in routes]))
        data = [
            {"id": route.name, "object": "model", "created": 0, "owned_by": "tidegate"} for route in routes
        ]
        return _json({"object": "list", "data": data})

    @app.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
    async def nothing(path: str, request: Request) -> Response:
        error = GatewayError("not_found", f"There is no {request.method} /{path} here.")
        return _failed(error, "anthropic" if path.startswith("v1/messages") else "openai")

    return app


def _dialect_of(request: Request) -> Dialect:
    return "anthropic" if "anthropic-version" in request.headers else "openai"


def _anthropic_models(names: list[str]) -> dict[str, Any]:
    data = [
        {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
        for name in names
    ]
    return {
        "data": data,
        "has_more": False,
        "first_id": names[0] if names else None,
        "last_id": names[-1] if names else None,
    }


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")


def _failed(error: GatewayError, dialect: Dialect) -> Response:
    rendered = render(error, dialect)
    return Response(rendered.body, rendered.status, media_type="application/json")
