"""Bodies that name another model than that of an endpoint, which pays with its owner's credential.

Each case is refused, or the backend receives a body that every reader takes for the endpoint's model.
"""

import gzip
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from modelplane.gateway.route_table import Backend
from support.envoys import Gateway, running_envoy, service
from support.gateway_module import Model, running_model
from support.raw_http import statuses

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

PATH = "/ml/qwen/v1/chat/completions"
JSON, FORM = "application/json", "multipart/form-data; boundary=b"
REFUSED = {400, 415}


def form(*heads: str, end: str = "\r\n") -> bytes:
    """Return a form with one part for each head, whose value is the expensive model."""
    parts = [f"--b{end}{head}{end}{end}expensive{end}" for head in heads]
    return ("".join(parts) + f"--b--{end}").encode()


def named(parameter: str) -> bytes:
    return form(f"Content-Disposition: form-data; {parameter}")


CHEAP = 'Content-Disposition: form-data; name="model"'

JSON_BODIES: dict[str, bytes] = {
    "another case beside it": b'{"model":"cheap","Model":"expensive"}',
    "another case before it": b'{"MODEL":"expensive","model":"cheap"}',
    "another case alone": b'{"Model":"expensive"}',
    "another case, escaped": b'{"model":"cheap","\\u004dodel":"expensive"}',
    "another case of the last letter, escaped": b'{"model":"cheap","mode\\u004C":"expensive"}',
    "twice": b'{"model":"cheap","model":"expensive"}',
    "twice, once escaped": b'{"model":"cheap","m\\u006fdel":"expensive"}',
    "another document behind it": b'{"model":"cheap"}{"model":"expensive"}',
    "another line behind it": b'{"model":"cheap"}\n{"model":"expensive"}',
    "in a list": b'[{"model":"expensive"}]',
    "behind a byte order mark": b'\xef\xbb\xbf{"model":"expensive"}',
    "in UTF-16": json.dumps({"model": "expensive"}).encode("utf-16"),
    "in UTF-16 without a mark": json.dumps({"model": "expensive"}).encode("utf-16-le"),
    "in UTF-32": json.dumps({"model": "expensive"}).encode("utf-32"),
    "behind a comment": b'/* x */{"model":"expensive"}',
    "in simple quotes": b"{'model':'expensive'}",
    "without quotes": b'{model:"expensive"}',
    "before a comma at the end": b'{"model":"expensive",}',
    "in a value that is cut off": b'{"x":"\\ud800","Model":"expensive"}',
}

FORMS: dict[str, bytes] = {
    "an extended name": named("name*=UTF-8''model"),
    "a name in parts": named('name*0="mod"; name*1="el"'),
    "a name in one part": named('name*0="model"'),
    "a folded header": form('Content-Disposition: form-data;\r\n name="model"'),
    "a backslash": named('name="mo\\del"'),
    "a decoy before it": named('x="; name=\\"a\\""; name="model"'),
    "a name twice": named('name="a"; name="model"'),
    "a parameter in another case": named('NAME="model"'),
    "a name without quotes": named("name=model"),
    "another case of the name": named('name="Model"'),
    "spaces at the equals sign": named('name = "model"'),
    "a space behind the name": named('name="model "'),
    "a tab before the parameter": form('Content-Disposition: form-data;\tname="model"'),
    "a percent sign": named('name="%6dodel"'),
    "another type of the part": form('Content-Disposition: attachment; name="model"'),
    "a header twice": form('Content-Disposition: form-data; name="a"\r\n' + CHEAP),
    "a header with a space before the colon": form('Content-Disposition : form-data; name="model"'),
    "the header in another case": form('CONTENT-DISPOSITION: form-data; name="model"'),
    "a value in base64": form(f"{CHEAP}\r\nContent-Transfer-Encoding: base64"),
    "a value in UTF-16": form(f"{CHEAP}\r\nContent-Type: text/plain; charset=utf-16"),
    "a file": named('name="model"; filename="x"'),
    "two parts": form(CHEAP, CHEAP),
    "lines without carriage returns": form(CHEAP, end="\n"),
    "a part behind the end": form('Content-Disposition: form-data; name="a"') + form(CHEAP),
    "a part before the beginning": b"x\r\n" + form(CHEAP),
}

