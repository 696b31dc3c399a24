"""Components for clusters whose backend is KServe: its definitions, its controller, its presets.

Source: KServe, "LLMInferenceService Installation", and the charts of its version 0.20.
"""

from typing import Final

from modelplane.api.fields.cluster.stack_components import ComponentName as Name
from modelplane.api.rejected import Rejected
from modelplane.api.schema.untyped import get_map
from modelplane.compose import releases
from modelplane.compose.releases import Chart
from modelplane.compose.serving_stack.component import Component, Plan, Values, list_composed

_KSERVE_CHARTS: Final = "oci://ghcr.io/kserve/charts"

_KSERVE_VERSION: Final = "v0.20.0"
"""The version whose LLMInferenceService is composed."""

_KSERVE_NAMESPACE: Final = "kserve"
"""The controller looks for its presets in this namespace, by its name."""

_POOLS_SWITCH: Final = "createGIECRDs"
"""The value of KServe's chart that makes the definitions of InferencePools a part of it, by default."""

_REFUSED: Final = "cannot be imported into the current release"
"""Helm's message about existing objects of no release: nothing of the chart was installed."""

_POOL_DEFINITIONS: Final = (
    "inferencepools.inference.networking.k8s.io",
    "inferencepools.inference.networking.x-k8s.io",
    "inferenceobjectives.llm-d.ai",
    "inferencemodelrewrites.llm-d.ai",
)


def _kserve_controller(plan: Plan) -> Values:
    # Others use the definitions of InferencePools too. As part of the chart, Helm refuses existing ones, and
    # deletes them with every InferencePool when KServe is uninstalled. A release that has them keeps them: to
    # switch them off would delete them as well.
    return {} if _has_definitions(plan) else {"kserve": {"llmisvc": {_POOLS_SWITCH: False}}}


def _has_definitions(plan: Plan) -> bool:
    """Return True if the definitions of InferencePools belong to the release of KServe, or may do."""
    release = plan.request.observed.get(str(Name.KSERVE))
    if release is None:
        return Name.KSERVE in list_composed(plan.stack)
    if _REFUSED in (releases.problem(release) or ""):
        return False
    given = get_map(release, "spec", "forProvider", "values")
    return get_map(given, "kserve", "llmisvc").get(_POOLS_SWITCH) is not False


def _check_removal_of_kserve(plan: Plan) -> Rejected | None:
    if not _has_definitions(plan):
        return None
    return Rejected(
        detail="Helm would delete the definitions of InferencePools with it, and every InferencePool",
        remedy=f"run `kubectl annotate crd {' '.join(_POOL_DEFINITIONS)} helm.sh/resource-policy=keep` on "
        f"the cluster, then set kserve.llmisvc.{_POOLS_SWITCH}: false in the values of this component",
    )


KSERVE_COMPONENTS = (
    Component(
        Name.KSERVE_CRDS,
        "KServe's CRDs for LLMInferenceServices.",
        Chart("kserve-llmisvc-crd", _KSERVE_CHARTS),
        lambda _versions: _KSERVE_VERSION,
        _KSERVE_NAMESPACE,
        in_standard=False,
        optional=True,
    ),
    Component(
        Name.KSERVE,
        "The controller for LLMInferenceServices, which runs engines with the KServe backend.",
        Chart("kserve-llmisvc-resources", _KSERVE_CHARTS),
        lambda _versions: _KSERVE_VERSION,
        _KSERVE_NAMESPACE,
        _kserve_controller,
        check_removal=_check_removal_of_kserve,
        after=(Name.CERT_MANAGER, Name.ENVOY_GATEWAY, Name.LEADER_WORKER_SET, Name.KSERVE_CRDS),
        in_standard=False,
        optional=True,
    ),
    Component(
        Name.KSERVE_PRESETS,
        "The presets that KServe merges into each LLMInferenceService.",
        Chart("kserve-runtime-configs", _KSERVE_CHARTS),
        lambda _versions: _KSERVE_VERSION,
        _KSERVE_NAMESPACE,
        lambda _plan: {"kserve": {"llmisvcConfigs": {"enabled": True}, "servingruntime": {"enabled": False}}},
        after=(Name.KSERVE,),
        in_standard=False,
        optional=True,
    ),
)
