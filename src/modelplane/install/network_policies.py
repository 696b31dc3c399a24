"""Allowed traffic from and to the pods of an installation (NetworkPolicy).

Only listed traffic is allowed. The policies select these pods alone, because other gateways may share the
namespace on a cluster that also serves models. Pods of engines on inference clusters get no policy
(``docs/explanation/security.md``).

Destinations are known by port at most. Clusters and providers are wherever users say, so traffic may go
anywhere but to link-local addresses and the other places where clouds keep the credentials of their machines.
Two rules have no such exceptions. DNS may be at a link-local address of the node. An API server on port 6443
is on a node of the cluster, which some networks do not count among the addresses of a block.
"""

from modelplane.gateway.destinations import MACHINE_SERVICES
from modelplane.install import gateway_deployment, pod_parts
from modelplane.install.installation_options import (
    INSTALLATION,
    PART_OF,
    Options,
    build_metadata,
    build_selector,
)
from modelplane.kube.resources import Object

_DNS = (53, 5353)
"""The second is that of OpenShift's DNS pods, behind the first."""

_API_SERVER = 6443


def build_manifests(options: Options) -> list[Object]:
    """Return the policies: deny all traffic for all pods first, then allow some for each."""
    if not options.network_policy:
        return []
    monitoring = {
        "namespaceSelector": {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "In",
                    "values": options.monitoring_namespaces
                    if isinstance(options.monitoring_namespaces, str)
                    else [*options.monitoring_namespaces],
                }
            ]
        }
    }
    every = {"matchLabels": {PART_OF: INSTALLATION}}
    return [
        _policy("modelplane", "", every, {"policyTypes": ["Ingress", "Egress"], "egress": _outward()}),
        _policy(
            "modelplane-metrics",
            "",
            every,
            {
                "policyTypes": ["Ingress"],
                "ingress": [
                    {"from": [monitoring], "ports": [{"port": pod_parts.METRICS, "protocol": "TCP"}]}
                ],
            },
        ),
        _policy(
            "modelplane-gateway",
            gateway_deployment.GATEWAY_COMPONENT,
            {"matchLabels": build_selector(gateway_deployment.GATEWAY_COMPONENT)},
            {"policyTypes": ["Ingress"], "ingress": [{"ports": [_tcp(gateway_deployment.GATEWAY_PORT)]}]},
        ),
    ]


def _policy(name: str, component: str, chosen: Object, spec: Object) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": build_metadata(name, component),
        "spec": {"podSelector": chosen, **spec},
    }


def _outward() -> list[Object]:
    anywhere = [
        {"ipBlock": {"cidr": cidr, "except": [*MACHINE_SERVICES[version]]}}
        for version, cidr in ((4, "0.0.0.0/0"), (6, "::/0"))
    ]
    return [
        {"ports": [{"port": port, "protocol": protocol} for port in _DNS for protocol in ("UDP", "TCP")]},
        {"ports": [_tcp(_API_SERVER)]},
        # Some networks do not count pods among the addresses of a block.
        {"to": [*anywhere, {"namespaceSelector": {}}], "ports": [{"protocol": "TCP"}]},
    ]


def _tcp(port: int) -> Object:
    return {"port": port, "protocol": "TCP"}
