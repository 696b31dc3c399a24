"""Personas: what the installed roles let people do, by the word of a real API server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from modelplane.controllers import fleet_resources
from modelplane.install.installation_options import Options
from modelplane.install.manifests import build_manifests
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from support.fleets import ControlPlane
from support.patience import eventually

pytestmark = pytest.mark.kubernetes

TEAM, OTHERS, SYSTEM = "ml-team", "research", "modelplane-system"
RBAC = "rbac.authorization.k8s.io"
PERSONAS = {
    "editor": ("edit", TEAM),
    "viewer": ("view", TEAM),
    "platform": ("modelplane-platform", ""),
    "operator": ("modelplane-gateway-operator", ""),
}
"""The role that each persona is bound to, and where; empty for the whole fleet."""

MODELPLANE = "modelplane.ai"
PROBES = {
    "deploy a model": ("create", MODELPLANE, "modeldeployments", TEAM),
    "scale a model": ("patch", MODELPLANE, "modeldeployments/scale", TEAM),
    "name a provider": ("create", MODELPLANE, "modelendpoints", TEAM),
    "make an API key": ("create", MODELPLANE, "modelkeys", TEAM),
    "make an API key for another team": ("create", MODELPLANE, "modelkeys", OTHERS),
    "see the hashes of API keys": ("list", MODELPLANE, "modelkeys", TEAM),
    "see the hashes of another team's API keys": ("get", MODELPLANE, "modelkeys", OTHERS),
    "grant API keys": ("patch", MODELPLANE, "inferencegateways", ""),
    "see a model": ("get", MODELPLANE, "modeldeployments", TEAM),
    "see an endpoint": ("list", MODELPLANE, "modelendpoints", TEAM),
    "see another team's endpoint": ("list", MODELPLANE, "modelendpoints", OTHERS),
    "see another team's model": ("get", MODELPLANE, "modeldeployments", OTHERS),
    "deploy for another team": ("create", MODELPLANE, "modeldeployments", OTHERS),
    "write a replica": ("patch", MODELPLANE, "modelreplicas", TEAM),
    "write a status": ("patch", MODELPLANE, "modelendpoints/status", TEAM),
    "publish hardware": ("create", MODELPLANE, "inferenceclasses", ""),
    "register a cluster": ("create", MODELPLANE, "inferenceclusters", ""),
    "see the clusters": ("list", MODELPLANE, "inferenceclusters", ""),
    "open a destination": ("patch", MODELPLANE, "inferencegateways", ""),
    "read the team's Secrets": ("get", "", "secrets", TEAM),
    "read another team's Secrets": ("get", "", "secrets", OTHERS),
    "read a kubeconfig": ("get", "", "secrets", SYSTEM),
    "write a kubeconfig": ("create", "", "secrets", SYSTEM),
    "give itself a role": ("create", RBAC, "clusterrolebindings", ""),
}
ALLOWED = {
    "editor": {
        "deploy a model",
        "scale a model",
        "name a provider",
        "make an API key",
        "see the hashes of API keys",
        "see a model",
        "see an endpoint",
        "read the team's Secrets",
    },
    "viewer": {"see a model", "see an endpoint"},
    "platform": {
        "publish hardware",
        "register a cluster",
        "see the clusters",
        "see a model",
        "see another team's model",
        "see an endpoint",
        "see another team's endpoint",
    },
    "operator": {"open a destination", "grant API keys", "see an endpoint", "see another team's endpoint"},
}


@pytest.fixture
async def client(own_control_plane: ControlPlane) -> AsyncIterator[Client]:
    """An administrator, after each persona was bound to its role."""
    async with Client.from_kubeconfig(
        str(own_control_plane.kubeconfig), known=fleet_resources.find_known
    ) as client:
        for name in (TEAM, OTHERS, SYSTEM):
            await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        roles = [each for each in build_manifests(Options()) if each["kind"] == "ClusterRole"]
        for manifest in [*roles, *(_binding(name, *bound) for name, bound in PERSONAS.items())]:
            await client.apply(manifest)
        yield client


def _binding(persona: str, role: str, namespace: str) -> Object:
    where = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": persona, **where},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": persona}],
    }


async def _allowed(client: Client, persona: str) -> set[str]:
    async def asks(verb: str, group: str, resource: str, namespace: str) -> bool:
        name, _, subresource = resource.partition("/")
        about: dict[str, Any] = {"verb": verb, "group": group, "resource": name, "namespace": namespace}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {"user": persona, "resourceAttributes": about | {"subresource": subresource}},
        }
        return bool((await client.create(review))["status"]["allowed"])

    answers = await asyncio.gather(*(asks(*probe) for probe in PROBES.values()))
    return {name for name, answer in zip(PROBES, answers, strict=True) if answer}


@pytest.mark.parametrize("persona", PERSONAS)
async def test_a_persona_does_what_its_role_says_and_nothing_else(client: Client, persona: str) -> None:
    async def is_so() -> bool:
        # Aggregation, and each server's copy of the roles, take a moment.
        return await _allowed(client, persona) == ALLOWED[persona]

    try:
        await eventually(is_so)
    except TimeoutError:
        assert await _allowed(client, persona) == ALLOWED[persona]
