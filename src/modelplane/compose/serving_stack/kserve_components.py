"""Components of KServe, for clusters whose backend it is: its definitions, its controller, its presets.

Source: KServe, "LLMInferenceService Installation", and the charts of its version 0.20.
"""

from typing import Final

from modelplane.api.stack_components import ComponentName as Name
from modelplane.compose.releases import Chart
from modelplane.compose.serving_stack.component import Component, Plan, Values

_CHARTS: Final = "oci://ghcr.io/kserve/charts"
_VERSION: Final = "v0.20.0"
"""The version whose LLMInferenceService is composed."""
_NAMESPACE: Final = "kserve"
"""The controller looks for its presets in this namespace, by its name."""


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
