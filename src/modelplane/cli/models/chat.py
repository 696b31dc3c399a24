"""``modelplane chat``: send a prompt to a ModelService, and stream the answer."""

import http.client
import json
import os
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from modelplane.cli.options import format_example
from modelplane.cli.target import Target, add_namespace_option, add_target_options, read
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.kube.client import Client

_KEY = "MODELPLANE_API_KEY"


@click.command(
    epilog=format_example('modelplane chat first-answer -n ml-team "What is the capital of France?"')
)
@click.argument("service")
@click.argument("prompt", nargs=-1)
@click.option(
    "--model",
    default="",
    metavar="NAME",
    help="Name of the model. Default: the first model that the service lists.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    default=128,
    metavar="NUMBER",
    help="Maximum number of tokens in a response. Default: 128.",
)
@add_namespace_option
@add_target_options
def chat(
    service: str, prompt: tuple[str, ...], *, model: str, max_tokens: int, namespace: str, target: Target
) -> None:
    """Send PROMPT to the ModelService SERVICE, and print the response.

    Without PROMPT, start a conversation that ends with Ctrl-D. If the gateway requires API keys, set
    MODELPLANE_API_KEY to your key.
    """
    asked = _find(service, namespace, target)
    model = model or _first_model(asked)
    if prompt:
        _answer(asked, model, [_user(" ".join(prompt))], max_tokens)
        return
    click.echo(f'Model "{model}" on {asked}; press Ctrl-D to end')
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


def _find(name: str, namespace: str, target: Target) -> _Service:
    from modelplane.compose.readiness import condition_of, holds

    namespace = target.choose_namespace(namespace)
    what = _called(name, namespace)
    service = read(target, what, lambda client: _read_service(client, name, namespace))
    unready = (
        ""
        if holds(service, "Ready")
        else condition_of(service, "Ready").get("message", "it has no conditions yet")
    )
    address = service.get("status", {}).get("address", "")
    if not address:
        hint = f"modelplane kubectl describe ms {name} -n {namespace}"
        raise UserError(f"{what} has no address yet: {unready or 'the gateway has no address'}; run `{hint}`")
    return _Service(name, namespace, str(address), str(unready))


async def _read_service(client: "Client", name: str, namespace: str) -> "Mapping[str, Any]":
    """Return a ModelService; raise ``UserError`` with the names of others if there is none of that name."""
    from modelplane.cli.target import find_one
    from modelplane.controllers.fleet_resources import MODEL_SERVICES

    service = await client.get(MODEL_SERVICES, name, namespace)
    if service is None:
        everything = (await client.list(MODEL_SERVICES)).items
        return find_one(everything, MODEL_SERVICES.kind, name, namespace)
    return service


def _first_model(service: _Service) -> str:
    answer = _json(service, b"".join(_request(service, "GET", "/v1/models")))
    models = [model["id"] for model in answer.get("data", ())]
    if not models:
        raise UserError(f"{service} serves no models: {service.address}/v1/models is empty")
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
            raise UserError(f"{service} stopped in the middle of an answer: {_reason(data)}")
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
        cause = (
            "the stream ended before the answer was complete" if early else str(error) or type(error).__name__
        )
        failed = f"the connection to {service} at {service.address} failed: {cause}"
        if isinstance(error, ssl.SSLCertVerificationError):
            raise UserError(f"{failed}: set SSL_CERT_FILE to the certificate of the gateway's CA") from error
        hint = f"modelplane kubectl describe md -n {service.namespace}"
        raise UserError(f"{failed}: run `modelplane status` and `{hint}`") from error
    finally:
        connection.close()


def _refusal(service: _Service, status: int, body: bytes) -> str:
    if status == http.client.SERVICE_UNAVAILABLE and service.unready:
        return (
            f"{service} is not ready: {service.unready}\nTo wait: modelplane kubectl wait "
            f"--for=condition=Ready ms/{service.name} -n {service.namespace} --timeout=2m\nTo see why: "
            f"modelplane kubectl describe md -n {service.namespace}"
        )
    reason = _reason(body) or http.client.responses.get(status, "nothing more")
    problem = f"{service} answered {status}: {reason}"
    if status == http.client.UNAUTHORIZED:
        problem += f": set {_KEY} to the API key, such as one that `modelplane key create` prints"
    if status >= http.client.INTERNAL_SERVER_ERROR:
        problem += f": run `modelplane logs ms/{service.name} -n {service.namespace}`"
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
        raise UserError(f"{service} sent an answer that is not JSON: {body[:300].decode(errors='replace')}")
    return document
