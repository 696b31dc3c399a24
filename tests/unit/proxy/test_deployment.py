import base64
from typing import Any

import pytest

from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.proxy.interface import GatewayAddress
from modelplane.proxy.proxies import GatewayDeployment, read_address
from modelplane.proxy.publication import INDEX, Channel, Read, build_objects, read

COLLECTION = "/api/v1/namespaces/modelplane-system/configmaps"
OLD, NEW = {"cds.json": "old"}, {"cds.json": "new"}


class Bench:
    """A proxy whose copies hold what the test puts there, and what it writes itself."""

    def __init__(self, client: Client, plane: Any) -> None:
        self.plane = plane
        self.proxy = GatewayDeployment(client, "modelplane-system", "modelplane-gateway")
        informers = self.proxy.informers
        self.config_maps, self.services, self.secrets, self.slices, self.usage = informers

    def has(self, files: dict[str, str], version: int = 900) -> None:
        found = build_objects(files, "modelplane-system")
        for manifest in (*found.chunks, found.index):
            own = {"uid": manifest["metadata"]["name"], "resourceVersion": str(version)}
            self.config_maps.remember({**manifest, "metadata": {**manifest["metadata"], **own}})

    def steps(self) -> list[tuple[str, str]]:
        return [(method, path.removeprefix(f"{COLLECTION}/")) for method, path, _, _ in self.plane.writes]


@pytest.fixture
def bench(client: Client, plane: Any) -> Bench:
    return Bench(client, plane)


def _part(files: dict[str, str]) -> str:
    [chunk] = build_objects(files, "").chunks
    return str(chunk["metadata"]["name"])


async def test_parts_come_first_then_the_index_and_old_parts_go_last(bench: Bench) -> None:
    bench.has(OLD)
    assert await bench.proxy.bring(NEW) is True
    assert bench.steps() == [("PATCH", _part(NEW)), ("PATCH", INDEX), ("DELETE", _part(OLD))]
    body = bench.plane.writes[-1][3]
    assert body["preconditions"] == {"uid": _part(OLD)}


async def test_at_every_step_a_reader_finds_the_old_configuration_or_the_new(bench: Bench) -> None:
    bench.has(OLD)
    seen = []
    there = {item["metadata"]["name"]: item for item in bench.config_maps}
    await bench.proxy.bring(NEW)
    for method, path, _, body in bench.plane.writes:
        name = path.rsplit("/", 1)[1]
        if method == "DELETE":
            del there[name]
        else:
            there[name] = body
        seen.append(read(there.values()))
    assert seen == [Read(OLD), Read(NEW), Read(NEW)]


async def test_an_unchanged_configuration_writes_nothing(bench: Bench) -> None:
    bench.has(NEW)
    assert await bench.proxy.bring(NEW) is False
    assert await bench.proxy.bring(dict(NEW)) is False
    assert bench.steps() == []


async def test_what_a_controller_left_behind_that_died_is_cleaned_up(bench: Bench) -> None:
    bench.has(OLD)
    bench.has(NEW, 901)
    assert await bench.proxy.bring(NEW) is False
    assert bench.steps() == [("DELETE", _part(OLD))]


async def test_a_part_that_somebody_deleted_is_written_again(bench: Bench) -> None:
    bench.has(NEW)
    [part] = (item for item in bench.config_maps if item["metadata"]["name"] != INDEX)
    bench.config_maps._drop(part)
    assert await bench.proxy.bring(NEW) is True
    assert bench.steps() == [("PATCH", _part(NEW))]


async def test_where_a_part_cannot_be_written_the_index_stays_what_it_is(bench: Bench) -> None:
    bench.has(OLD)
    bench.plane.refuse("PATCH", f"{COLLECTION}/{_part(NEW)}", 403, "quota exceeded")
    with pytest.raises(errors.Forbidden):
        await bench.proxy.bring(NEW)
    assert bench.steps() == [("PATCH", _part(NEW))]


