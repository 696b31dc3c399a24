"""Outside providers behind the URL of a service, on a whole fleet and with the client that users have.

The providers have names below ``localhost``, which Envoy resolves to this machine, and certificates of an
authority that it trusts by ``SSL_CERT_FILE``. They refuse whoever does not call them by these names.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from modelplane.local.home import Home
from support import small_model
from support.certificates import authority, server_context
from support.fleets import Fleet
from support.patience import PATIENCE_S
from support.provider import PIECES, Provider, serving

pytestmark = pytest.mark.kubernetes

EXAMPLE = Path(__file__).parents[2] / "examples" / "01-first-answer"
TEAM = "ml-team"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    authority(folder)
    return folder


@pytest.fixture(scope="module")
def fleet(
    certificates: Path, kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """A fleet that trusts the authority, with a model of its own."""
    small = small_model.use(tmp_path_factory.mktemp("cache"))
    started = Fleet(Home(tmp_path_factory.mktemp("fleet")), kubernetes_binary, variables=small)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(certificates / "authority.pem"))
        try:
            started.modelplane("up")
            started.kubectl("apply", "-f", str(EXAMPLE))
            started.wait_until_served("first-answer", TEAM)
            yield started
        finally:
            started.modelplane("down")


@pytest.fixture
def start(certificates: Path) -> Iterator[Callable[..., Provider]]:
    """Start providers, with TLS unless it is not wanted."""
    with ExitStack() as running:

        def provider(name: str, model: str = "outside", *, tls: bool = True) -> Provider:
            context = server_context(certificates, name) if tls else None
            return running.enter_context(serving(name, model, context))

        yield provider


def endpoint(fleet: Fleet, name: str, url: str, rewrite: str = "/v1/", **spec: object) -> None:
    manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelEndpoint",
        "metadata": {"name": name, "namespace": TEAM, "labels": {"modelplane.ai/external-provider": name}},
        "spec": {"url": url} | ({"rewritePath": rewrite} if rewrite else {}) | spec,
    }
    apply(fleet, manifest)


def service(fleet: Fleet, name: str, **weights: int | None) -> str:
    """Make a service over the provider of that name, and ``own`` replicas; return its address."""
    entries = []
    for each, weight in weights.items():
        labels = {"modelplane.ai/external-provider": each.replace("_", "-")}
        if each == "own":
            labels = {"modelplane.ai/deployment": "gemma"}
        entries.append({"selector": {"matchLabels": labels}} | ({"weight": weight} if weight else {}))
    manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelService",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"endpoints": entries},
    }
    apply(fleet, manifest)
    fleet.kubectl("wait", "--for=condition=Ready", f"ms/{name}", "-n", TEAM, "--timeout=180s")
    return fleet.kubectl("get", "ms", name, "-n", TEAM, "-o", "jsonpath={.status.address}")


def apply(fleet: Fleet, manifest: object) -> None:
    path = fleet.home.root / "applied.json"
    path.write_text(json.dumps(manifest))
    fleet.kubectl("apply", "-f", str(path))


def client(address: str, path: str = "/v1") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{address}{path}", api_key="secret", max_retries=0, timeout=30)


def asked(address: str, path: str = "/v1", **query: str) -> str:
    """Return whose model answers: the first of the list."""
    with client(address, path) as connected:
        return connected.models.list(extra_query=query).data[0].id


def until(answer: Callable[[], object], wanted: object) -> None:
    """Wait until a change has reached the gateway."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            found = answer()
        except openai.APIStatusError as error:
            found = error
        if found == wanted:
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("path", "rewrite", "asked_for", "seen"),
    [
        pytest.param("/", "/v1/", "/v1", "/v1/models", id="a rewritePath of v1 is not doubled"),
        pytest.param(
            "/v1",
            "/v1",
            "/v1",
            "/v1/models",
            id="a rewritePath of v1 without a slash at the end is not doubled",
        ),
        pytest.param("/v1/", "/", "/v1", "/v1/models", id="a rewritePath of / leaves the client's own v1"),
        pytest.param(
            "/openai/v1", "/openai/v1/", "/v1", "/openai/v1/models", id="a base path comes before the version"
        ),
        pytest.param("/", "/v1/", "", "/v1/models", id="a version that the client leaves out is added"),
        pytest.param(
            "/", "", "/v1", "/ml-team/paths/v1/models", id="without a rewritePath the path stays as it came"
        ),
    ],
)
def test_a_provider_sees_its_own_path(
    fleet: Fleet, start: Callable[..., Provider], path: str, rewrite: str, asked_for: str, seen: str
) -> None:
    provider = start("paths.localhost")
    endpoint(fleet, "paths", f"https://{provider.authority}{path}", rewrite)
    address = service(fleet, "paths", paths=None)
    until(lambda: asked(address, asked_for), "outside")
    asked(address, asked_for, limit="2", after="a b/c")
    assert provider.targets[-1] == f"{seen}?limit=2&after=a+b%2Fc"
    assert set(provider.targets[:-1]) == {seen}
    assert provider.keys == {"Bearer secret"}


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_an_answer_streams_from_a_provider_on_any_port(
    fleet: Fleet, start: Callable[..., Provider], scheme: str
) -> None:
    provider = start(f"{scheme}.localhost", tls=scheme == "https")
    endpoint(fleet, scheme, f"{scheme}://{provider.authority}/v1")
    address = service(fleet, scheme, **{scheme: None})
    until(lambda: asked(address), "outside")
    provider.go_on.clear()
    with told(address) as pieces:
        assert next(pieces) == PIECES[0], "the first piece comes before there is a second"
        provider.go_on.set()
        assert tuple(pieces) == PIECES[1:]


