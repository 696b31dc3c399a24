"""Mutual TLS on the gateway of a cluster, as Envoy Gateway has it: a listener, its certificate, and a policy.

The policy admits only the certificate of the fleet's gateway. The certificate of the cluster's gateway is in
a namespace of its own, so that the fleet's identity need not read the Secrets of the system's namespace.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from modelplane.api.meta import CERTIFICATE_NAMESPACE, GATEWAY_NAME, SYSTEM_NAMESPACE, Object
from modelplane.api.schema.untyped import get_list
from modelplane.compose.composition import Desired, Requirement
from modelplane.compose.readiness import exists
from modelplane.compose.serving_stack import traffic_policies
from modelplane.compose.serving_stack.component import Plan
from modelplane.gateway.mutual_tls import CLIENT_NAME, Protocol, list_accepted

LISTENER: Final = "mutual-tls"
"""Name of the listener."""

SECRET: Final = "modelplane-gateway"  # noqa: S105  a name, not a secret
"""Name of the Secret of the cluster's gateway: its certificate, and the authorities of its client's."""

POLICY: Final = "modelplane-mutual-tls"

_PORTS: Final = (443, *range(8443, 8451))
"""One more than a stack has listeners."""
_API: Final = "gateway.networking.k8s.io"

KEYS: Final = ("gateway-certificate", "gateway-certificate-grant", "gateway-clients")
"""Keys of the Secret, the grant and the policy."""


def secret_requirement(cluster: str) -> Requirement:
    """Return the requirement for the Secret of a cluster's gateway."""
    return Requirement("certificate", "v1", "Secret", CERTIFICATE_NAMESPACE, SECRET, cluster=cluster)


def policy_requirement(cluster: str) -> Requirement:
    """Return the requirement for the policy of a cluster's gateway."""
    version = f"{traffic_policies.API}/v1alpha1"
    return Requirement("policy", version, "ClientTrafficPolicy", SYSTEM_NAMESPACE, POLICY, cluster=cluster)


def is_listener(listener: Mapping[str, Any]) -> bool:
    """Return True if a listener of a Gateway is that of mutual TLS."""
    return listener.get("name") == LISTENER


def listeners(plan: Plan, plain: list[dict[str, Any]], observed: Object | None) -> list[dict[str, Any]]:
    """Return the listeners of a Gateway, by the phase of the rollout.

    Where nothing issues certificates, a listener with mutual TLS stays as it is.
    """
    link = plan.request.facts.mutual_tls
    if link is None:
        present: list[dict[str, Any]] = list(get_list(observed, "spec", "listeners"))
        return present if any(map(is_listener, present)) else plain
    protocols = list_accepted(link.rollout.phase)
    taken = {entry["port"] for entry in plain}
    secured = {
        "name": LISTENER,
        "port": next(port for port in _PORTS if port not in taken),
        "protocol": "HTTPS",
        "tls": {
            "mode": "Terminate",
            "certificateRefs": [
                {"group": "", "kind": "Secret", "name": SECRET, "namespace": CERTIFICATE_NAMESPACE}
            ],
        },
        "allowedRoutes": {"namespaces": {"from": "All"}},
    }
    return [
        *(plain if Protocol.PLAIN in protocols else []),
        *([secured] if Protocol.TLS in protocols else []),
    ]


def objects(plan: Plan) -> Iterator[Desired]:
    """Yield the Secret, the grant to read it, and the policy, while the gateway accepts mutual TLS."""
    link = plan.request.facts.mutual_tls
    if link is None or link.certificate is None or Protocol.TLS not in list_accepted(link.rollout.phase):
        return
    content = {"tls.crt": link.certificate.chain, "tls.key": link.certificate.key, "ca.crt": link.authorities}
    secret: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": CERTIFICATE_NAMESPACE},
        "type": "kubernetes.io/tls",
        "data": {name: base64.b64encode(pem.encode()).decode() for name, pem in content.items()},
    }
    grant: Object = {
        "apiVersion": f"{_API}/v1beta1",
        "kind": "ReferenceGrant",
        "metadata": {"name": SECRET, "namespace": CERTIFICATE_NAMESPACE},
        "spec": {
            "from": [
                {"group": group, "kind": kind, "namespace": SYSTEM_NAMESPACE}
                for group, kind in ((_API, "Gateway"), (traffic_policies.API, "ClientTrafficPolicy"))
            ],
            "to": [{"group": "", "kind": "Secret", "name": SECRET}],
        },
    }
    policy: Object = {
        "apiVersion": f"{traffic_policies.API}/v1alpha1",
        "kind": "ClientTrafficPolicy",
        "metadata": {"name": POLICY, "namespace": SYSTEM_NAMESPACE},
        "spec": {
            "targetRefs": [{"group": _API, "kind": "Gateway", "name": GATEWAY_NAME, "sectionName": LISTENER}],
            # A policy of a listener replaces that of the whole Gateway.
            **traffic_policies.AS_SENT,
            "tls": {
                "clientValidation": {
                    "caCertificateRefs": [
                        {"group": "", "kind": "Secret", "name": SECRET, "namespace": CERTIFICATE_NAMESPACE}
                    ],
                    "subjectAltNames": {"dnsNames": [{"type": "Exact", "value": CLIENT_NAME}]},
                }
            },
        },
    }
    for key, manifest in zip(KEYS, (secret, grant, policy), strict=True):
        yield Desired(key, manifest, exists, plan.cluster)


def withdrawn(plan: Plan) -> frozenset[str]:
    """Return the keys of the objects that are pruned: all, once the gateway accepts plain HTTP only."""
    link = plan.request.facts.mutual_tls
    is_off = link is not None and Protocol.TLS not in list_accepted(link.rollout.phase)
    return frozenset(KEYS) if is_off else frozenset()


def in_force(gateway: Object | None, policy: Object | None) -> frozenset[Protocol]:
    """Return the protocols that a Gateway reports as in force, mutual TLS with its policy."""
    if gateway is None:
        return frozenset()
    names = {
        listener.get("name")
        for listener in get_list(gateway, "status", "listeners")
        if _holds(listener, "Programmed", gateway)
    }
    wanted = get_list(gateway, "spec", "listeners")
    plain = [item for item in wanted if not is_listener(item)]
    found = {Protocol.PLAIN} if plain and all(item.get("name") in names for item in plain) else set()
    if LISTENER in names and any(map(is_listener, wanted)) and policy is not None:
        ancestors = get_list(policy, "status", "ancestors")
        if ancestors and all(_holds(ancestor, "Accepted", policy) for ancestor in ancestors):
            found.add(Protocol.TLS)
    return frozenset(found)


def _holds(reported: Mapping[str, Any], type_: str, item: Object) -> bool:
    """Return True if a condition holds for the present generation of an object."""
    return any(
        condition.get("type") == type_
        and condition.get("status") == "True"
        and condition.get("observedGeneration", 0) >= item["metadata"].get("generation", 0)
        for condition in get_list(reported, "conditions")
    )
