"""A stand-in for an engine, which answers requests of the OpenAI and Anthropic APIs as clients expect."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from modelplane.gateway.route_table import Backend, Route
from support.envoys import free_ports

WORDS = ("The", " capital", " is", " Paris")
SAID = "".join(WORDS)


def _chat(model: str, choice: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "c-1", "object": kind, "created": 1, "model": model, "choices": [{"index": 0, **choice}]}


def _message(role: str) -> dict[str, str]:
    return {"role": role, "content": SAID}


ANSWERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "/v1/chat/completions": lambda model: _chat(
        model, {"message": _message("assistant"), "finish_reason": "stop"}, "chat.completion"
    ),
    "/v1/completions": lambda model: _chat(model, {"text": SAID, "finish_reason": "stop"}, "text_completion"),
    "/v1/responses": lambda model: {
        "id": "r-1",
        "object": "response",
        "created_at": 1,
        "model": model,
        "status": "completed",
        "output": [
            {
                "id": "m-1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": SAID, "annotations": []}],
            }
        ],
    },
    "/v1/embeddings": lambda model: {
        "object": "list",
        "model": model,
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
    },
    "/v1/rerank": lambda model: {"model": model, "results": [{"index": 1, "relevance_score": 0.5}]},
    "/v1/audio/transcriptions": lambda _model: {"text": SAID},
    "/v1/images/generations": lambda _model: {"created": 1, "data": [{"b64_json": "AAAA"}]},
    "/v1/images/edits": lambda _model: {"created": 1, "data": [{"b64_json": "AAAA"}]},
    "/v1/messages": lambda model: {
        "id": "m-1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": SAID}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 4},
    },
}


@dataclass(slots=True)
class Asked:
    """A request, as the stand-in got it."""

    service: str
    path: str
    headers: dict[str, str]
    model: str | None
    bytes: int


@dataclass(slots=True)
class OpenAIServer:
    """A running stand-in."""

    port: int
    asked: list[Asked] = field(default_factory=list)

    def route(self, service: str) -> Route:
        """Return a route of a service, NAMESPACE/SERVICE, to this server."""
        backend = Backend(service, (("127.0.0.1", self.port),), prefix=f"/{service}/")
        return Route(service, f"/{service}/", (backend,))

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body: dict[str, Any] = {}
        size = 0
        if request.content_type == "multipart/form-data":
            form = await request.post()
            body = {"model": form["model"]}
            size = sum(len(part.file.read()) for part in form.values() if isinstance(part, web.FileField))
        else:
            read = await request.read()
            size, body = len(read), json.loads(read)
        headers = {name.lower(): value for name, value in request.headers.items()}
        _, namespace, name, rest = request.path.split("/", 3)
        self.asked.append(Asked(f"{namespace}/{name}", f"/{rest}", headers, body.get("model"), size))
        if f"/{rest}" not in ANSWERS:
            return web.json_response({"error": {"message": "no such path"}}, status=404)
        if body.get("stream"):
            return await _stream(request, body["model"])
        return web.json_response(ANSWERS[f"/{rest}"](body["model"]))


async def _stream(request: web.Request, model: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for word in WORDS:
        event = _chat(model, {"delta": {"content": word}}, "chat.completion.chunk")
        await response.write(f"data: {json.dumps(event)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


@asynccontextmanager
async def running_server() -> AsyncIterator[OpenAIServer]:
    """Run a stand-in on a port of its own."""
    server = OpenAIServer(next(free_ports()))
    application = web.Application(client_max_size=1 << 26)
    application.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", server.port).start()
    try:
        yield server
    finally:
        await runner.cleanup()