@contextmanager
def told(address: str) -> Iterator[Iterator[str]]:
    """Ask for an answer, and give its pieces as they come."""
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Where?"}]
    with (
        client(address) as connected,
        connected.chat.completions.create(model="outside", messages=messages, stream=True) as stream,
    ):
        yield (chunk.choices[0].delta.content or "" for chunk in stream)


@pytest.mark.parametrize(
    ("called", "certified", "why"),
    [
        pytest.param(
            "true.localhost", "other.localhost", "CERTIFICATE_VERIFY_FAILED", id="a certificate of another"
        ),
        pytest.param(
            "other.localhost", "other.localhost", "UNRECOGNIZED_NAME", id="a server that goes by another name"
        ),
    ],
)
def test_whoever_is_not_the_provider_is_told_nothing(
    fleet: Fleet, certificates: Path, called: str, certified: str, why: str
) -> None:
    with serving(called, "outside", server_context(certificates, certified)) as other:
        endpoint(fleet, "true", f"https://true.localhost:{other.port}/v1")
        address = service(fleet, "true", true=None)
        deadline = time.monotonic() + PATIENCE_S
        while why not in (code := refusal(address)):
            assert time.monotonic() < deadline, code
            time.sleep(0.1)
        assert other.targets == []


def refusal(address: str) -> str:
    # Not found is what the gateway knows nothing of yet.
    with pytest.raises((openai.InternalServerError, openai.NotFoundError)) as raised:
        asked(address)
    return raised.value.code or ""


def test_own_replicas_and_a_provider_share_the_requests_by_weight(
    fleet: Fleet, start: Callable[..., Provider]
) -> None:
    provider = start("shared.localhost")
    endpoint(fleet, "shared", f"https://{provider.authority}/v1")
    address = service(fleet, "shared", own=1, shared=3)
    until(lambda: {asked(address) for _ in range(8)}, {"gemma", "outside"})
    counts = Counter(asked(address) for _ in range(200))
    # Three quarters of 200, within four standard deviations.
    assert 125 <= counts["outside"] <= 175, counts


