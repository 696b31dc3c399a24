"""Components of KServe, for clusters whose backend it is: its definitions, its controller, its presets.

Source: KServe, "LLMInferenceService Installation", and the charts of its version 0.20.
"""

from typing import Final

from modelplane.api.fields.cluster.stack_components import ComponentName as Name
from modelplane.api.rejected import Rejected
from modelplane.api.schema.untyped import get_map
from modelplane.compose import releases
from modelplane.compose.releases import Chart
from modelplane.compose.serving_stack.component import Component, Plan, Values, composed_before

_CHARTS: Final = "oci://ghcr.io/kserve/charts"
_VERSION: Final = "v0.20.0"
"""The version whose LLMInferenceService is composed."""
_NAMESPACE: Final = "kserve"
"""The controller looks for its presets in this namespace, by its name."""


_SWITCH: Final = "createGIECRDs"
"""The value of KServe's chart that makes the definitions of InferencePools a part of it, by default."""
_REFUSED: Final = "cannot be imported into the current release"
"""Helm's message about existing objects of no release: nothing of the chart was installed."""
_DEFINITIONS: Final = (
    "inferencepools.inference.networking.k8s.io",
    "inferencepools.inference.networking.x-k8s.io",
    "inferenceobjectives.llm-d.ai",
    "inferencemodelrewrites.llm-d.ai",
)


def _controller(plan: Plan) -> Values:
    # Others use the definitions of InferencePools too. As part of the chart, Helm refuses existing ones, and
    # deletes them with every InferencePool when KServe is uninstalled. A release that has them keeps them: to
    # switch them off would delete them as well.
    return {} if _has_definitions(plan) else {"kserve": {"llmisvc": {_SWITCH: False}}}


def _has_definitions(plan: Plan) -> bool:
    """Return True if the definitions of InferencePools belong to the release of KServe, or may do."""
    release = plan.request.observed.get(str(Name.KSERVE))
    if release is None:
        return Name.KSERVE in composed_before(plan.stack)
    if _REFUSED in (releases.problem(release) or ""):
        return False
    given = get_map(release, "spec", "forProvider", "values")
    return get_map(given, "kserve", "llmisvc").get(_SWITCH) is not False


def _check_removal(plan: Plan) -> Rejected | None:
    """Return why KServe cannot be uninstalled yet; None if it can."""
    if not _has_definitions(plan):
        return None
    return Rejected(
        detail="Helm would delete the definitions of InferencePools with it, and every InferencePool",
        remedy=f"run `kubectl annotate crd {' '.join(_DEFINITIONS)} helm.sh/resource-policy=keep` on the "
        f"cluster, then set kserve.llmisvc.{_SWITCH}: false in the values of this component",
    )


def _presets(_plan: Plan) -> Values:
    return {"kserve": {"llmisvcConfigs": {"enabled": True}, "servingruntime": {"enabled": False}}}


KSERVE_COMPONENTS: Final = (
    Component(
        Name.KSERVE_CRDS,
        "The definitions of KServe for LLMInferenceServices.",
        Chart("kserve-llmisvc-crd", _CHARTS),
        lambda _versions: _VERSION,
        _NAMESPACE,
        in_standard=False,
        optional=True,
    ),
    Component(
        Name.KSERVE,
        "The controller of LLMInferenceServices, which runs engines with the backend KServe.",
        Chart("kserve-llmisvc-resources", _CHARTS),
        lambda _versions: _VERSION,
        _NAMESPACE,
        _controller,
        check_removal=_check_removal,
        after=(Name.CERT_MANAGER, Name.ENVOY_GATEWAY, Name.LEADER_WORKER_SET, Name.KSERVE_CRDS),
        in_standard=False,
        optional=True,
    ),
    Component(
        Name.KSERVE_PRESETS,
        "The presets that KServe merges into each LLMInferenceService.",
        Chart("kserve-runtime-configs", _CHARTS),
        lambda _versions: _VERSION,
        _NAMESPACE,
        _presets,
        after=(Name.KSERVE,),
        in_standard=False,
        optional=True,
    ),
)
