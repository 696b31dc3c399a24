import base64
import json
import time
from typing import Any

import pytest

from modelplane.kube.kubeconfig_secret import Claims, Lifetime, decode_claims


def _token(payload: object, header: str = "e30", signature: str = "c2ln") -> str:
    text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return f"{header}.{base64.urlsafe_b64encode(text).decode().rstrip('=')}.{signature}"


@pytest.mark.parametrize(
    ("payload", "claims"),
    [
        ({"sub": "a", "iat": 100, "exp": 700}, Claims("a", Lifetime(100, 700))),
        ({"sub": "a", "iat": 100.5, "exp": 700, "aud": ["x"]}, Claims("a", Lifetime(100.5, 700))),
        ({"sub": "a"}, Claims("a", None)),
        ({"sub": "é" * 3}, Claims("ééé", None)),
        ({"sub": "a", "iat": 0, "exp": 1}, Claims("a", Lifetime(0, 1))),
    ],
)
def test_an_account_and_a_lifetime_are_read(payload: Any, claims: Claims) -> None:
    assert decode_claims(_token(payload)) == claims


@pytest.mark.parametrize(
    "token",
    [
        "",
        "opaque",
        "a.b",
        "a.b.c.d",
        "a.é.c",
        "a.%%%.c",
        "a.A.c",
        _token(b"\xff\xfe"),
        _token(b""),
        _token(["sub"]),
        _token({}),
        _token({"sub": 1}),
        _token({"sub": "a", "exp": 5}),
        _token({"sub": "a", "iat": 5, "exp": 5}),
        _token({"sub": "a", "iat": 9, "exp": 5}),
        _token({"sub": "a", "iat": -1, "exp": 5}),
        _token({"sub": "a", "iat": 1, "exp": "5"}),
        _token({"sub": "a", "iat": 1, "exp": True}),
        _token({"sub": "a", "iat": 1, "exp": 10**15}),
        _token(b'{"sub":"a","iat":1,"exp":1e999}'),
        _token(b'{"sub":"a","iat":1,"exp":NaN}'),
        _token(b'{"sub":"a","iat":1,"exp":' + b"9" * 5000 + b"}"),
        _token({"sub": "a", "pad": "x" * 16384}),
    ],
)
def test_a_token_without_usable_claims_has_none(token: str) -> None:
    assert decode_claims(token) is None


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("." * 10_000_000, id="dots"),
        pytest.param("a." * 5_000_000, id="parts"),
        pytest.param(_token(b'{"sub":"a","x":' + b"[" * 10_000 + b"]" * 10_000 + b"}")[:16_000], id="cut"),
        pytest.param(_token(b'{"sub":' + b"[" * 11_000), id="nested"),
        pytest.param(_token(b'{"x":' + b'{"x":' * 2_300), id="nested objects"),
    ],
)
def test_a_huge_or_nested_token_costs_nothing(token: str) -> None:
    began = time.process_time()
    assert decode_claims(token) is None
    assert time.process_time() - began < 1


def test_a_token_is_renewed_at_half_of_its_life_and_late_from_three_quarters_on() -> None:
    lifetime = Lifetime(1000, 2000)
    assert [lifetime.choose_renewal(share) for share in (0, 0.5, 1)] == [1450, 1500, 1550]
    assert lifetime.last_quarter == 1750
