"""Proposal: every object that registers a cluster, on both sides, and the preview of a registration."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from modelplane.api import labels
from modelplane.api.clouds.cluster_origin import ClusterOrigin, Existing, KubeconfigSecret, Source
from modelplane.api.fields.cluster.stack_components import ServingProfile
from modelplane.api.fields.cluster.usable_capacity import CapacitySource
from modelplane.api.inference_cluster import InferenceCluster, InferenceClusterSpec
from modelplane.api.listing import count_noun, join_alternatives, listing
from modelplane.api.meta import SYSTEM_NAMESPACE, ObjectMeta
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import encode
from modelplane.catalogue.entries import Catalogue
from modelplane.compose import copy_access
from modelplane.compose.cluster.cluster_kubeconfig import INSTALLER
from modelplane.install import cluster_requirements
from modelplane.install.identity_permissions import (
    BIND_COPIES,
    INFERENCE_CLUSTER,
    OWN_TOKEN,
    list_cluster_rules,
    list_copy_rules,
)
from modelplane.install.registration.gpu_hardware import Hardware, describe_hardware
from modelplane.install.registration.observed import Observed
from modelplane.install.registration.stack import Stack, choose_stack
from modelplane.install.roles import Rule
from modelplane.kube.resources import Object

LONGEST_NAME: Final = 63
"""Characters of the name of a cluster: it is part of other names."""

_DRA: Final = "v1"


@dataclass(frozen=True, slots=True)
class Choices:
    """Choices of the user about a registration."""

    name: str
    """Name of the InferenceCluster."""
    labels: Mapping[str, str]
    profile: ServingProfile | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """The description of a cluster, and what registers it."""

    choices: Choices
    observed: Observed
    hardware: Hardware
    stack: Stack

    @property
    def name(self) -> str:
        """Name of the InferenceCluster."""
        return self.choices.name

    @property
    def kubeconfig_secret(self) -> str:
        """Name of the Secret with the kubeconfig of the fleet's identity."""
        return f"{self.name}-kubeconfig"

    @property
    def installer_secret(self) -> str:
        """Name of the Secret with the kubeconfig of the identity that installs charts."""
        return f"{self.name}-installer"

    @property
    def problems(self) -> tuple[str, ...]:
        """Reasons for which the cluster cannot be registered, with remedies."""
        return (*_of_version(self.observed), *self.hardware.problems, *self.stack.problems)

    @property
    def rejected(self) -> Rejected | None:
        """The problems as a message; None if there are none."""
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        return Rejected(subject="the cluster", detail=f"cannot be registered:{lines}") if lines else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user, to read beforehand."""
        skipped = self.observed.skipped
        return (
            *self.hardware.notes,
            *self.stack.notes,
            *([f"ignored {skipped} malformed responses from the cluster"] if skipped else []),
        )

    def build_identity(self, *, installer: bool) -> list[Object]:
        """Return the accounts of the fleet on the cluster, their permissions and limits."""
        return cluster_requirements.build_manifests(installer=installer)

    def build_node_labels(self) -> list[Object]:
        """Return the labels that put nodes into their pools, as Nodes."""
        return [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": node, "labels": {labels.POOL: pool.name}},
            }
            for pool in self.hardware.pools
            for node in pool.unlabeled
        ]

    def build_classes(self) -> list[Object]:
        """Return the InferenceClasses."""
        return [encode(inference_class) for inference_class in self.hardware.classes]

    def build_cluster(self) -> Object:
        """Return the InferenceCluster."""
        own = {node.region for pool in self.hardware.pools for node in pool.nodes}
        region = {labels.REGION: own.pop()} if len(own) == 1 and "" not in own else {}
        existing = Existing(
            secret_ref=KubeconfigSecret(name=self.kubeconfig_secret),
            installer_secret_ref=(
                KubeconfigSecret(name=self.installer_secret) if self.stack.needs_installer else None
            ),
        )
        return encode(
            InferenceCluster(
                metadata=ObjectMeta(
                    name=self.name,
                    labels={**region, **self.choices.labels},
                    annotations={labels.CLUSTER_UID: self.observed.uid},
                ),
                spec=InferenceClusterSpec(
                    cluster=ClusterOrigin(source=Source.EXISTING, existing=existing),
                    serving_stack=self.stack.settings,
                    node_pools=tuple(pool.build_spec() for pool in self.hardware.pools),
                    capacity_source=CapacitySource.OBSERVED,
                ),
            )
        )


def build_secret(name: str, kubeconfig: str) -> Object:
    """Return the Secret of a kubeconfig, as text."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE},
        "stringData": {KubeconfigSecret(name=name).key: kubeconfig},
    }


def find_kept(existing: Mapping[str, Any], proposed: Object, choices: Choices) -> Iterator[str]:
    """Yield what of an InferenceCluster that exists already differs from a proposal, and stays."""
    found = {pool["name"]: pool["className"] for pool in proposed["spec"]["nodePools"]}
    for pool in existing["spec"].get("nodePools") or ():
        class_name = found.get(pool["name"], pool["className"])
        if class_name != pool["className"]:
            yield (
                f'pool "{pool["name"]}" keeps InferenceClass "{pool["className"]}", although the nodes '
                f'match "{class_name}"'
            )
    profile = existing["spec"].get("servingStack", {}).get("profile", ServingProfile.STANDARD)
    own = existing["metadata"].get("labels") or {}
    if choices.profile not in (None, profile) or not choices.labels.items() <= own.items():
        yield "profile and labels were not changed: to change them, edit the InferenceCluster"


