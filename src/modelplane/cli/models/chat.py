"""``modelplane chat``: send a prompt to a ModelService, and stream the answer."""

import asyncio
import http.client
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from modelplane.cli.errors import UserError
from modelplane.cli.machine.running import require_running
from modelplane.cli.options import add_home_option

_KEY = "MODELPLANE_API_KEY"


@click.command()
@click.argument("service")
@click.argument("prompt", nargs=-1)
@click.option("-n", "--namespace", default="ml-team", show_default=True, help="Namespace of the service.")
@click.option("--model", default="", help="Name of the model, if the service serves several.")
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    default=128,
    show_default=True,
    help="Largest number of tokens in an answer.",
)
@add_home_option
def chat(
    service: str, prompt: tuple[str, ...], namespace: str, model: str, max_tokens: int, home: Path | None
) -> None:
    """Send the PROMPT to SERVICE and print the answer; without a PROMPT, hold a conversation until Ctrl-D.

    For a gateway that requires API keys, set MODELPLANE_API_KEY to one.
    """
    asked = asyncio.run(_find(service, namespace, home))
    model = model or _first_model(asked)
    if prompt:
        _answer(asked, model, [_user(" ".join(prompt))], max_tokens)
        return
    click.echo(f'Model "{model}" of {asked}; Ctrl-D ends')
    conversation: list[dict[str, str]] = []
    while True:
        try:
            question = click.prompt("you", prompt_suffix="> ")
        except click.Abort as abort:
            click.echo()
            # The end of the input ends the conversation; Ctrl-C ends it like any command.
            if isinstance(abort.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            return
        conversation.append(_user(question))
        answer = _answer(asked, model, conversation, max_tokens)
        conversation.append({"role": "assistant", "content": answer})


@dataclass(frozen=True, slots=True)
class _Service:
    """A ModelService at the time of the command."""

    name: str
    namespace: str
    address: str
    unready: str
    """The reason why it is not ready; empty if it is."""

    def __str__(self) -> str:
        return _called(self.name, self.namespace)


def _called(name: str, namespace: str) -> str:
    return f'ModelService "{name}" in namespace "{namespace}"'


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def _find(name: str, namespace: str, home: Path | None) -> _Service:
    from modelplane.compose.readiness import condition_of, holds
    from modelplane.controllers import fleet_resources
    from modelplane.kube import errors
    from modelplane.kube.client import Client
    from modelplane.local.home import choose_home

    place = choose_home(home)
    require_running(place)
    what = _called(name, namespace)
    try:
        async with Client.from_kubeconfig(str(place.kubeconfig)) as client:
            service = await client.get(fleet_resources.MODEL_SERVICES, name, namespace)
            services = [
                item["metadata"] for item in (await client.list(fleet_resources.MODEL_SERVICES)).items
            ]
    except errors.KubernetesError as error:
        raise UserError(f"cannot read {what}: {error}: see `modelplane status`") from error
    if service is None:
        names = sorted(f"{metadata['name']} -n {metadata['namespace']}" for metadata in services)
        choice = f"there are: {', '.join(names)}" if names else "there is none at all: apply one first"
        raise UserError(f"there is no {what}; {choice}")
    unready = "" if holds(service, "Ready") else condition_of(service, "Ready").get("message", "it is new")
    address = service.get("status", {}).get("address", "")
    if not address:
        hint = f"modelplane kubectl describe ms {name} -n {namespace}"
        raise UserError(f"{what} has no address yet: {unready or 'its gateway has none'}: see `{hint}`")
    return _Service(name, namespace, str(address), str(unready))


def _first_model(service: _Service) -> str:
    answer = _json(service, b"".join(_request(service, "GET", "/v1/models")))
    models = [model["id"] for model in answer.get("data", ())]
    if not models:
        raise UserError(f"{service} serves no model: {service.address}/v1/models lists none")
    return str(models[0])


def _answer(service: _Service, model: str, messages: list[dict[str, str]], max_tokens: int) -> str:
    body = {"model": model, "messages": messages, "max_tokens": max_tokens, "stream": True}
    answer = _say(_pieces(service, _request(service, "POST", "/v1/chat/completions", body)))
    click.echo("" if answer else "(the answer is empty)")
    return answer


def _say(pieces: Iterable[str]) -> str:
    """Print a text as it arrives, without leading and trailing blanks; return it."""
    answer = held = ""
    try:
        for piece in pieces:
            text = held + piece if answer else piece.lstrip()
            shown = text.rstrip()
            held = text[len(shown) :]
            answer += shown
            click.echo(shown, nl=False)
    except BaseException:
        if answer:
            click.echo()
        raise
    return answer


def _pieces(service: _Service, chunks: Iterator[bytes]) -> Iterator[str]:
    """Yield the pieces of an answer streamed as server-sent events."""
    for line in _lines(chunks):
        data = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or data == b"[DONE]":
            continue
        event = _json(service, data)
        if "error" in event:
            raise UserError(f"{service} broke off its answer: {_reason(data)}")
        for choice in event.get("choices", ()):
            yield (choice.get("delta") or {}).get("content") or ""


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest


def _request(
    service: _Service, method: str, path: str, body: dict[str, Any] | None = None
) -> Iterator[bytes]:
    """Yield a response's body as it arrives."""
    url = urlsplit(service.address)
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=300)
    try:
        content = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(_KEY):
            headers["Authorization"] = f"Bearer {key}"
        connection.request(method, url.path + path, content, headers)
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise UserError(_refusal(service, response.status, response.read()))
        while chunk := response.read1():
            yield chunk
    except (OSError, http.client.HTTPException) as error:
        early = isinstance(error, http.client.IncompleteRead)
        cause = "it ended before the answer did" if early else str(error) or type(error).__name__
        failed = f"the connection to {service} at {service.address} failed: {cause}"
        hint = f"modelplane kubectl describe md -n {service.namespace}"
        raise UserError(f"{failed}: see `modelplane status` and `{hint}`") from error
    finally:
        connection.close()


def _refusal(service: _Service, status: int, body: bytes) -> str:
    if status == http.client.SERVICE_UNAVAILABLE and service.unready:
        return (
            f"{service} is not ready: {service.unready}\n"
            f"Wait for it: modelplane kubectl wait --for=condition=Ready ms/{service.name} "
            f"-n {service.namespace} --timeout=2m\n"
            f"Or see why it is not: modelplane kubectl describe md -n {service.namespace}"
        )
    reason = _reason(body) or http.client.responses.get(status, "nothing more")
    problem = f"{service} answered {status}: {reason}"
    if status == http.client.UNAUTHORIZED:
        problem += f": set {_KEY} to the API key, such as one that `modelplane key create` prints"
    if status >= http.client.INTERNAL_SERVER_ERROR:
        problem += f": see `modelplane logs ms/{service.name} -n {service.namespace}`"
    return problem


_MESSAGES = (("error", "message"), ("error",), ("message",), ("detail",))
"""Fields in which servers of the OpenAI API, and their frameworks, put an error's message."""


def _reason(body: bytes) -> str:
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    for path in _MESSAGES:
        value = document
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str) and value:
            return " ".join(value.split())
    return " ".join(body.decode(errors="replace").split())[:300]


def _json(service: _Service, body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise UserError(f"{service} did not answer in JSON: {body[:300].decode(errors='replace')}")
    return document
