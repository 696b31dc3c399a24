"""Tokens of replicas, and the keys that they are derived from."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from modelplane.gateway import tokens
from modelplane.gateway.route_table import Backend, Route
from modelplane.gateway.tokens import HEADERS, NONE, REQUIRED, SETTLED, GatewayKeys

OLD, NEW = b"o" * 32, b"n" * 32
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BEGUN = {1: NOW - SETTLED, 2: NOW - SETTLED}


def secret(required: str | None = None, **data: bytes) -> dict[str, Any]:
    encoded = {name.removeprefix("key"): base64.b64encode(key).decode() for name, key in data.items()}
    annotations = {} if required is None else {"annotations": {REQUIRED: required}}
    return {"metadata": {"name": tokens.SECRET, **annotations}, "data": encoded}


@pytest.mark.parametrize(
    ("found", "keys"),
    [
        pytest.param(secret(key1=OLD), GatewayKeys({1: OLD}), id="not required yet"),
        pytest.param(secret("1", key1=OLD), GatewayKeys({1: OLD}, 1), id="required"),
        pytest.param(secret("1", key1=OLD, key2=NEW), GatewayKeys({1: OLD, 2: NEW}, 1), id="a second key"),
        pytest.param(
            secret("2", key1=OLD, key2=NEW, key3=NEW), GatewayKeys({2: NEW, 3: NEW}, 2), id="the newest two"
        ),
        pytest.param(secret("9", key1=OLD), GatewayKeys({1: OLD}), id="a required key that is gone"),
        pytest.param(secret(NONE, key1=OLD), GatewayKeys({1: OLD}, 0, is_off=True), id="turned off"),
        pytest.param(secret("1", key1=b"short", key2=NEW), GatewayKeys({2: NEW}), id="a key that is short"),
        pytest.param(secret(ca=OLD), GatewayKeys(), id="a member that is no number"),
        pytest.param({"metadata": {}, "data": {"1": "%"}}, GatewayKeys(), id="damaged"),
        pytest.param({"metadata": {}}, GatewayKeys(), id="empty"),
    ],
)
def test_keys_are_read_from_their_secret(found: dict[str, Any], keys: GatewayKeys) -> None:
    assert tokens.read(found) == keys


@pytest.mark.parametrize(
    "keys",
    [GatewayKeys({1: OLD}), GatewayKeys({1: OLD, 2: NEW}, 1), GatewayKeys({1: OLD}, 0, is_off=True)],
    ids=["new", "required", "off"],
)
def test_keys_are_written_as_they_are_read(keys: GatewayKeys) -> None:
    written = tokens.build_manifest(keys, "modelplane-system")
    assert tokens.read(written) == keys
    assert written["metadata"]["namespace"] == "modelplane-system"


@pytest.mark.parametrize(
    ("keys", "since", "required"),
    [
        pytest.param(GatewayKeys({1: OLD}), BEGUN, 1, id="sent long enough"),
        pytest.param(GatewayKeys({1: OLD}), {}, 0, id="not sent"),
        pytest.param(
            GatewayKeys({1: OLD}), {1: NOW - SETTLED + timedelta(seconds=1)}, 0, id="sent for a short time"
        ),
        pytest.param(GatewayKeys({1: OLD, 2: NEW}, 1), {1: NOW - SETTLED}, 1, id="the new key is not sent"),
        pytest.param(GatewayKeys({1: OLD, 2: NEW}, 1), BEGUN, 2, id="the new key is sent"),
        pytest.param(GatewayKeys({1: OLD, 2: NEW}, 2), BEGUN, 2, id="never back to the former key"),
        pytest.param(GatewayKeys({1: OLD}, 0, is_off=True), BEGUN, 0, id="an operator has turned it off"),
        pytest.param(GatewayKeys(), BEGUN, 0, id="no key"),
    ],
)
def test_a_token_is_required_once_every_gateway_sends_it(
    keys: GatewayKeys, since: dict[int, datetime], required: int
) -> None:
    assert tokens.advance_keys(keys, since, NOW).required == required


def test_a_token_is_of_one_replica_and_one_key() -> None:
    keys = GatewayKeys({1: OLD, 2: NEW}, 2)
    found = {token.value for replica in ("a/b", "a/c", "b/b") for token in tokens.list_tokens(keys, replica)}
    assert len(found) == 6
    assert tokens.find_required(keys, "a/b") == tokens.list_tokens(keys, "a/b")[1]
    assert tokens.find_required(GatewayKeys({1: OLD}), "a/b") is None


def test_two_successive_keys_have_headers_of_their_own() -> None:
    keys = GatewayKeys({7: OLD, 8: NEW}, 7)
    assert sorted(token.header for token in tokens.list_tokens(keys, "a/b")) == sorted(HEADERS)


def test_only_replicas_get_tokens() -> None:
    outside, replica = Backend("a/x", (("x", 80),)), Backend("a/r", (("r", 80),), tokens=())
    [route] = tokens.add_tokens([Route("a/s", "/a/s/", (outside, replica))], GatewayKeys({1: OLD}))
    assert route.backends[0] == outside
    assert route.backends[1].tokens == tokens.list_tokens(GatewayKeys({1: OLD}), "a/r")


def test_no_text_about_keys_has_a_secret() -> None:
    keys = GatewayKeys({1: OLD}, 1)
    assert "oooo" not in repr(keys)
    [token] = tokens.list_tokens(keys, "a/b")
    assert token.value not in repr(token)