def propose(choices: Choices, observed: Observed, catalogue: Catalogue) -> Proposal:
    """Propose the objects that register a cluster, from what was observed."""
    return Proposal(
        choices,
        observed,
        describe_hardware(choices.name, observed, catalogue),
        choose_stack(observed, choices.profile),
    )


def find_gained(known: Mapping[str, Any], proposed: Object) -> Object:
    """Return the change of an InferenceCluster that exists already: the pools and nodes that it has gained.

    Empty if there are none. Nothing else changes: a node that is not there at the moment is no reason to
    shrink a pool, and what was installed since is no reason for another profile.
    """
    change: Object = {}
    uid = proposed["metadata"]["annotations"][labels.CLUSTER_UID]
    if (known["metadata"].get("annotations") or {}).get(labels.CLUSTER_UID) != uid:
        change["metadata"] = {"annotations": {labels.CLUSTER_UID: uid}}
    found = {pool["name"]: pool for pool in proposed["spec"]["nodePools"]}
    before = known["spec"].get("nodePools") or []
    after = [
        {
            **pool,
            "nodeCount": max(pool.get("nodeCount", 1), found.get(pool["name"], pool).get("nodeCount", 1)),
        }
        for pool in before
    ]
    after += [added for name, added in found.items() if name not in {pool["name"] for pool in before}]
    if after != [{**pool, "nodeCount": pool.get("nodeCount", 1)} for pool in before]:
        change["spec"] = {"nodePools": after}
    return change


def _of_version(observed: Observed) -> tuple[str, ...]:
    if _DRA in observed.dra_versions:
        return ()
    served = join_alternatives(observed.dra_versions, "and") if observed.dra_versions else "no version"
    problem = (
        f"Kubernetes {observed.version or 'of an unknown version'} serves {served} of resource.k8s.io, and "
        f"models require resource.k8s.io/{_DRA}: upgrade the cluster to Kubernetes 1.34 or later"
    )
    return (problem,)


@dataclass(frozen=True, slots=True)
class Section:
    """Lines for people, and the objects that they are about."""

    lines: tuple[str, ...]
    objects: tuple[Object, ...] = ()


def build_preview(proposal: Proposal, server: str, lifetime: str) -> tuple[Section, ...]:
    """Return the whole registration, in the order in which it is written."""
    installer = proposal.stack.needs_installer
    return (
        Section((*_found(proposal, server), *_permissions(installer=installer))),
        Section(
            (f"On the cluster: {proposal.name}",),
            (*proposal.build_identity(installer=installer), *proposal.build_node_labels()),
        ),
        Section(
            ("On the control plane",),
            (*_secrets(proposal, lifetime), *proposal.build_classes(), proposal.build_cluster()),
        ),
    )


def _found(proposal: Proposal, server: str) -> Iterator[str]:
    observed = proposal.observed
    nodes = count_noun(len(observed.nodes), "node")
    yield f'InferenceCluster "{proposal.name}": Kubernetes {observed.version}, {nodes}, {server}'
    for pool in proposal.hardware.pools:
        absent = [node.name for node in pool.nodes if not node.is_ready]
        doubt = f"; not ready: {listing(absent)}" if absent else ""
        yield f"Found {pool}{doubt}"
    for component in proposal.stack.found:
        yield f"Already installed: {component}"
    yield f"Profile of the serving stack: {proposal.stack.settings.profile}"
    for component in proposal.stack.installs:
        yield f"Would be installed: {component}"
    for note in proposal.notes:
        yield f"Note: {note}"
    for problem in proposal.problems:
        yield f"Problem: {problem}"


def _permissions(*, installer: bool) -> Iterator[str]:
    yield ""
    yield f"Permissions of ServiceAccount {SYSTEM_NAMESPACE}/{INFERENCE_CLUSTER} on the cluster:"
    yield from map(_permission, (*list_cluster_rules(), BIND_COPIES))
    yield f"in namespace {SYSTEM_NAMESPACE}:"
    yield from map(_permission, OWN_TOKEN)
    yield f"in namespaces with copies, by RoleBinding {copy_access.ROLE}:"
    yield from map(_permission, list_copy_rules())
    if installer:
        yield f"Permissions of ServiceAccount {SYSTEM_NAMESPACE}/{INSTALLER} on the cluster:"
        yield "  cluster-admin: charts contain ClusterRoles, webhooks and CustomResourceDefinitions"


def _permission(rule: Rule) -> str:
    names = f" named {', '.join(rule.names)}" if rule.names else ""
    group = f" of {rule.group}" if rule.group else ""
    return f"  {', '.join(rule.verbs)} {', '.join(rule.resources)}{group}{names}: {rule.why}"


def _secrets(proposal: Proposal, lifetime: str) -> Iterator[Object]:
    accounts = {proposal.kubeconfig_secret: INFERENCE_CLUSTER}
    if proposal.stack.needs_installer:
        accounts[proposal.installer_secret] = INSTALLER
    for name, account in accounts.items():
        yield build_secret(
            name, f"a kubeconfig with a new token for ServiceAccount {account}, valid for {lifetime}"
        )
