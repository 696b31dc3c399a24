"""Registration: write what was proposed, step by step, and wait until the cluster is ready.

Every step looks first, so a second run changes nothing, and the next run completes an interrupted one. The
InferenceCluster comes last: before, the controllers do nothing with the cluster.
"""

import base64
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from modelplane.api import labels
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose.cluster.cluster_kubeconfig import INSTALLER
from modelplane.compose.definition_owner import crossplane_owns
from modelplane.compose.readiness import condition_of, is_true
from modelplane.controllers import fleet_resources
from modelplane.install.applying import OUTCOMES, apply
from modelplane.install.identity_permissions import INFERENCE_CLUSTER
from modelplane.install.registration.account_kubeconfigs import (
    KEY,
    Address,
    create_token,
    is_accepted,
    is_fresh,
    read_stored,
)
from modelplane.install.registration.registration_proposal import (
    Proposal,
    build_secret,
    find_gained,
    find_kept,
)
from modelplane.install.waiting import Deadline, Report
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.kubeconfig_secret import decode_claims, find_token
from modelplane.kube.resources import Object
from modelplane.user_error import UserError

CONTROL_PLANE: Final = "the control plane"
_CLUSTERS: Final = fleet_resources.INFERENCE_CLUSTERS
_CLASSES: Final = fleet_resources.INFERENCE_CLASSES
_TRIES: Final = 10
_CONDITIONS: Final = ("ClusterReady", "BackendReady", "Ready", "Synced")


@dataclass(frozen=True, slots=True)
class Sides:
    """Clients of the control plane and of the cluster."""

    control_plane: Client
    cluster: Client
    address: Address
    lifetime_s: int
    """Lifetime of tokens; the cluster may grant less."""


@asynccontextmanager
async def prefix_errors(side: str) -> AsyncIterator[None]:
    """Name the API server in the errors that it answers."""
    try:
        yield
    except errors.KubernetesError as error:
        raise errors.KubernetesError(f"{side}: {errors.describe_error(error)}") from error


