"""Credentials of endpoints: who permits what, and which backends get requests."""

import base64
import json
from typing import Any

import pytest

from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import decode_as
from modelplane.gateway import credentials
from modelplane.gateway.destinations import Destinations
from modelplane.gateway.envoy import rewrite
from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.envoy.envoy_names import CLUSTERS, WITH_MODULE
from modelplane.gateway.envoy.module_filters import CREDENTIALS
from modelplane.gateway.module_files.route_files import CredentialFile, HoldEntry, SecretHeader, ServiceEntry
from modelplane.gateway.route_table import Backend, CredentialReference, Front, Listener, Route, Table
from modelplane.gateway.services import Target, find_target

WANTED = CredentialReference("ml", "openai", "apiKey", "authorization", "api.openai.com")
OPEN = Backend("ml/own", (("10.0.0.1", 80),), host="own")
PAID = Backend("ml/paid", (("api.openai.com", 443),), tls=True, credential=WANTED)
NAMED = Backend("ml/named", (("10.0.0.2", 80),), model="gpt-5")
KNOWN = {WANTED.name: SecretHeader("authorization", "Bearer sk-hidden")}


def secret(type_: str = credentials.SECRET_TYPE, **data: str) -> dict[str, Any]:
    given = {"apiKey": "sk-hidden", "hosts": "api.openai.com"} | data
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in given.items()}
    return {"metadata": {"namespace": "ml", "name": "openai"}, "type": type_, "data": encoded}


def endpoint(url: str, **credential: Any) -> ModelEndpoint:
    credential = {"secretRef": {"name": "openai"}} | credential
    metadata = {"name": "outside", "namespace": "ml"}
    spec = {"url": url, "credential": credential}
    return decode_as(
        ModelEndpoint,
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelEndpoint",
            "metadata": metadata,
            "spec": spec,
        },
    )


@pytest.mark.parametrize(
    ("credential", "expected"),
    [
        pytest.param({}, SecretHeader("authorization", "Bearer sk-hidden"), id="as a bearer"),
        pytest.param({"header": "x-api-key"}, SecretHeader("x-api-key", "sk-hidden"), id="as it is"),
        pytest.param(
            {"secretRef": {"name": "openai", "key": "second"}, "header": "api-key"},
            SecretHeader("api-key", "sk-2"),
            id="another key",
        ),
    ],
)
def test_a_secret_gives_the_header_that_the_endpoint_names(
    credential: dict[str, Any], expected: SecretHeader
) -> None:
    wanted = credentials.find_reference(endpoint("https://api.openai.com/v1", **credential), "api.openai.com")
    assert wanted is not None
    found = credentials.build_header(wanted, secret(second="sk-2"))
    assert isinstance(found, SecretHeader)
    assert (found.header, found.value) == (expected.header, expected.value)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(None, 'Secret "openai" does not exist in namespace "ml"', id="there is none"),
        pytest.param(secret("Opaque"), "is not of type", id="a Secret for another use"),
        pytest.param(secret(hosts="evil.example.com"), "does not list api.openai.com", id="another host"),
        pytest.param(
            secret(hosts="api.openai.com:8443"), "does not list api.openai.com", id="another port of the host"
        ),
        pytest.param(
            secret(hosts="*.openai.com x.api.openai.com openai.com"), "does not list", id="no patterns"
        ),
        pytest.param(secret(hosts=" , "), "must list 1 to 64 hosts", id="no hosts"),
        pytest.param(secret(hosts=" ".join(map(str, range(65)))), "must list 1 to 64 hosts", id="many hosts"),
        pytest.param(secret(hosts="api.openai.com " * 10_000), "must list 1 to 64", id="a long list"),
        pytest.param(
            {"type": credentials.SECRET_TYPE, "data": {"apiKey": "c2s="}}, "is missing", id="hosts missing"
        ),
        pytest.param({"type": credentials.SECRET_TYPE}, "is missing", id="without data"),
        pytest.param(secret(apiKey=""), 'key "apiKey" of Secret "openai" is not a credential', id="empty"),
        pytest.param(secret(apiKey="sk-hidden\n"), "without a line break", id="a line break at the end"),
        pytest.param(secret(apiKey="sk-hidden\r\nhost: x"), "printable ASCII", id="another header in it"),
        pytest.param(secret(apiKey="sk-hidden\N{ZERO WIDTH SPACE}"), "printable ASCII", id="not ASCII"),
        pytest.param(secret(apiKey="sk-hidden" * 1000), "1 to 4096", id="too long"),
    ],
)
def test_a_secret_whose_owner_does_not_permit_the_use_gives_nothing(found: Any, said: str) -> None:
    refused = credentials.build_header(WANTED, found)
    assert isinstance(refused, Rejected)
    assert said in refused.message
    assert "sk-hidden" not in refused.message


