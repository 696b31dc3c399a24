"""``modelplane chat``: ask a ModelService something, and read the answer as it comes."""

import asyncio
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from modelplane.cli.errors import UserError
from modelplane.cli.options import home_option


@click.command()
@click.argument("service")
@click.argument("prompt", nargs=-1)
@click.option("-n", "--namespace", default="ml-team", show_default=True, help="The service's namespace.")
@click.option("--model", default="", help="The model's name, where the service serves several.")
@click.option("--max-tokens", default=128, show_default=True, help="The most tokens to answer with.")
@home_option
def chat(
    service: str, prompt: tuple[str, ...], namespace: str, model: str, max_tokens: int, home: Path | None
) -> None:
    """Ask SERVICE the PROMPT; without one, ask for prompts until the input ends."""
    address = asyncio.run(_address(service, namespace, home))
    model = model or _first_model(address)
    if prompt:
        _answer(address, model, [_user(" ".join(prompt))], max_tokens)
        return
    conversation: list[dict[str, str]] = []
    while True:
        try:
            question = click.prompt("you", prompt_suffix="> ")
        except click.Abort:
            click.echo()
            return
        conversation.append(_user(question))
        answer = _answer(address, model, conversation, max_tokens)
        conversation.append({"role": "assistant", "content": answer})


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def _address(service: str, namespace: str, home: Path | None) -> str:
    from modelplane.kube import errors, resources
    from modelplane.kube.client import Client
    from modelplane.local.home import home_directory

    kubeconfig = home_directory(home).kubeconfig
    if not kubeconfig.exists():
        raise UserError(f"no fleet was ever started in {kubeconfig.parent}: run `modelplane up`")
    what = f'ModelService "{service}" in namespace "{namespace}"'
    try:
        async with Client.from_kubeconfig(str(kubeconfig)) as client:
            found = await client.get(resources.MODEL_SERVICES, service, namespace)
            known = [item["metadata"] for item in (await client.list(resources.MODEL_SERVICES)).items]
    except errors.KubernetesError as error:
        raise UserError(f"cannot read {what}: {error}: see `modelplane status`") from error
    if found is None:
        names = sorted(f"{metadata['name']} -n {metadata['namespace']}" for metadata in known)
        there = f"there are: {', '.join(names)}" if names else "there is none at all: apply one first"
        raise UserError(f"there is no {what}; {there}")
    address = found.get("status", {}).get("address", "")
    if not address:
        hint = f"modelplane kubectl describe ms {service} -n {namespace}"
        raise UserError(f"{what} has no address yet: see `{hint}`")
    return str(address)


def _first_model(address: str) -> str:
    answer = json.loads(b"".join(_request(address, "GET", "/v1/models")))
    models = [model["id"] for model in answer.get("data", ())]
    if not models:
        raise UserError(f"{address} serves no model")
    return str(models[0])


def _answer(address: str, model: str, messages: list[dict[str, str]], max_tokens: int) -> str:
    body = {"model": model, "messages": messages, "max_tokens": max_tokens, "stream": True}
    said: list[str] = []
    for line in _lines(_request(address, "POST", "/v1/chat/completions", body)):
        data = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or data == b"[DONE]":
            continue
        for choice in json.loads(data).get("choices", ()):
            text = choice["delta"].get("content") or ""
            said.append(text)
            click.echo(text, nl=False)
    click.echo()
    return "".join(said)


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest


def _request(address: str, method: str, path: str, body: dict[str, Any] | None = None) -> Iterator[bytes]:
    """Yield a response's body as it arrives."""
    url = urlsplit(address)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=300)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, url.path + path, content, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise UserError(f"{address} answered {response.status}: {_reason(response.read())}")
        while chunk := response.read1():
            yield chunk
    except OSError as error:
        raise UserError(f"cannot reach {address}: {error}: see `modelplane status`") from error
    finally:
        connection.close()


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:300]