def test_where_a_provider_refuses_connections_own_replicas_answer(fleet: Fleet, certificates: Path) -> None:
    with serving("gone.localhost", "outside", server_context(certificates, "gone.localhost")) as provider:
        endpoint(fleet, "gone", f"https://{provider.authority}/v1")
        address = service(fleet, "gone", own=1, gone=1)
        until(lambda: {asked(address) for _ in range(8)}, {"gemma", "outside"})
    assert {asked(address) for _ in range(50)} == {"gemma"}


def test_another_url_is_used_at_once_and_a_stream_from_the_one_before_goes_on(
    fleet: Fleet, start: Callable[..., Provider]
) -> None:
    before, after = start("before.localhost", "before"), start("after.localhost", "after")
    endpoint(fleet, "moved", f"https://{before.authority}/v1")
    address = service(fleet, "moved", moved=None)
    until(lambda: asked(address), "before")
    before.go_on.clear()
    with told(address) as pieces:
        assert before.begun.wait(PATIENCE_S)
        endpoint(fleet, "moved", f"https://{after.authority}/v1")
        until(lambda: asked(address), "after")
        assert {asked(address) for _ in range(20)} == {"after"}
        before.go_on.set()
        assert tuple(pieces) == PIECES


def credential(fleet: Fleet, value: str, hosts: str) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "paid", "namespace": TEAM},
        "type": "modelplane.ai/provider-credential",
        "stringData": {"apiKey": value, "hosts": hosts},
    }
    apply(fleet, manifest)


def condition(fleet: Fleet, name: str, type_: str) -> str:
    path = f"jsonpath={{.status.conditions[?(@.type=='{type_}')].message}}"
    return fleet.kubectl("get", "me", name, "-n", TEAM, "-o", path)


def test_a_provider_gets_the_credential_that_its_owner_permits_and_nothing_else_does(
    fleet: Fleet, start: Callable[..., Provider]
) -> None:
    paid, thief = start("paid.localhost", "gpt-5"), start("thief.localhost")
    credential(fleet, "sk-1", paid.authority)
    with_credential: dict[str, Any] = {"model": "gpt-5", "credential": {"secretRef": {"name": "paid"}}}
    endpoint(fleet, "paid", f"https://{paid.authority}/v1", **with_credential)
    endpoint(fleet, "thief", f"https://{thief.authority}/v1", **with_credential)
    address = service(fleet, "paid", own=1, paid=1, thief=1)
    until(lambda: {asked(address) for _ in range(12)}, {"gemma", "gpt-5"})
    until(lambda: thief.authority in condition(fleet, "thief", "Authenticated"), True)
    while not paid.models:
        with told(address) as pieces:
            tuple(pieces)
    assert (paid.models, paid.keys, thief.targets) == ({"gpt-5"}, {"Bearer sk-1"}, [])
    credential(fleet, "sk-2", paid.authority)
    until(lambda: {asked(address) for _ in range(12)} and "Bearer sk-2" in paid.keys, True)
    paid.keys.clear()
    assert {asked(address) for _ in range(24)} == {"gemma", "gpt-5"}
    assert paid.keys == {"Bearer sk-2"}
    fleet.kubectl("delete", "secret", "paid", "-n", TEAM)
    until(lambda: {asked(address) for _ in range(24)}, {"gemma"})
    until(lambda: 'Secret "paid" does not exist' in condition(fleet, "paid", "Authenticated"), True)
    assert (paid.keys, thief.targets) == ({"Bearer sk-2"}, [])
    credential(fleet, "sk-3", paid.authority)
    endpoint(fleet, "paid", f"http://{paid.authority}/v1", **with_credential)
    until(lambda: "is never sent in clear text" in condition(fleet, "paid", "RoutingReady"), True)
    logs = "".join(path.read_text(errors="replace") for path in fleet.home.logs.glob("*.log"))
    assert logs
    assert not any(key in logs for key in ("sk-1", "sk-2", "sk-3"))
