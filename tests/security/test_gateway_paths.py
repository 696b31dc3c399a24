"""Paths that another server could read differently: refused, and never sent to a backend in another form."""

import asyncio
import json

import pytest

from support.envoys import Gateway, engines, raw_get, service

pytestmark = pytest.mark.kubernetes


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/ml/public/../secret/x", id="a dot segment"),
        pytest.param("/ml/public/./x", id="a single dot"),
        pytest.param("/ml/public/..", id="a dot segment at the end"),
        pytest.param("/ml/public/..;/secret/x", id="a dot segment with a parameter"),
        pytest.param("/ml/public/..;a=b/../secret/x", id="a dot segment with a named parameter"),
        pytest.param("/ml/public/..%3b/secret/x", id="a dot segment with an encoded semicolon"),
        pytest.param("/ml/public/..\\secret/x", id="a backslash after dots"),
        pytest.param("/ml/public\\..\\secret/x", id="backslashes"),
        pytest.param("/ml/public/%5c..%5Csecret/x", id="encoded backslashes"),
        pytest.param("/ml/public/..%2Fsecret/x", id="an encoded slash after dots"),
        pytest.param("/ml/public/a%2fb", id="an encoded slash"),
        pytest.param("/ml/public/%2e%2E/secret/x", id="encoded dots"),
        pytest.param("/ml/public/.%2e/secret/x", id="a dot and an encoded one"),
        pytest.param("/..;/ml/secret/x", id="at the beginning"),
    ],
)
async def test_a_path_with_two_readings_is_refused(gateway: Gateway, path: str) -> None:
    async with engines("public", "secret") as (public, secret):
        await gateway.apply(
            service(public.backend(), name="public"),
            service(secret.backend(), name="secret"),
        )
        body = json.loads(await raw_get(gateway.port, path))
    assert body == {
        "error": {
            "message": 'the path has a segment "." or "..", a backslash, or an encoded slash, backslash or '
            "dot (%2F, %5C, %2E), which servers interpret differently: remove it from the path",
            "type": "invalid_request_error",
            "param": None,
            "code": "ambiguous_path",
        }
    }


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        pytest.param("/v1/models/a.b/..c", "/v1/models/a.b/..c", id="dots in a name"),
        pytest.param("/v1/a;b=c/d", "/v1/a;b=c/d", id="a parameter"),
        pytest.param("/v1/a%20b%25", "/v1/a%20b%25", id="another escape"),
        pytest.param("/v1/x?path=../a%2Fb\\c", "/v1/x?path=../a%2Fb\\c", id="a query"),
    ],
)
async def test_every_other_path_reaches_the_backend_unchanged(gateway: Gateway, sent: str, seen: str) -> None:
    async with engines("a") as (engine,):
        await gateway.apply(service(engine.backend()))
        assert json.loads(await raw_get(gateway.port, f"/ml/qwen{sent}"))["path"] == seen


async def test_the_status_is_400(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"GET /ml/..;/x HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"400"
    writer.close()