TYPES: dict[str, tuple[str, bytes]] = {
    "a form in the address's encoding": ("application/x-www-form-urlencoded", b"model=expensive"),
    "plain text": ("text/plain", b'{"model":"expensive"}'),
    "no type": ("", b'{"model":"expensive"}'),
    "another character set": ("application/json; charset=utf-16", b'{"model":"expensive"}'),
    "lines of JSON": ("application/x-ndjson", b'{"model":"expensive"}'),
    "JSON with comments": ("application/json5", b'{"model":"expensive"}'),
    "binary JSON": ("application/cbor", b"\xa1\x65model\x69expensive"),
    "another kind of form": ("multipart/mixed; boundary=b", form(CHEAP)),
    "two boundaries": ("multipart/form-data; boundary=a; boundary=b", form(CHEAP)),
    "an extended boundary": ("multipart/form-data; boundary*=UTF-8''b", form(CHEAP)),
    "two types": ("text/plain, application/json", b'{"model":"expensive"}'),
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The gateway, and the server of an endpoint with a model."""

    gateway: Gateway
    model: Model

    async def answer(self, type_: str, body: bytes, *lines: str, query: str = "") -> tuple[int, list[str]]:
        """Return the status, and the bodies that the server received."""
        self.model.asked.clear()
        head = [f"POST {PATH}{query} HTTP/1.1", "host: gateway", "connection: close", *lines]
        head += [f"content-type: {type_}"] if type_ else []
        head += [f"content-length: {len(body)}"]
        [status] = await statuses(self.gateway.port, "\r\n".join([*head, "", ""]).encode() + body)
        return status, [each["body"] for each in self.model.asked]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def endpoint(tmp_path_factory: pytest.TempPathFactory, module_library: Path) -> AsyncIterator[Endpoint]:
    async with (
        running_model() as model,
        running_envoy(tmp_path_factory.mktemp("models"), library=module_library) as gateway,
    ):
        await gateway.apply(service(Backend("ml/cheap", (("127.0.0.1", model.port),), model="cheap")))
        yield Endpoint(gateway, model)


def names_only_cheap(body: str) -> bool:
    """Return True if no reader finds another model in a body."""
    return "cheap" in body and not re.search("expensive", body)


async def test_a_body_without_a_model_gets_that_of_the_endpoint(endpoint: Endpoint) -> None:
    for body in (b"{}", b'{"model":"expensive"}', b'{"messages":[]}'):
        status, [seen] = await endpoint.answer(JSON, body)
        assert (status, json.loads(seen)["model"]) == (200, "cheap")


@pytest.mark.parametrize("body", JSON_BODIES.values(), ids=JSON_BODIES)
async def test_json_chooses_no_other_model(endpoint: Endpoint, body: bytes) -> None:
    status, seen = await endpoint.answer(JSON, body)
    assert (status in REFUSED and not seen) or [*map(names_only_cheap, seen)] == [True], (status, seen)


@pytest.mark.parametrize("body", FORMS.values(), ids=FORMS)
async def test_a_form_chooses_no_other_model(endpoint: Endpoint, body: bytes) -> None:
    status, seen = await endpoint.answer(FORM, body)
    assert (status in REFUSED and not seen) or [*map(names_only_cheap, seen)] == [True], (status, seen)


@pytest.mark.parametrize(("type_", "body"), TYPES.values(), ids=TYPES)
async def test_a_body_of_another_type_chooses_no_model(endpoint: Endpoint, type_: str, body: bytes) -> None:
    status, seen = await endpoint.answer(type_, body)
    assert (status in REFUSED and not seen) or [*map(names_only_cheap, seen)] == [True], (status, seen)


@pytest.mark.parametrize("encoding", ["gzip", "identity, gzip", "x-gzip", "br", "deflate"])
async def test_a_compressed_body_chooses_no_model(endpoint: Endpoint, encoding: str) -> None:
    body = gzip.compress(b'{"model":"expensive"}')
    status, seen = await endpoint.answer(JSON, body, f"content-encoding: {encoding}")
    assert status in REFUSED
    assert not seen


@pytest.mark.parametrize("query", ["?model=expensive", "?a=1&MODEL=expensive", "?%6dodel=expensive"])
@pytest.mark.parametrize("body", [b"{}", b""], ids=["with a body", "without one"])
async def test_a_query_chooses_no_model(endpoint: Endpoint, query: str, body: bytes) -> None:
    assert await endpoint.answer(JSON, body, query=query) == (400, [])
