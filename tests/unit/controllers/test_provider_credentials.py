import base64

import pytest

from modelplane.compose.composition import Requirement, Unknown
from modelplane.controllers.gateway.named_secrets import ProviderCredentials
from modelplane.gateway.credentials import SECRET_TYPE
from modelplane.gateway.route_table import Backend, CredentialReference, Route
from modelplane.kube.resources import Object

PAID = CredentialReference("ml", "openai", "apiKey", "x-api-key", "api.openai.com")
ROUTES = (Route("ml/qwen", "/ml/qwen/", (Backend("ml/paid", (), credential=PAID),)),)
ELSEWHERE = (Route("web/qwen", "/web/qwen/", (Backend("web/own", ()),)),)


def secret(value: str) -> Object:
    data = {"apiKey": value, "hosts": PAID.host}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": "ml", "name": "openai"},
        "type": SECRET_TYPE,
        "data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()},
    }


class Bench:
    """Credentials over Secrets that change."""

    def __init__(self, former: str = "") -> None:
        self.found: tuple[Object, ...] | Unknown = (secret("sk-1"),)
        self.asked: list[Requirement] = []
        self.credentials = ProviderCredentials(self._find, lambda _path: former)

    def _find(self, requirement: Requirement) -> tuple[Object, ...] | Unknown:
        self.asked.append(requirement)
        return self.found

    def values(self, routes: tuple[Route, ...] = ROUTES) -> list[str]:
        return [each.value for each in self.credentials.read(routes).credentials.values()]


def test_only_the_named_secret_is_read_in_the_namespace_of_the_endpoint() -> None:
    bench = Bench()
    assert bench.values(ROUTES + ELSEWHERE) == ["sk-1"]
    assert [(each.kind, each.namespace, each.name) for each in bench.asked] == [("Secret", "ml", "openai")]


def test_a_secret_that_cannot_be_read_changes_nothing_and_one_that_is_gone_ends_its_credential() -> None:
    bench = Bench()
    assert bench.values() == ["sk-1"]
    bench.found = Unknown("forbidden")
    assert (bench.values(), bench.credentials.loading) == (["sk-1"], False)
    bench.found = (secret("sk-2"),)
    assert bench.values() == ["sk-2"]
    bench.found = ()
    assert bench.values() == []
    bench.found = Unknown("forbidden")
    assert bench.values() == []


def test_a_credential_that_no_route_names_any_more_stays_for_one_write_and_is_forgotten() -> None:
    bench = Bench()
    assert bench.values() == ["sk-1"]
    assert bench.values(ELSEWHERE) == ["sk-1"]
    assert bench.values(ELSEWHERE) == []
    bench.found = Unknown("forbidden")
    assert bench.values() == []


def test_a_secret_that_is_being_read_is_waited_for() -> None:
    bench = Bench()
    bench.found = Unknown("it is still being read", loading=True)
    assert (bench.values(), bench.credentials.loading) == ([], True)
    bench.found = (secret("sk-1"),)
    assert (bench.values(), bench.credentials.loading) == (["sk-1"], False)


def test_a_change_of_a_secret_concerns_the_gateway_if_a_route_names_it() -> None:
    bench = Bench()
    assert not bench.credentials.concerns(secret(""))
    bench.values()
    assert bench.credentials.concerns(secret(""))
    other = secret("") | {"metadata": {"namespace": "web", "name": "openai"}}
    config_map = secret("") | {"kind": "ConfigMap"}
    assert [bench.credentials.concerns(each) for each in (other, config_map)] == [False, False]


def test_after_a_restart_a_secret_that_cannot_be_read_keeps_what_the_gateway_has() -> None:
    former = Bench().credentials.read(ROUTES).encode().decode()
    again = Bench(former)
    again.found = Unknown("forbidden")
    assert again.values() == ["sk-1"]
    again.found = ()
    assert again.values() == []


@pytest.mark.parametrize("former", ["", "{", "[]", '{"credentials": {"a": 1}}'])
def test_a_damaged_file_of_the_gateway_gives_no_credential(former: str) -> None:
    bench = Bench(former)
    bench.found = Unknown("forbidden")
    assert bench.values() == []
