"""Guards: dependencies between objects, so that no object is deleted while another one needs it.

One table lists the dependencies of each kind. Both directions follow from it: the objects to hold before
their first use, and the users that a deletion waits for.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from modelplane.api import labels
from modelplane.api.clouds.cloud_rows import CLUSTER_KINDS
from modelplane.api.clouds.serving_stack import ServingStack, name_stack
from modelplane.api.inference_class import InferenceClass
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.kinds import KINDS
from modelplane.api.meta import SYSTEM_NAMESPACE, Object, ObjectMeta, kind_name
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.untyped import get_list
from modelplane.compose.composition import Guard, Request, Requirement

_KEY = "users-"
_API_VERSIONS = {kind.name: kind.api_version for kind in KINDS}


class _Need(msgspec.Struct, frozen=True):
    """Objects of kind ``user`` need the objects of kind ``needed`` that ``names`` returns."""

    user: str
    needed: str
    names: Callable[[Object], Iterable[str]]
    shared: bool = True
    """True if every namespace needs the same object; otherwise it is in the user's namespace."""
    namespace: str = ""
    """Namespace of a shared object; empty if it is cluster-scoped."""
    follows: bool = False
    """True if a user leaves on its own once the needed object is being deleted, so that nothing waits."""
    label: str = ""
    """The label with the needed object's name on users that Modelplane creates, so that few are read."""
    shares_label: bool = False
    """True if the needed object has the label too, with the same value in place of its name."""


def recorded(owner: Object) -> tuple[str, ...]:
    """Return the clusters that an owner records as written to.

    A ModelReplica lists their names in its status, a ModelCache the progress of each. A replica that a
    ModelDeployment created is recorded from its creation on: until it has a status, its cluster is the one in
    its spec.
    """
    references = get_list(owner, "metadata", "ownerReferences")
    is_created = any(reference.get("controller") for reference in references)
    if not owner.get("status") and owner.get("kind") == kind_name(ModelReplica) and is_created:
        return (owner["spec"]["clusterName"],)
    listed = get_list(owner, "status", "clusters")
    return tuple(item["name"] if isinstance(item, Mapping) else item for item in listed)


def _clusters(replica: Object) -> tuple[str, ...]:
    return (replica["spec"]["clusterName"], *recorded(replica))


def _clusters_of_stack(stack: Object) -> tuple[str, ...]:
    named = stack["spec"].get("clusterName")
    return (*([named] if named else []), *recorded(stack))


def _cache(replica: Object) -> tuple[str, ...]:
    reference = replica["spec"].get("modelCacheRef")
    return (reference["name"],) if reference else ()


_NEEDS = (
    _Need(
        kind_name(InferenceCluster),
        kind_name(InferenceClass),
        lambda cluster: (pool["className"] for pool in cluster["spec"].get("nodePools", ())),
    ),
    _Need(kind_name(ModelReplica), kind_name(InferenceCluster), _clusters, label=labels.CLUSTER),
    _Need(kind_name(ModelCache), kind_name(InferenceCluster), recorded, follows=True),
    _Need(kind_name(ModelReplica), kind_name(ModelCache), _cache, shared=False),
    # Foreground deletion of an InferenceCluster deletes the cluster of its cloud at once, used or not.
    *(
        _Need(kind_name(ModelReplica), kind, _clusters, namespace=SYSTEM_NAMESPACE, label=labels.CLUSTER)
        for kind in CLUSTER_KINDS
    ),
    # Replicas, then the stack, then the cluster of the cloud.
    _Need(
        kind_name(ModelReplica),
        kind_name(ServingStack),
        lambda replica: map(name_stack, _clusters(replica)),
        namespace=SYSTEM_NAMESPACE,
        label=labels.CLUSTER,
        shares_label=True,
    ),
    _Need(
        kind_name(ServingStack),
        kind_name(InferenceCluster),
        _clusters_of_stack,
        follows=True,
        label=labels.CLUSTER,
    ),
    *(
        _Need(
            kind_name(ServingStack),
            kind,
            _clusters_of_stack,
            namespace=SYSTEM_NAMESPACE,
            label=labels.CLUSTER,
        )
        for kind in CLUSTER_KINDS
    ),
)


class Dependency(NamedTuple):
    """An object that another one needs."""

    kind: str
    namespace: str
    name: str


def list_needed(user: Object) -> tuple[Dependency, ...]:
    """Return the objects that an object needs, whether they exist or not."""
    own = user["metadata"].get("namespace", "")
    return tuple(
        sorted(
            {
                Dependency(need.needed, need.namespace if need.shared else own, name)
                for need in _NEEDS
                if need.user == user["kind"]
                for name in need.names(user)
            }
        )
    )


def requirements(kind: str, owner: ObjectMeta) -> tuple[Requirement, ...]:
    """Return the requirements for the users of an object of a guarded kind.

    They do not trigger: until the object is deleted, its composition does not depend on them.
    """
    return tuple(
        Requirement(
            _KEY + need.user,
            _API_VERSIONS[need.user],
            need.user,
            namespace="" if need.shared else owner.namespace,
            labels=_selector(need, owner),
            triggers=False,
        )
        for need in _NEEDS
        if need.needed == kind
    )


def _selector(need: _Need, owner: ObjectMeta) -> dict[str, str]:
    value = owner.labels.get(need.label, "") if need.shares_label else owner.name
    return {need.label: value} if need.label and value else {}


def on_deletion(owner: Object) -> tuple[Requirement, ...]:
    """Return the requirements for the users that hold an object while it is deleted, labeled or not."""
    own = owner["metadata"].get("namespace", "")
    return tuple(
        Requirement(
            _KEY + need.user, _API_VERSIONS[need.user], need.user, namespace="" if need.shared else own
        )
        for need in _NEEDS
        if need.needed == owner["kind"]
    )


def is_guarded(kind: str) -> bool:
    """Return True if objects of a kind may be held while others need them."""
    return any(need.needed == kind for need in _NEEDS)


def waited_for(kind: str, guards: Iterable[Guard]) -> frozenset[str]:
    """Return the kinds of the users that do not leave on their own when an object is deleted."""
    following = {need.user for need in _NEEDS if need.needed == kind and need.follows}
    return frozenset(guard.kind for guard in guards) - following


def matters_only_on_deletion(requirement: Requirement) -> bool:
    """Return True if a requirement is only for guards."""
    return requirement.key.startswith(_KEY)


def find_guards(kind: str, request: Request[Any, Any]) -> tuple[Guard, ...]:
    """Return the guards among the required objects."""
    owner = request.owner.metadata
    keys = [_KEY + need.user for need in _NEEDS if need.needed == kind]
    users = [user for key in keys for user in request.found(key)]
    return users_of(Dependency(kind, owner.namespace, owner.name), users)


def users(user: str, request: Request[Any, Any]) -> tuple[Object, ...]:
    """Return the required users of one kind; empty if guards are finalizers."""
    return request.found(_KEY + user)


def users_of(target: Dependency, candidates: Iterable[Object]) -> tuple[Guard, ...]:
    """Return the candidates that need an object, as guards."""
    return tuple(
        Guard(
            user["apiVersion"], user["kind"], user["metadata"]["name"], user["metadata"].get("namespace", "")
        )
        for user in candidates
        if needs(user, target)
    )


def needs(user: Object, *targets: Dependency) -> bool:
    """Return True if an object needs all of these. A malformed one may need anything."""
    try:
        return set(targets) <= set(list_needed(user))
    except (AttributeError, KeyError, TypeError):
        return True