async def test_a_config_map_of_another_name_is_not_ours_to_delete(bench: Bench) -> None:
    bench.has(NEW)
    metadata = {"name": "by-hand", "namespace": "modelplane-system", "uid": "u", "resourceVersion": "1001"}
    bench.config_maps.remember({"metadata": metadata})
    await bench.proxy.bring(NEW)
    assert bench.steps() == []


def _service(**changes: Any) -> dict[str, Any]:
    metadata = {
        "name": "modelplane-gateway",
        "namespace": "modelplane-system",
        "uid": "s",
        "resourceVersion": "5",
    }
    spec = {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80}]} | changes.pop("spec", {})
    return {"metadata": metadata, "spec": spec, **changes}


def _at(**ingress: str) -> dict[str, Any]:
    return {"loadBalancer": {"ingress": [ingress]}}


PENDING = (
    'Service "modelplane-system/modelplane-gateway" of type LoadBalancer has no address yet: '
    "where nothing provides load balancers, make its type ClusterIP or NodePort"
)


@pytest.mark.parametrize(
    ("service", "address"),
    [
        pytest.param(
            _service(status=_at(ip="192.0.2.1")), GatewayAddress("192.0.2.1"), id="a load balancer's address"
        ),
        pytest.param(
            _service(status=_at(hostname="lb.example")),
            GatewayAddress("lb.example"),
            id="a load balancer's name",
        ),
        pytest.param(
            _service(status=_at(ip="2001:db8::1")), GatewayAddress("[2001:db8::1]"), id="an address of IPv6"
        ),
        pytest.param(
            _service(status=_at(ip="192.0.2.1"), spec={"ports": [{"port": 8000}]}),
            GatewayAddress("192.0.2.1:8000"),
            id="a port that is not 80",
        ),
        pytest.param(
            _service(
                status=_at(ip="192.0.2.1"),
                spec={"ports": [{"name": "https", "port": 443}, {"name": "http", "port": 80}]},
            ),
            GatewayAddress("192.0.2.1"),
            id="the port called http among several",
        ),
        pytest.param(
            _service(status={"loadBalancer": {}}),
            GatewayAddress(problem=PENDING),
            id="a pending load balancer",
        ),
        pytest.param(_service(), GatewayAddress(problem=PENDING), id="a service without a status"),
        pytest.param(
            _service(spec={"type": "ClusterIP"}),
            GatewayAddress("modelplane-gateway.modelplane-system.svc"),
            id="within the cluster",
        ),
        pytest.param(
            _service(spec={"type": "NodePort", "ports": [{"port": 8080, "nodePort": 30080}]}),
            GatewayAddress("modelplane-gateway.modelplane-system.svc:8080"),
            id="a port of the nodes is reached within the cluster too",
        ),
    ],
)
def test_where_clients_find_a_service(service: dict[str, Any], address: GatewayAddress) -> None:
    assert read_address(service) == address


async def test_a_gateway_without_its_service_says_so(bench: Bench) -> None:
    missing = 'the gateway has no Service "modelplane-system/modelplane-gateway": create it'
    assert bench.proxy.find_address() == GatewayAddress(problem=missing)
    bench.services.remember(_service(spec={"type": "ClusterIP"}))
    assert bench.proxy.find_address() == GatewayAddress("modelplane-gateway.modelplane-system.svc")


@pytest.mark.parametrize(
    ("ports", "address"),
    [
        pytest.param({"http": 80, "https": 443}, "192.0.2.1", id="the port of https is not written"),
        pytest.param({"http": 80, "https": 8443}, "192.0.2.1:8443", id="another port of https is"),
        pytest.param({"http": 80}, "192.0.2.1:80", id="an older Service has one port"),
    ],
)
async def test_with_certificates_the_address_is_that_of_https(
    bench: Bench, ports: dict[str, int], address: str
) -> None:
    listed = [{"name": name, "port": port} for name, port in ports.items()]
    bench.services.remember(
        _service(spec={"type": "LoadBalancer", "ports": listed}, status=_at(ip="192.0.2.1"))
    )
    await bench.proxy.bring({**NEW, "tls/front.json": "{}"})
    assert bench.proxy.find_address() == GatewayAddress(address)
    await bench.proxy.bring(NEW)
    assert bench.proxy.find_address() == GatewayAddress("192.0.2.1")


