"""Preview of a registration: what was found, what would be written where, and every permission."""

from collections.abc import Iterator
from dataclasses import dataclass

from modelplane.api.listing import listing, number_of
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose import copy_access
from modelplane.compose.cluster.cluster_kubeconfig import INSTALLER
from modelplane.install.permissions.identity_permissions import (
    BIND_COPIES,
    INFERENCE_CLUSTER,
    OWN_TOKEN,
    list_cluster_rules,
    list_copy_rules,
)
from modelplane.install.permissions.roles import Rule
from modelplane.install.registration.proposal import Proposal, build_secret
from modelplane.kube.resources import Object


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
    nodes = number_of(len(observed.nodes), "node")
    yield f'InferenceCluster "{proposal.name}": Kubernetes {observed.version}, {nodes}, {server}'
    for pool in proposal.hardware.pools:
        absent = [node.name for node in pool.nodes if not node.is_ready]
        doubt = f"; not ready: {listing(absent)}" if absent else ""
        yield f"Found {pool}{doubt}"
    for component in proposal.stack.found:
        yield f"There already: {component}"
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
            name, f"a kubeconfig with a new token of ServiceAccount {account}, valid for {lifetime}"
        )
