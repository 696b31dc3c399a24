"""Component: the row of a part of the serving stack."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from modelplane.api.clouds.serving_stack import ServingStack, Versions
from modelplane.api.fields.cluster.stack_components import ComponentName, ComponentSettings, ComponentState
from modelplane.api.rejected import Rejected
from modelplane.compose.composition import Desired, Request
from modelplane.compose.releases import Chart
from modelplane.gateway.mutual_tls import Link


class StackFacts(msgspec.Struct, frozen=True):
    """Facts that the composition of a ServingStack reads beside objects."""

    mutual_tls: Link | None = None
    """Mutual TLS to its cluster; None where nothing issues certificates: under Crossplane, and offline."""


StackRequest: TypeAlias = Request[ServingStack, StackFacts]

Values = Mapping[str, Any]

GPU_TOLERATION: dict[str, Any] = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
"""For pods that run on nodes with GPUs, which are tainted."""

_COMPOSED = (
    ComponentState.INSTALLED,
    ComponentState.INSTALLING,
    ComponentState.FAILED,
    ComponentState.REFUSED,
)


class Plan(msgspec.Struct, frozen=True):
    """A stack that is being composed, and the components that it consists of."""

    request: StackRequest
    cluster: str
    chosen: frozenset[ComponentName]
    settings: Mapping[ComponentName, ComponentSettings]
    rows: "tuple[Component, ...]"
    """Every component that there is."""

    @property
    def stack(self) -> ServingStack:
        """The stack."""
        return self.request.owner


def list_composed(stack: ServingStack) -> frozenset[str]:
    """Return the names of the components that were composed, as the status of the stack says."""
    return frozenset(component.name for component in stack.status.components if component.state in _COMPOSED)


class Component(msgspec.Struct, frozen=True):
    """A part of the stack: a chart, objects, or settings of another component."""

    name: ComponentName
    purpose: str
    """Shown in the documentation."""
    chart: Chart | None = None
    version: Callable[[Versions], str] | None = None
    """Returns the version of its chart, as the stack says or as Modelplane chooses."""
    namespace: str = ""
    values: Callable[[Plan], Values] = lambda _plan: {}
    """Returns the values of its chart, or those that it adds to the chart of the component it is part of."""
    objects: Callable[[Plan], Iterator[Desired]] | None = None
    """Yields its objects beside the chart, or without one."""
    object_keys: tuple[str, ...] = ()
    """Keys of all objects that it may have."""
    confirmed_by: str = ""
    """Key of a child of another component, whose status tells that the controller of the chart works."""
    check: Callable[[Plan], Rejected | None] = lambda _plan: None
    """Returns why its objects cannot be written; None if they can."""
    check_removal: Callable[[Plan], Rejected | None] = lambda _plan: None
    """Returns why it cannot be uninstalled yet; None if it can."""
    part_of: ComponentName | None = None
    """The component whose chart it configures."""
    after: tuple[ComponentName, ...] = ()
    """The components that must be ready first. They are uninstalled last."""
    in_standard: bool = True
    in_minimal: bool = False
    optional: bool = False
    """True if the cluster serves without it, so that its failure is only reported."""
    found_by: str = ""
    """Key of the requirement that finds it on a cluster, however it was installed; empty if nothing does."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of its children."""
        own = (str(self.name),) if self.chart else ()
        return (*own, *self.object_keys)
