"""What the controllers tell the compositions of each kind, beside objects."""

from types import SimpleNamespace
from typing import Any

import pytest

from modelplane.api.clouds.serving_stack import ServingStack
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Blocked, Unknown
from modelplane.compose.facts import ReplicaFacts, ServiceFacts
from modelplane.compose.serving_stack.component import StackFacts
from modelplane.controllers.fact_sources import ClusterSource, FactSources, ServiceSource, StackSource
from modelplane.gateway.mutual_tls import Link
from modelplane.gateway.services import EndpointShare
from modelplane.proxy.interface import GatewayAddress
from support.replicas import replica

LINKS: dict[str, Link | Unknown] = {"east": Link(), "west": Unknown("its mutual TLS is not known yet")}


class MutualTls:
    def of(self, cluster: str) -> Link | Unknown | None:
        return LINKS.get(cluster)


def _stack(cluster: str) -> ServingStack:
    spec = {"secrets": [{"type": "Kubeconfig", "name": "s", "key": "kubeconfig"}]}
    named = {"clusterName": cluster} if cluster else {}
    return decode_as(ServingStack, {"metadata": {"name": "s"}, "spec": {**spec, **named}})


@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        pytest.param("east", StackFacts(Link()), id="the cluster's own"),
        pytest.param("west", Blocked("its mutual TLS is not known yet"), id="in doubt, nothing is decided"),
        pytest.param("gone", StackFacts(), id="a cluster that is gone has none"),
        pytest.param("", StackFacts(), id="a stack that names no cluster has none"),
    ],
)
def test_a_stack_is_told_of_the_mutual_tls_to_its_cluster(cluster: str, told: StackFacts | Blocked) -> None:
    links: Any = MutualTls()
    assert StackSource(links).of(_stack(cluster)) == told


def test_a_cluster_whose_mutual_tls_is_in_doubt_is_told_nothing_else() -> None:
    spec = {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": "s"}}}}
    west = decode_as(InferenceCluster, {"metadata": {"name": "west"}, "spec": spec})
    links: Any = MutualTls()
    unread: Any = None
    assert ClusterSource(unread, unread, links, unread).of(west) == Blocked("its mutual TLS is not known yet")


def test_a_service_is_told_of_the_gateway_as_it_is_when_asked() -> None:
    """The sources are made before the gateway, whose address changes."""
    service = decode_as(
        ModelService,
        {
            "metadata": {"name": "qwen", "namespace": "ml"},
            "spec": {"endpoints": [{"selector": {"matchLabels": {"a": "b"}}}]},
        },
    )
    gateway: Any = SimpleNamespace(
        address=GatewayAddress(),
        share=lambda key: EndpointShare(len(key.name)),
        has_loaded=lambda key: key.name != "qwen",
    )
    budgets: Any = SimpleNamespace(tiers=lambda _service: None)
    source = ServiceSource(lambda: gateway, is_local=True, budgets=budgets)
    expected = ServiceFacts(gateway_is_local=True, endpoint_share=EndpointShare(4), is_route_loaded=False)
    assert source.of(service) == expected
    gateway.address = GatewayAddress(without_module="it has no module")
    assert source.of(service).gateway_without_module == "it has no module"


def test_a_kind_without_a_source_gets_the_same_facts_each_time() -> None:
    sources = FactSources(())
    first, second = sources.of("ModelReplica", replica()), sources.of("ModelReplica", replica())
    assert first == ReplicaFacts()
    assert first is second
