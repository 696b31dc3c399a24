"""Envoys with the gateway module: its filters in the configuration, its files, and a model to ask."""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from modelplane.gateway.envoy import access_log, rewrite
from modelplane.gateway.envoy.envoy_names import ENVOY, HTTP_FILTERS
from modelplane.gateway.route_table import Front, Listener
from modelplane.host.file_system import write_private
from modelplane.proxy import admin
from support.envoys import Gateway, free_ports, running_envoy
from support.patience import PATIENCE_S

ACCESS_LOG = "access.log"
INTERNAL_HEADERS = "modelplane.internal_headers"
_OF_RECORD = (
    *("key", "namespace", "model", "stream", "error", "first_token_ms"),
    *("prompt_tokens", "completion_tokens", "total_tokens", "estimated"),
)


@dataclass(slots=True)
class Module:
    """What of the configuration is the module's."""

    library: Path
    front: dict[str, Any] | None = None
    """Configuration of the filter in front; None for none."""
    backend: dict[str, Any] = field(default_factory=dict)
    clusters: dict[str, dict[str, str]] = field(default_factory=dict)
    """Metadata of clusters, by the name of their backend."""

    def filter(self, name: str, configuration: dict[str, Any]) -> dict[str, Any]:
        return {
            "name": f"modelplane.{name}",
            "typed_config": {
                "@type": f"{HTTP_FILTERS}dynamic_modules.v3.DynamicModuleFilter",
                "dynamic_module_config": {
                    "name": self.library.stem.removeprefix("lib"),
                    "do_not_close": True,
                    "metrics_namespace": "modelplane",
                },
                "filter_name": name,
                "filter_config": {
                    "@type": "type.googleapis.com/google.protobuf.StringValue",
                    "value": json.dumps(configuration),
                },
            },
        }

    def change(self, files: dict[str, str]) -> dict[str, str]:
        """Return Envoy's files with the module in place of Lua and of the filters in front."""
        # The module's own answers have their form already.
        own = "response.code_details != 'direct_response'"
        others = f"{own} && !response.code_details.startsWith('modelplane:')"
        parsed = {name: json.loads(content.replace(own, others)) for name, content in files.items()}
        for listener in parsed["lds.json"]["resources"]:
            self.change_listener(listener)
        for cluster in parsed["cds.json"]["resources"]:
            metadata = cluster["metadata"]["filter_metadata"]["modelplane.rewrite"]
            metadata |= self.clusters.get(cluster["name"].partition("/")[2], {})
            metadata |= rewrite.describe_attempt(metadata)
        return {name: json.dumps(content) for name, content in parsed.items()}

    def change_listener(self, listener: dict[str, Any]) -> None:
        manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
        filters = manager["http_filters"]
        # The module keeps the path itself.
        filters[:] = [each for each in filters if each["name"] != "modelplane.path"]
        if self.front is not None and listener["name"] == "front-door":
            mutation = next(at for at, each in enumerate(filters) if each["name"] == INTERNAL_HEADERS)
            filters[mutation] = self.filter("front", {"internalHeaders": True, **self.front})
            for log in manager["access_log"]:
                usage_log = log["typed_config"].get("path", access_log.STANDARD_OUTPUT)
                with_record = Listener("", "", 0, usage_log=usage_log, front=Front())
                log.update(access_log.build_access_log(with_record, with_module=True)[0])
            filters[:] = [each for each in filters if each["name"] != "modelplane.usage.path"]
        upstream = filters[-1]["typed_config"]["upstream_http_filters"]
        # Instead of the header mutation and of Lua.
        upstream[-3:-1] = [self.filter("backend", self.backend)]
        manager["access_log"].append(_access_log())


def _access_log() -> dict[str, Any]:
    line = (
        '{"status":%RESPONSE_CODE%,"service":"%ROUTE_NAME%","sent":"%REQ(:path)%"'
        "%FILTER_STATE(modelplane.record:PLAIN)%}\n"
    )
    return {
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": f"{ENVOY}extensions.access_loggers.file.v3.FileAccessLog",
            "path": ACCESS_LOG,
            "log_format": {"text_format_source": {"inline_string": line}, "omit_empty_values": True},
        },
    }


