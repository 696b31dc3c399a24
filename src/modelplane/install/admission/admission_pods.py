"""Admission of pods, in the templates of every kind of workload that Modelplane writes."""

from typing import Final

from modelplane.install.admission.admission_fields import CONTAINER, POD
from modelplane.install.admission.admission_forms import Validation, build_fields

_VOLUMES = ("configMap", "emptyDir", "persistentVolumeClaim")
"""Kinds of volumes of the pods that Modelplane composes."""


def _specs(workload: str) -> str:
    """Return templates of an LLMInferenceService, which has the specs of pods."""
    return " + ".join(
        f"(has({workload}.{part}) ? [dyn({{'spec': {workload}.{part}, 'metadata': "
        f"dyn({{'labels': {workload}.?labels.orValue({{}}), "
        f"'annotations': {workload}.?annotations.orValue({{}})}})}})] : [])"
        for part in ("template", "worker")
    )


def _templates(workload: str) -> str:
    """Return the templates of the pods of a workload."""
    spec = f"{workload}.spec"
    groups = f"{spec}.leaderWorkerTemplate"
    return (
        f"!has({spec}) ? [] : {workload}.kind == 'LLMInferenceService' ? {_specs(spec)} + "
        f"(!has({spec}.prefill) ? [] : {_specs(f'{spec}.prefill')}) : "
        f"has({spec}.template) ? [{spec}.template] : !has({groups}) ? [] : [{groups}.workerTemplate] + "
        f"(has({groups}.leaderTemplate) ? [{groups}.leaderTemplate] : [])"
    )


TEMPLATES: Final = {
    "before": f"oldObject == null ? [] : {_templates('oldObject')}",
    "after": _templates("object"),
    # Pods that do not change were admitted earlier: copies may be added, and others' settings stay.
    "templates": "variables.before == variables.after ? [] : variables.after",
    "containers": "variables.templates.map(t, t.spec.?containers.orValue([]) + "
    "t.spec.?initContainers.orValue([]))",
}
"""Variables of policies about pods."""


def _every_container(holds: str) -> str:
    return f"variables.containers.all(each, each.all(c, {holds}))"


PODS: Final = (
    Validation(
        " && ".join(
            f"variables.templates.all(t, !t.spec.?{field}.orValue(false))"
            for field in ("hostNetwork", "hostPID", "hostIPC")
        ),
        "pods of Modelplane do not share the network, the processes or the IPC of their node",
    ),
    Validation(
        "variables.templates.all(t, t.spec.?volumes.orValue([]).all(v, "
        + " || ".join(f"has(v.{kind})" for kind in _VOLUMES)
        + "))",
        f"volumes of Modelplane's pods are of the kinds {', '.join(_VOLUMES)}",
    ),
    Validation(
        _every_container(
            "!c.?securityContext.?privileged.orValue(false) && "
            "c.?securityContext.?capabilities.?add.orValue([]).size() == 0 && "
            "c.?securityContext.?procMount.orValue('Default') == 'Default' && "
            "c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0)"
        ),
        "containers of Modelplane have no privileges, capabilities or ports of their node",
    ),
    Validation(
        "variables.templates.all(t, (t.spec.?serviceAccountName.orValue('default') == 'default' || "
        "t.spec.serviceAccountName == object.metadata.name) && (!has(t.spec.serviceAccount) || "
        "t.spec.serviceAccount == t.spec.?serviceAccountName.orValue('')))",
        "pods of Modelplane have the account of their own workload, or the default one",
    ),
    Validation(
        "variables.templates.all(t, t.spec.?tolerations.orValue([]).all(each, each.?key.orValue('') != ''))",
        "tolerations of Modelplane's pods name their taint",
    ),
    *(
        Validation(
            f"variables.templates.all(t, {holds})",
            f"{name or 'the spec'} of pods has a field or a value that Modelplane does not write",
        )
        for name, holds in build_fields("t.spec", POD)
    ),
    Validation(
        "variables.templates.all(t, t.?metadata.orValue({}).all(field, "
        "field in ['labels', 'annotations', 'creationTimestamp']))",
        "metadata of Modelplane's pods are labels and annotations",
    ),
    *(
        Validation(
            f"variables.containers.all(each, each.all(c, {holds}))",
            f"{name or 'a container'} of containers has a field or a value that Modelplane does not write",
        )
        for name, holds in build_fields("c", CONTAINER)
    ),
)
