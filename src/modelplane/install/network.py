"""Allowed traffic from and to the pods of an installation (NetworkPolicy).

Only listed traffic is allowed. The policies select these pods alone, because other gateways may share the
namespace on a cluster that also serves models.

Destinations are known by port at most. Clusters and providers are wherever users say, and how policies see
an API server differs between networks. So TLS may go anywhere, and everything else anywhere but to
link-local addresses, where clouds keep the credentials of their machines.
"""

from modelplane.install import gateway, pods
from modelplane.install.identity import INSTALLATION, PART_OF, metadata, selector
from modelplane.install.options import Options
from modelplane.kube.resources import Object

_DNS = (53, 5353)
"""The second is that of OpenShift's DNS pods, behind the first."""

_TLS = (443, 6443)
_LINK_LOCAL = {"0.0.0.0/0": "169.254.0.0/16", "::/0": "fe80::/10"}


def manifests(options: Options) -> list[Object]:
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
                "ingress": [{"from": [monitoring], "ports": [{"port": pods.METRICS, "protocol": "TCP"}]}],
            },
        ),
        _policy(
            "modelplane-gateway",
            gateway.COMPONENT,
            {"matchLabels": selector(gateway.COMPONENT)},
            {"policyTypes": ["Ingress"], "ingress": [{"ports": [_tcp(gateway.PORT)]}]},
        ),
    ]


def _policy(name: str, component: str, chosen: Object, spec: Object) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(name, component),
        "spec": {"podSelector": chosen, **spec},
    }


def _outward() -> list[Object]:
    anywhere = [{"ipBlock": {"cidr": cidr, "except": [local]}} for cidr, local in _LINK_LOCAL.items()]
    return [
        {"ports": [{"port": port, "protocol": protocol} for port in _DNS for protocol in ("UDP", "TCP")]},
        {"ports": [_tcp(port) for port in _TLS]},
        # Some networks do not count pods among the addresses of a block.
        {"to": [*anywhere, {"namespaceSelector": {}}], "ports": [{"protocol": "TCP"}]},
    ]


def _tcp(port: int) -> Object:
    return {"port": port, "protocol": "TCP"}