@pytest.mark.parametrize(
    ("url", "is_local", "is_sent"),
    [
        ("https://api.openai.com/v1", False, True),
        ("http://api.openai.com/v1", False, False),
        ("http://api.openai.com/v1", True, False),
        ("http://127.0.0.1:9000/v1", True, True),
        ("http://localhost:9000/v1", True, True),
        ("http://localhost.example.com/v1", True, False),
    ],
)
def test_a_credential_is_not_sent_in_clear_text_over_a_network(
    url: str, is_local: bool, is_sent: bool
) -> None:
    target = find_target(endpoint(url), Destinations(is_local=is_local))
    assert isinstance(target, Target) is is_sent
    if isinstance(target, Rejected):
        assert "spec.credential is never sent in clear text: use https://HOST" in target.message


def test_the_name_of_a_credential_holds_its_host_so_a_new_url_never_gets_the_former_ones() -> None:
    first, second = (
        credentials.find_reference(endpoint(f"https://{host}/"), host) for host in ("a.example", "b.example")
    )
    assert first is not None
    assert second is not None
    assert (first.name, second.name) == (
        "ml/openai/apiKey/authorization/a.example",
        "ml/openai/apiKey/authorization/b.example",
    )


@pytest.mark.parametrize(
    ("known", "has_module", "expected"),
    [
        pytest.param(KNOWN, True, (OPEN, PAID, NAMED), id="all"),
        pytest.param({}, True, (OPEN, NAMED), id="without the credential"),
        pytest.param(KNOWN, False, (OPEN,), id="without the module"),
    ],
)
def test_backends_that_cannot_be_asked_get_no_requests(
    known: dict[str, SecretHeader], has_module: bool, expected: tuple[Backend, ...]
) -> None:
    routes = (Route("ml/qwen", "/ml/qwen/", (OPEN, PAID, NAMED)), Route("ml/own", "/ml/own/", (OPEN,)))
    found = credentials.select_usable(routes, known, has_module=has_module)
    assert [route.backends for route in found] == [expected, (OPEN,)]
    holding = ServiceEntry(hold=HoldEntry(timeout_seconds=60, max_requests=9))
    (alone,) = credentials.select_usable(
        [Route("ml/paid", "/ml/paid/", (PAID,), settings=holding)], {}, has_module=True
    )
    assert (alone.backends, "kubectl get modelendpoints -n ml" in alone.unavailable) == ((), True)
    assert alone.settings.hold is None, "no replica changes it"


def table(backend: Backend, known: dict[str, SecretHeader]) -> dict[str, str]:
    front = Front(credentials=CredentialFile(known))
    route = Route("ml/qwen", "/ml/qwen/", (backend,))
    return render_files(Table((Listener("front-door", "127.0.0.1", 8080, (route,), front=front),)))


def test_another_value_of_a_credential_reaches_one_file() -> None:
    before = table(PAID, KNOWN)
    after = table(PAID, {WANTED.name: SecretHeader("authorization", "Bearer sk-2")})
    assert {path for path in before if before[path] != after[path]} == {CREDENTIALS}
    assert json.loads(before[CREDENTIALS]) == {
        "credentials": {
            "ml/openai/apiKey/authorization/api.openai.com": {
                "header": "authorization",
                "value": "Bearer sk-hidden",
            }
        }
    }
    assert "sk-hidden" not in before[CLUSTERS] + before[WITH_MODULE]


def test_a_first_credential_changes_no_listener() -> None:
    before, after = table(OPEN, {}), table(PAID, KNOWN)
    assert (before[WITH_MODULE], json.loads(before[CREDENTIALS])) == (after[WITH_MODULE], {"credentials": {}})


def test_a_cluster_that_needs_no_module_is_as_it_was() -> None:
    metadata = rewrite.build_backend_metadata(OPEN)["filter_metadata"]["modelplane.rewrite"]
    assert metadata == {"prefix": "", "overlap": "", "host": "own", "attempt": "\n\nown\n\n\n"}


def test_the_module_gets_what_a_cluster_wants_in_lines() -> None:
    paid = Backend(
        "ml/paid", (), prefix="/v1/", overlap="v1", host="paid", model="m", served="s", credential=WANTED
    )
    metadata = rewrite.build_backend_metadata(paid)["filter_metadata"]["modelplane.rewrite"]
    assert metadata["attempt"].split("\n") == ["/v1/", "v1", "paid", "m", "s", WANTED.name]


def test_no_text_about_a_credential_shows_it() -> None:
    file = CredentialFile(KNOWN)
    assert "sk-hidden" not in repr((Front(credentials=file), file, *KNOWN.values()))