@dataclass(slots=True)
class Registration:
    """One run: what is proposed, and where it is written."""

    proposal: Proposal
    sides: Sides
    report: Report
    deadline: Deadline
    outcomes: list[str] = field(default_factory=list)

    @property
    def _cluster(self) -> str:
        return f'cluster "{self.proposal.name}"'

    async def register(self) -> bool:
        """Register the cluster; return True if anything was changed.

        Raises ``UserError`` before anything is changed, ``NotInTime`` or ``KubernetesError`` after.
        """
        if rejected := self.proposal.rejected:
            raise UserError(rejected.message)
        async with prefix_errors(CONTROL_PLANE):
            known = await self._known()
            await self._check_secrets()
        has_installer = self._has_installer(known)
        async with prefix_errors(self._cluster):
            made = await self._identify(installer=has_installer)
            # Put the nodes into their pools.
            for node in self.proposal.build_node_labels():
                metadata = node["metadata"]
                await self.sides.cluster.patch(
                    resources.NODES, metadata["name"], {"metadata": {"labels": metadata["labels"]}}
                )
            self._count("node labels", ["changed"] * len(self.proposal.build_node_labels()))
        await self._credential(self.proposal.kubeconfig_secret, INFERENCE_CLUSTER, made)
        if has_installer:
            await self._credential(self.proposal.installer_secret, INSTALLER, made)
        async with prefix_errors(CONTROL_PLANE):
            await self._publish(known)
            await self._enter(known)
            await self._wait()
        return any(outcome != "unchanged" for outcome in self.outcomes)

    async def _known(self) -> Object | None:
        """Return the InferenceCluster of the name. Raises ``UserError`` if it is of another cluster."""
        name, uid = self.proposal.name, self.proposal.observed.uid
        if not uid:
            raise UserError(
                f"{self._cluster} did not return the uid of namespace kube-system, which identifies the "
                "cluster"
            )
        by_name = {item["metadata"]["name"]: item for item in await self._registered()}
        for other, item in by_name.items():
            if other != name and _uid(item) == uid:
                raise UserError(
                    f'the cluster is already registered as InferenceCluster "{other}": use that name, or '
                    "delete that InferenceCluster first"
                )
        cluster = by_name.get(name)
        if cluster is None:
            return None
        if cluster["spec"]["cluster"].get("source") != Source.EXISTING:
            raise UserError(f'InferenceCluster "{name}" is provisioned by Modelplane: choose another name')
        if _uid(cluster) not in ("", uid):
            raise UserError(
                f'InferenceCluster "{name}" is a different cluster (uid {_uid(cluster)} of namespace '
                f"kube-system, not {uid}): choose another name, --kubeconfig, or --context"
            )
        if cluster["spec"]["cluster"]["existing"]["secretRef"]["name"] != self.proposal.kubeconfig_secret:
            raise UserError(
                f'InferenceCluster "{name}" was registered by hand, with a Secret other than '
                f'"{self.proposal.kubeconfig_secret}": change the InferenceCluster by hand, or choose '
                "another name"
            )
        return cluster

    async def _registered(self) -> Sequence[Object]:
        """Return the InferenceClusters. Raises ``UserError`` where registration has no effect."""
        plane, name = self.sides.control_plane, f"{_CLUSTERS.plural}.{_CLUSTERS.group}"
        definition: Object | None = None
        with suppress(errors.Forbidden):  # platform teams need not read definitions
            definition = await plane.get(resources.CUSTOM_RESOURCE_DEFINITIONS, name)
        if definition and crossplane_owns(definition):
            raise UserError(
                "Crossplane reconciles this fleet, and requires a different identity on the cluster: "
                'follow "By hand" in docs/how-to/register.md'
            )
        try:
            return (await plane.list(_CLUSTERS)).items
        except errors.NotFound as error:
            raise UserError(
                "Modelplane is not installed on the control plane: run `modelplane install --apply`, or "
                "select another control plane with --kubeconfig"
            ) from error

    async def _check_secrets(self) -> None:
        """Raise ``UserError`` if a Secret that would be written has a kubeconfig of another API server."""
        for name in (self.proposal.kubeconfig_secret, self.proposal.installer_secret):
            secret = await self.sides.control_plane.get(resources.SECRETS, name, SYSTEM_NAMESPACE)
            content = read_stored(secret, name) if secret else None
            if secret is not None and not (content and self.sides.address.has_same_server(content)):
                raise UserError(
                    f'Secret "{name}" in namespace "{SYSTEM_NAMESPACE}" contains no kubeconfig or one for '
                    "another API server, and was not changed: choose another name for the cluster, or "
                    "delete the Secret if the cluster's address has changed"
                )

    def _has_installer(self, cluster: Object | None) -> bool:
        if cluster is None:
            return self.proposal.stack.needs_installer
        reference = cluster["spec"]["cluster"]["existing"].get("installerSecretRef") or {}
        return reference.get("name") == self.proposal.installer_secret

    async def _identify(self, *, installer: bool) -> frozenset[str]:
        """Apply accounts, permissions and limits to the cluster; return the accounts that were not there."""
        manifests = self.proposal.build_identity(installer=installer)
        done = [await apply(self.sides.cluster, manifest) for manifest in manifests]
        self._count("accounts, permissions and limits", done)
        return frozenset(
            manifest["metadata"]["name"]
            for manifest, outcome in zip(manifests, done, strict=True)
            if (manifest["kind"], outcome) == ("ServiceAccount", "created")
        )

    def _count(self, what: str, done: Iterable[str]) -> None:
        outcomes = list(done)
        self.outcomes += outcomes
        counts = (f"{outcomes.count(outcome)} {outcome}" for outcome in OUTCOMES if outcome in outcomes)
        self.report(f"{what}: {', '.join(counts) or 'nothing to do'}")

    async def _credential(self, name: str, account: str, made: frozenset[str]) -> None:
        """Write a kubeconfig with a new token, unless the Secret has one that works.

        Of an account that was ``made`` none works, although the cluster may accept an old one for seconds.
        """
        async with prefix_errors(CONTROL_PLANE):
            secret = await self.sides.control_plane.get(resources.SECRETS, name, SYSTEM_NAMESPACE)
        content = read_stored(secret, name) if secret else None
        async with prefix_errors(self._cluster):
            if (
                content
                and account not in made
                and is_fresh(decode_claims(find_token(content)), account)
                and await is_accepted(content)
            ):
                self._count(f"credential of {account}", ["unchanged"])
                return
            token = await create_token(self.sides.cluster, account, self.sides.lifetime_s)
        manifest = build_secret(name, "")
        text = self.sides.address.build_kubeconfig(token)
        manifest["data"] = {KEY: base64.b64encode(text.encode()).decode()}
        del manifest["stringData"]
        async with prefix_errors(CONTROL_PLANE):
            self._count(f"credential of {account}", [await apply(self.sides.control_plane, manifest)])

    async def _publish(self, known_cluster: Object | None) -> None:
        """Create the InferenceClasses of the pools; one that exists stays: others may have edited it."""
        pools = (known_cluster or {}).get("spec", {}).get("nodePools") or ()
        named = {pool["name"]: pool["className"] for pool in pools}
        needed = {named.get(pool.name, pool.class_name) for pool in self.proposal.hardware.pools}
        done = []
        for manifest in self.proposal.build_classes():
            name = manifest["metadata"]["name"]
            if name not in needed:
                continue
            existing = await self.sides.control_plane.get(_CLASSES, name)
            done.append("unchanged" if existing else await apply(self.sides.control_plane, manifest))
            if existing and existing["spec"]["devices"] != manifest["spec"]["devices"]:
                self.report(f'InferenceClass "{name}" exists with other devices, and was not changed')
        self._count("InferenceClasses", done)

    async def _enter(self, cluster: Object | None) -> None:
        """Create the InferenceCluster, or add what it has gained."""
        proposed = self.proposal.build_cluster()
        if cluster is None:
            self._count(_CLUSTERS.kind, [await apply(self.sides.control_plane, proposed)])
            return
        for line in find_kept(cluster, proposed, self.proposal.choices):
            self.report(line)
        outcome = "unchanged"
        for tries_left in reversed(range(_TRIES)):
            change = find_gained(cluster, proposed)
            if not change:
                break
            version = {"resourceVersion": cluster["metadata"]["resourceVersion"]}
            change["metadata"] = {**change.get("metadata", {}), **version}
            try:
                cluster = await self.sides.control_plane.patch(_CLUSTERS, self.proposal.name, change)
                outcome = "changed"
            except errors.Conflict:  # the controllers write its status meanwhile
                cluster = await self.sides.control_plane.get(_CLUSTERS, self.proposal.name)
                if cluster is None or not tries_left:
                    raise
        self._count(_CLUSTERS.kind, [outcome])

    async def _wait(self) -> None:
        reported: str | None = None

        async def held_up() -> str | None:
            nonlocal reported
            what = await self._held_up()
            if what and what != reported:
                reported = what
                self.report(what)
            return what

        await self.deadline.wait_until_nothing(held_up)
        self.report(f'InferenceCluster "{self.proposal.name}" is ready')

    async def _held_up(self) -> str | None:
        """Return which condition holds the cluster up; None once it is ready."""
        cluster = await self.sides.control_plane.get(_CLUSTERS, self.proposal.name)
        if cluster is None:
            return f'InferenceCluster "{self.proposal.name}" has been deleted'
        if is_true(cluster, "Ready"):
            return None
        for type_ in _CONDITIONS:
            condition = condition_of(cluster, type_)
            if condition and condition["status"] != "True":
                return (
                    f'InferenceCluster "{self.proposal.name}": {type_} is {condition["status"]} '
                    f"({condition['reason']}): {condition.get('message', '')}"
                )
        return (
            f'InferenceCluster "{self.proposal.name}" has no conditions yet: check that the '
            "controllers are running"
        )


def _uid(cluster: Object) -> str:
    return str((cluster["metadata"].get("annotations") or {}).get(labels.CLUSTER_UID, ""))
