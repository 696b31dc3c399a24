"""Flow: compose the components of a serving stack, each once those that it needs are ready.

A component that is composed stays: only ``enabled: false`` uninstalls one. If the cluster cannot be read, a
setting is invalid or another component degrades, everything stays as it is.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from modelplane.api.clouds.serving_stack import ServingStack
from modelplane.api.conditions.reasons import ServingStackCondition as Type, ServingStackReason as Reason
from modelplane.api.fields.cluster.stack_components import ComponentName, ComponentState, ServingProfile
from modelplane.api.listing import in_order, listing
from modelplane.api.meta import SYSTEM_NAMESPACE, kind_name
from modelplane.compose import guards
from modelplane.compose.composition import Composition, Desired, Keep, Requirement, keep_all
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.definition_owner import CRD_API_VERSION
from modelplane.compose.serving_stack import ai_gateway, cluster_gateway, cluster_mutual_tls
from modelplane.compose.serving_stack.component import Component, Plan, StackRequest, list_composed
from modelplane.compose.serving_stack.component_outcome import (
    Outcome,
    decide_outcome,
    decide_removal,
    is_installed,
)
from modelplane.compose.serving_stack.table import COMPONENTS
from modelplane.compose.workload_kinds import INFERENCE_POOL, capabilities


def requirements(stack: ServingStack) -> tuple[Requirement, ...]:
    """Return the requirements of a stack: what its cluster has already, and its users."""
    users, cluster = guards.requirements(kind_name(ServingStack), stack.metadata), stack.spec.cluster_name
    if not cluster:
        return users
    definitions = capabilities()
    signs = {row.found_by for row in COMPONENTS} & definitions.keys()
    return (
        cluster_gateway.requirement(cluster),
        ai_gateway.requirement(cluster),
        *(
            Requirement(
                key, CRD_API_VERSION, "CustomResourceDefinition", name=definitions[key], cluster=cluster
            )
            for key in sorted({*signs, INFERENCE_POOL.capability})
        ),
        *users,
    )


def compose(request: StackRequest) -> Composition:
    """Compose the components of a stack; in doubt, keep each as it is."""
    stack = request.owner
    refused = _refused(stack)
    if refused is not None:
        known = list_composed(stack)
        keys = {key for row in COMPONENTS if row.name in known for key in row.keys}
        return _composition(request, keep_all({*request.observed, *keys}), refused, [])
    settings = {component.name: component for component in stack.spec.components}
    plan = Plan(request, stack.spec.cluster_name or "", frozenset(), settings, COMPONENTS)
    plan = replace(plan, chosen=frozenset(row.name for row in COMPONENTS if _is_chosen(row, plan)))
    outcomes: dict[ComponentName, Outcome] = {}
    for row in COMPONENTS:
        if row.name in plan.chosen:
            outcomes[row.name] = decide_outcome(row, plan, outcomes)
        elif (
            row.name in settings
            and settings[row.name].enabled is False
            and any(key in request.observed for key in row.keys)
        ):
            outcomes[row.name] = decide_removal(row, plan)
    children = tuple(child for result in outcomes.values() for child in result.children)
    named = {child.key for child in children}
    leaving = (result for result in outcomes.values() if result.state is ComponentState.UNINSTALLING)
    dropped = {key for result in leaving for key in result.row.keys} | cluster_mutual_tls.withdrawn(plan)
    kept = keep_all(key for key in request.observed if key not in named | dropped)
    composed = _composition(request, (*children, *kept), _progress(outcomes), list(outcomes.values()))
    return replace(composed, unsatisfied=ai_gateway.awaits_picker(plan))


def _refused(stack: ServingStack) -> Condition | None:
    if stack.metadata.namespace != SYSTEM_NAMESPACE:
        message = (
            f'a stack in namespace "{stack.metadata.namespace}" is not installed: InferenceClusters create '
            f'their stacks in namespace "{SYSTEM_NAMESPACE}"'
        )
        return false(Type.BACKEND_READY, Reason.NO_CLUSTER, message)
    if not stack.spec.cluster_name:
        message = (
            "spec.clusterName is empty: set it to the InferenceCluster, or let the InferenceCluster create "
            "the stack"
        )
        return false(Type.BACKEND_READY, Reason.NO_CLUSTER, message)
    return None


def _is_chosen(row: Component, plan: Plan) -> bool:
    """Return True if a stack has a component: it is asked for, or it was installed before."""
    settings = plan.settings.get(row.name)
    if settings is not None and settings.enabled is not None:
        return settings.enabled
    in_profile = {
        ServingProfile.STANDARD: row.in_standard,
        ServingProfile.MINIMAL: row.in_minimal,
        ServingProfile.NONE: False,
    }
    return in_profile[plan.stack.spec.profile] or is_installed(row, plan)


def _progress(outcomes: Mapping[ComponentName, Outcome]) -> Condition:
    leaving = [result.row.name for result in outcomes.values() if result.state is ComponentState.UNINSTALLING]
    wanted = [result for result in outcomes.values() if result.row.name not in leaving]
    unready = [result for result in wanted if not result.is_settled]
    pending = [result for result in unready if not result.row.optional]
    failed = [f"{result.row.name}: {result.message}" for result in wanted if result.has_failed]
    message = f"{len(wanted) - len(unready)} of {len(wanted)} components are ready"
    if leaving:
        message = f"{message}, uninstalling {listing(leaving)}"
    if failed:
        message = f"{message}: {in_order(failed, separator='; ')}"
    elif unready:
        message = f"{message}: waiting for {listing(result.row.name for result in pending or unready)}"
    if not pending:
        degraded = failed or unready
        return true(Type.BACKEND_READY, Reason.DEGRADED if degraded else Reason.COMPONENTS_READY, message)
    broken = any(result.has_failed for result in pending)
    return false(Type.BACKEND_READY, Reason.COMPONENT_FAILED if broken else Reason.INSTALLING, message)


def _composition(
    request: StackRequest, children: tuple[Desired | Keep, ...], condition: Condition, outcomes: list[Outcome]
) -> Composition:
    stack = request.owner
    # A cluster that was written to stays listed until the stack has no objects there.
    clusters = set(stack.status.clusters) | ({stack.spec.cluster_name} if outcomes else set())
    known = msgspec.to_builtins(stack.status.components)
    status: dict[str, Any] = {
        "components": [result.status() for result in outcomes] or known,
        "clusters": sorted(filter(None, clusters)),
    }
    if address := _address(request):
        status["gateway"] = {"address": address}
    return Composition(
        children=children,
        status=status,
        conditions=(condition,),
        ready=condition.holds,
        guards=guards.find_guards(kind_name(ServingStack), request),
    )


def _address(request: StackRequest) -> str:
    """Return the address of the cluster's gateway; the last known one if it cannot be read."""
    if request.unknown(cluster_gateway.KEY):
        known = request.owner.status.gateway
        return (known.address if known else None) or ""
    found = next((cluster_gateway.address(item) for item in request.found(cluster_gateway.KEY)), "")
    return found or cluster_gateway.address(request.observed.get(cluster_gateway.KEY, {}))