def hashed(secret: str, name: str, namespace: str = "ml", **options: Any) -> dict[str, Any]:
    """Return the entry of a key."""
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return {"sha256": digest, "id": name, "namespace": namespace, "services": ["*"]} | options


_SETTLED = "sk-settled"


def write_keys(directory: Path, *keys: dict[str, Any], **grants: dict[str, Any]) -> None:
    """Replace the file of keys; a namespace without a grant has no limits. The tests have their own."""
    keys = (*keys, hashed(_SETTLED, "settled/tests", "settled", services=["settled/*"]))
    namespaces: dict[str, Any] = {key["namespace"]: {} for key in keys} | grants
    write_private(directory / "keys.json", json.dumps({"keys": keys, "namespaces": namespaces}))


@asynccontextmanager
async def gateway_with(directory: Path, module: Module, **options: Any) -> AsyncIterator[Gateway]:
    """Run an Envoy with the module."""
    environment = {"ENVOY_DYNAMIC_MODULES_SEARCH_PATH": str(module.library.parent)}
    async with running_envoy(
        directory, transform=module.change, environment=environment, **options
    ) as running:
        running.own_headers = {"x-api-key": _SETTLED}
        yield running


async def counters(directory: Path) -> dict[str, int]:
    """Return the module's counters, by their names in Prometheus' format."""
    connector = aiohttp.UnixConnector(str(admin.find_admin_socket(directory)))
    async with (
        aiohttp.ClientSession(connector=connector) as client,
        client.get("http://envoy/stats/prometheus") as response,
    ):
        text = await response.text()
    found = re.findall(r"^envoy_(modelplane_\S+) (\d+)$", text, re.MULTILINE)
    return {name: int(value) for name, value in found}


async def logged(directory: Path, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the first line of the access log that is wanted, once it is written."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            path = directory / ACCESS_LOG
            text = path.read_text() if path.exists() else ""
            for line in text.splitlines(keepends=True):
                if line.endswith("\n") and wanted(entry := _entry(line)):
                    return entry
            await asyncio.sleep(0.05)


def _entry(line: str) -> dict[str, Any]:
    """Return a line of the access log with names in Python's form; a field of a record may be None."""
    named = {
        re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name): value
        for name, value in json.loads(line).items()
    }
    return dict.fromkeys(_OF_RECORD) | named


@dataclass(slots=True)
class Model:
    """A server of the OpenAI API that answers with what it was asked, and with token counts."""

    port: int
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Path, headers and body of each request."""
    status: int = 200
    load: str | None = None
    """Report of its load with each answer that is no stream, as vLLM's, if the request asks for one."""
    delay_s: float = 0.0
    """Time to the first byte."""
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    """Lets a stream end, where a request has the header `x-wait`."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {key.lower(): value for key, value in request.headers.items()}
        self.asked.append({"path": request.raw_path, "headers": headers, "body": body.decode()})
        await asyncio.sleep(self.delay_s)
        if self.status != 200:
            return web.json_response({"error": {"message": "no"}}, status=self.status)
        asked = json.loads(body) if request.content_type == "application/json" and body else {}
        if asked.get("stream"):
            return await self._stream(request, asked)
        usage = {"prompt_tokens": 11, "completion_tokens": 22, "total_tokens": 33}
        answer = {"model": asked.get("model"), "bytes": len(body), "usage": usage}
        reports = self.load is not None and headers.get("endpoint-load-metrics-format") == "json"
        return web.json_response(
            answer, headers={"endpoint-load-metrics": self.load or ""} if reports else None
        )

    async def _stream(self, request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        events: list[Any] = [{"choices": [{"delta": {"content": str(number)}}]} for number in range(3)]
        if (asked.get("stream_options") or {}).get("include_usage"):
            events.append({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
        for number, event in enumerate([json.dumps(event) for event in events] + ["[DONE]"]):
            if number == 2 and "x-wait" in request.headers:
                await self.go_on.wait()
            await response.write(f"data: {event}\n\n".encode())
        return response


@asynccontextmanager
async def running_model() -> AsyncIterator[Model]:
    """Run a model on a port of its own."""
    model = Model(next(free_ports()))
    application = web.Application(client_max_size=1 << 30)
    application.router.add_route("*", "/{path:.*}", model.answer)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", model.port).start()
    try:
        yield model
    finally:
        await runner.cleanup()
