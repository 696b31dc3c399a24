"""Requests as httpx builds them, in less time."""

from typing import Any

import httpx2
import pytest

from modelplane.kube.http_messages import Requests

APPLY: dict[str, Any] = {
    "accept": "application/json",
    "content": b"{}",
    "content_type": "application/apply-patch+yaml",
}

CASES: dict[str, tuple[str, str, dict[str, str] | None, dict[str, Any]]] = {
    "a read": ("GET", "/api/v1/namespaces/n/pods/p", None, {"accept": "application/json"}),
    "any media type": ("GET", "/readyz", None, {}),
    "an apply": ("PATCH", "/apis/apps/v1/namespaces/n/deployments/d", {"fieldManager": "m & n"}, APPLY),
    "a selector with signs": ("GET", "/api/v1/pods", {"labelSelector": "a/b=c,d in (e, f)"}, {}),
    "a path with its own question": ("GET", "/api/v1/pods?limit=1", None, {}),
    "a name with a colon": ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node", None, {}),
    "a name that is quoted": ("GET", "/api/v1/namespaces/n/secrets/a%2Fb", None, {}),
    "a body without bytes": ("POST", "/api/v1/namespaces", None, APPLY | {"content": b""}),
    "a name that climbs": ("GET", "/api/v1/namespaces/n/secrets/../../../../readyz", None, {}),
    "a name that is nothing": ("GET", "/api/v1/namespaces/n/secrets/", None, {}),
    "a name of dots": ("GET", "/api/v1/namespaces/./secrets/...", {"limit": "1"}, {}),
    "a name with a space": ("GET", "/api/v1/namespaces/n/secrets/a b", None, {}),
    "a name beyond ASCII": ("GET", "/api/v1/namespaces/n/pods/\N{LATIN SMALL LETTER E WITH ACUTE}", None, {}),
}


@pytest.mark.parametrize("base", ["https://server:6443", "https://server/clusters/east/", "http://[::1]:80"])
@pytest.mark.parametrize("case", CASES)
def test_a_request_is_the_one_that_httpx_builds(base: str, case: str) -> None:
    method, path, params, further = CASES[case]
    timeout = httpx2.Timeout(3.0, read=7.0)
    http = httpx2.AsyncClient(base_url=base, timeout=timeout, headers={"User-Agent": "tester"})
    requests = Requests(http)
    names = {"accept": "Accept", "content_type": "Content-Type"}
    headers = {header: further[name] for name, header in names.items() if name in further}
    expected = http.build_request(
        method, path, params=params, headers=headers, content=further.get("content")
    )
    for _ in range(2):  # the second one has nothing of the first
        built = requests.build(method, path, params, timeout, **further)
        assert (built.method, built.url) == (expected.method, expected.url)
        assert dict(built.headers) == dict(expected.headers)
        assert built.extensions.pop("target", expected.url.raw_path) == expected.url.raw_path
        assert built.extensions == expected.extensions
        built.headers["Authorization"] = "Bearer secret"


def test_a_plain_path_is_sent_as_it_is_and_only_a_reader_parses_the_url(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests = Requests(httpx2.AsyncClient(base_url="https://server/clusters/east"))
    with monkeypatch.context() as nothing_parses:
        nothing_parses.setattr(httpx2, "URL", None)
        built = requests.build("GET", "/api/v1/pods", {"limit": "1"}, httpx2.Timeout(1.0))
    assert built.extensions["target"] == b"/clusters/east/api/v1/pods?limit=1"
    assert built.url == "https://server/clusters/east/api/v1/pods?limit=1"


@pytest.mark.parametrize(
    "path", ["/api/v1/a b", "/api/../readyz", "/api/v1//pods", "/a?b", "/a\u00e9", "/a%2Fb", "/."]
)
def test_whatever_a_parser_might_change_is_left_to_it(path: str) -> None:
    requests = Requests(httpx2.AsyncClient(base_url="https://server"))
    assert "target" not in requests.build("GET", path, None, httpx2.Timeout(1.0)).extensions


def test_a_name_with_a_line_end_is_no_request() -> None:
    requests = Requests(httpx2.AsyncClient(base_url="https://server"))
    with pytest.raises(httpx2.InvalidURL):
        requests.build("GET", "/api/v1/namespaces/n/secrets/a\r\nb", None, httpx2.Timeout(1.0))


def test_a_request_has_what_one_of_httpx_has() -> None:
    requests = Requests(httpx2.AsyncClient(base_url="https://server"))
    own = vars(requests.build("GET", "/api", None, httpx2.Timeout(1.0)))
    theirs = vars(httpx2.Request("GET", "https://server/api", stream=httpx2.ByteStream(b"")))
    assert {name.lstrip("_") for name in own} == set(theirs)


async def test_the_body_is_sent() -> None:
    requests = Requests(httpx2.AsyncClient(base_url="https://server"))
    built = requests.build("PATCH", "/api", None, httpx2.Timeout(1.0), **APPLY)
    assert await built.aread() == b"{}"