KEYS = {"private/keys.json": "{}"}


async def test_private_files_are_published_as_secrets_before_what_names_them(bench: Bench) -> None:
    assert await bench.proxy.bring({**NEW, **KEYS}) is True
    secrets = "/api/v1/namespaces/modelplane-gateway/secrets"
    private = build_objects(KEYS, "", Channel.PRIVATE).chunks[0]["metadata"]["name"]
    public = build_objects(NEW, "").chunks[0]["metadata"]["name"]
    assert [path for _, path, _, _ in bench.plane.writes] == [
        f"{secrets}/{private}",
        f"{secrets}/{INDEX}",
        f"{COLLECTION}/{public}",
        f"{COLLECTION}/{INDEX}",
    ]
    assert "keys" not in "".join(str(body) for _, path, _, body in bench.plane.writes[2:3])
    assert bench.proxy.read_former("private/keys.json") == "{}"
    assert bench.proxy.read_former("private/others.json") == ""
    assert bench.proxy.find_former_problem() is None
    assert await bench.proxy.bring({**NEW, **KEYS}) is False


async def test_private_files_that_are_gone_are_not_published_any_more(bench: Bench) -> None:
    await bench.proxy.bring({**NEW, **KEYS})
    assert await bench.proxy.bring(NEW) is True
    assert bench.proxy.read_former("private/keys.json") == ""
    assert read(bench.config_maps) == Read(NEW)


async def test_private_files_that_are_not_complete_are_not_taken_for_none(bench: Bench) -> None:
    assert bench.proxy.find_former_problem() is None, "none are published"
    await bench.proxy.bring({**NEW, **KEYS})
    private = bench.proxy.informers[2]
    index = next(each for each in private if each["metadata"]["name"] == INDEX)
    damaged = {**index["data"], "digest": base64.b64encode(b"another").decode()}
    newer = {**index["metadata"], "resourceVersion": "999999"}
    private.remember({**index, "metadata": newer, "data": damaged})
    assert bench.proxy.read_former("private/keys.json") == ""
    assert "do not belong together" in (bench.proxy.find_former_problem() or "")


async def test_without_private_files_no_secret_is_written(bench: Bench) -> None:
    await bench.proxy.bring(NEW)
    assert not [path for _, path, _, _ in bench.plane.writes if "secrets" in path]


def _slice(name: str, *pods: tuple[str, str, bool]) -> dict[str, Any]:
    """Return an EndpointSlice of pods, each with its uid, its address and whether it is ready."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "modelplane-system", "uid": name, "resourceVersion": "1"},
        "endpoints": [
            {"addresses": [address], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "uid": uid}}
            for uid, address, ready in pods
        ],
    }


def test_each_ready_pod_is_a_gateway_whatever_its_addresses(bench: Bench) -> None:
    assert bench.proxy.gateways == 1, "a gateway has its limits before any EndpointSlice is there"
    bench.slices.remember(_slice("ipv4", ("a", "10.0.0.1", True), ("b", "10.0.0.2", True)))
    bench.slices.remember(_slice("ipv6", ("a", "fd00::1", True), ("b", "fd00::2", True)))
    assert bench.proxy.gateways == 2
    bench.slices.remember(_slice("ipv4-2", ("c", "10.0.0.3", True), ("ending", "10.0.0.4", False)))
    assert bench.proxy.gateways == 3
    bench.slices.remember({**_slice("empty"), "endpoints": None})
    assert bench.proxy.gateways == 3
    for name in ("ipv4", "ipv6", "ipv4-2"):
        bench.slices.remember(_slice(name))
    assert bench.proxy.gateways == 3, "pods that are not ready for a moment do not get more"
