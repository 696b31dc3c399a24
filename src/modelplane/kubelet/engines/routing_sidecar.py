"""Stand-in of llm-d's routing sidecar: ``python -m modelplane.kubelet.engines.routing_sidecar``.

It takes the flags that a decode pod's sidecar gets, and divides a request as the connector ``nixlv2`` does:
the prefill pod that the picker named computes the prompt and one token, and the pod's own engine continues
with the parameters of the transfer that the prefill pod answered. An engine without transfer of the KV cache
answers no parameters, and the pod's own engine computes the prompt again.
"""

import argparse
import asyncio
import ipaddress
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import aiohttp
from aiohttp import web

from modelplane.host import addresses
from modelplane.host.signals import run_until_signalled
from modelplane.kubelet.engines.endpoint_picker import PREFILL
from modelplane.kubelet.engines.llama_cpp import POD_ADDRESS_VARIABLE

PORT: Final = 8000
DIVIDED: Final = frozenset({"/v1/chat/completions", "/v1/completions"})
"""Paths of the requests that are divided."""

_PARAMETERS = "kv_transfer_params"
_REQUEST_ID = "x-request-id"
_NOT_FORWARDED = frozenset(
    {"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers that are not passed on (RFC 9110, "Connection"), and those that the client sets anew."""
_MOST_BODY_BYTES = 64 << 20


def build_prefill_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request to a prefill engine: the same prompt, and one token of answer."""
    asked = {key: value for key, value in body.items() if key != "stream_options"}
    asked |= {"stream": False, "max_tokens": 1}
    if "max_completion_tokens" in body:
        asked["max_completion_tokens"] = 1
    transfer = dict.fromkeys(("remote_engine_id", "remote_block_ids", "remote_host", "remote_port"))
    return asked | {_PARAMETERS: {"do_remote_decode": True, "do_remote_prefill": False, **transfer}}


def build_decode_request(body: Mapping[str, Any], answered: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request to the decode engine, given the prefill engine's answer."""
    parameters = answered.get(_PARAMETERS)
    return {**body, _PARAMETERS: parameters} if isinstance(parameters, dict) else dict(body)


def is_pod(host_port: str) -> bool:
    """Return True for the address and port of a pod of this machine: the sidecar connects to no other."""
    host, _, port = host_port.rpartition(":")
    try:
        pods = ipaddress.ip_network(addresses.POD_CIDR)
        address = ipaddress.ip_address(addresses.find_reported(host))
    except ValueError:
        return False
    return address in pods and port.isascii() and port.isdigit()


class Sidecar:
    """Server of a decode pod's port, in front of its engine."""

    def __init__(self, engine: str, session: aiohttp.ClientSession) -> None:
        self._engine = engine
        self._session = session

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on to the engine, after the prefill pod where one is named."""
        body = await request.read()
        prefill = request.headers.get(PREFILL, "")
        identity = request.headers.get(_REQUEST_ID) or str(uuid4())
        headers = {
            key: value
            for key, value in request.headers.items()
            if key.lower() not in _NOT_FORWARDED | {PREFILL, _REQUEST_ID}
        } | {_REQUEST_ID: identity}
        if prefill and is_pod(prefill) and request.method == "POST" and request.path in DIVIDED:
            body = await self._prefill(f"http://{prefill}{request.path_qs}", body, headers)
        return await self._forward(request, body, headers)

    async def _prefill(self, url: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Return the body for the decode engine; the same one if the prefill pod does not answer."""
        try:
            asked = json.loads(body)
            if not isinstance(asked, dict):
                return body
            # Not to where a pod redirects: that need not be a pod of this machine.
            async with self._session.post(
                url, json=build_prefill_request(asked), headers=headers, allow_redirects=False
            ) as response:
                answered = await response.json(content_type=None) if response.status < 300 else None
                _log_line(f"{headers[_REQUEST_ID]}: prefill at {url}: {response.status}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            _log_line(f"{headers[_REQUEST_ID]}: prefill at {url} failed: {type(error).__name__}")
            return body
        return (
            json.dumps(build_decode_request(asked, answered)).encode() if isinstance(answered, dict) else body
        )

    async def _forward(
        self, request: web.Request, body: bytes, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        url = f"{self._engine}{request.raw_path}"
        try:
            async with self._session.request(
                request.method, url, data=body or None, headers=headers, allow_redirects=False
            ) as response:
                if request.path in DIVIDED:
                    _log_line(f"{headers[_REQUEST_ID]}: decode at {url}: {response.status}")
                kept = {
                    key: value for key, value in response.headers.items() if key.lower() not in _NOT_FORWARDED
                }
                answer = web.StreamResponse(status=response.status, headers=kept)
                await answer.prepare(request)
                async for chunk in response.content.iter_any():
                    await answer.write(chunk)
                await answer.write_eof()
                return answer
        except aiohttp.ClientConnectorError as error:
            raise web.HTTPBadGateway(text=f"the engine does not answer: {error.strerror}\n") from error


def build_application(engine: str, session: aiohttp.ClientSession) -> web.Application:
    """Return the server of a decode pod whose engine is at a URL."""
    app = web.Application(client_max_size=_MOST_BODY_BYTES)
    app.router.add_route("*", "/{path:.*}", Sidecar(engine, session).handle)
    return app


async def _serve(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="routing-sidecar", allow_abbrev=False)
    for flag in ("--secure-proxy", "--kv-connector"):
        parser.add_argument(flag, required=True)
    # Pods of version 0.8 have the second one.
    parser.add_argument("--model-server-port", "--vllm-port", type=int, required=True)
    address = os.environ.get(POD_ADDRESS_VARIABLE, "127.0.0.1")
    engine = f"http://{address}:{parser.parse_args(arguments).model_server_port}"
    endless = aiohttp.ClientTimeout(total=None, sock_connect=5)
    async with aiohttp.ClientSession(timeout=endless, auto_decompress=False) as session:
        runner = web.AppRunner(build_application(engine, session))
        await runner.setup()
        await web.TCPSite(runner, address, PORT).start()
        _log_line(f"in front of the engine at {engine}")
        try:
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()  # which waits for open requests


def _log_line(sentence: str) -> None:
    sys.stderr.write(f"routing sidecar: {sentence}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    asyncio.run(run_until_signalled(_serve(sys.argv[1:])))
