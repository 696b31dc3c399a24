"""Admission of pods, and of labels and annotations by a list that the administrator of the cluster extends.

The list is an annotation of the system's namespace, which the fleet's identity may not change. Without the
annotation, the built-in list is in force. The namespace is the parameter of the policy because the identity
lives in it: if it is gone, the identity is too, and no request of others depends on it.
"""

from typing import Final

from modelplane.api import labels
from modelplane.api.fields.pods.pod_keys import ACCEPTED_KEYS, ACCEPTED_PREFIXES
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.install.cluster_admission_fields import CONTAINER, POD
from modelplane.install.cluster_admission_forms import Validation, build_fields, format_literal
from modelplane.kube.resources import Object

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
        "variables.containers.all(each, each.all(c, !c.?securityContext.?privileged.orValue(false) && "
        "c.?securityContext.?capabilities.?add.orValue([]).size() == 0 && "
        "c.?securityContext.?procMount.orValue('Default') == 'Default' && "
        "c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0)))",
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

ALLOWED_KEYS: Final = "allow.modelplane.ai/keys"
"""Annotation of the system's namespace: keys that the administrator of the cluster allows.

Keys are between commas or spaces. A key that ends in a slash allows all that begin with it.
"""

PARAMETER_KIND: Final[Object] = {"apiVersion": "v1", "kind": "Namespace"}
PARAMETER: Final[Object] = {"name": SYSTEM_NAMESPACE, "parameterNotFoundAction": "Allow"}
"""The parameter of the policy. Without the namespace, there is no identity to limit."""

_QUEUES: Final = ("kai.scheduler/queue", "kueue.x-k8s.io/queue-name")
"""Labels of workloads and their pods by which usual schedulers of pods know the queue."""

_OF_PODS: Final = (
    *ACCEPTED_KEYS,
    *_QUEUES,
    labels.LLM_D_ENGINE,
    labels.LLM_D_ROLE,
    labels.LLM_D_SERVING,
    labels.LWS_ROLE,
    labels.MODEL_CACHE,
    labels.SERVING,
    labels.WORKLOAD,
    # An API server sets these on the pods of a Job.
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
    # `kubectl rollout restart`
    "kubectl.kubernetes.io/restartedAt",
)
_OF_OBJECTS: Final = (*_QUEUES, "kubectl.kubernetes.io/last-applied-configuration")


def _begins(prefixes: tuple[str, ...]) -> str:
    return " || ".join(f"key.startsWith({prefix!r})" for prefix in prefixes)


_IS_ALLOWED: Final = (
    "variables.allowed.exists(each, each == key || (each.endsWith('/') && key.startsWith(each)))"
)


def _metadata_of(templates: str) -> str:
    """Return the labels of templates, and their annotations, as a list of maps."""
    return " + ".join(
        f"{templates}.map(t, t.?metadata.?{field}.orValue({{}}))" for field in ("labels", "annotations")
    )


def _refused(field: str) -> str:
    """Return the refused keys of the labels or annotations of an object, joined."""
    return (
        f"object.metadata.?{field}.orValue({{}}).filter(key, !({_begins((labels.PREFIX,))} || "
        f"key in {format_literal(_OF_OBJECTS)} || (object.kind != 'ServiceAccount' && {_IS_ALLOWED}) || "
        f"(oldObject != null && oldObject.metadata.?{field}[?key] == optional.of("
        f"object.metadata.{field}[key])))).join(', ')"
    )


KEY_VARIABLES: Final = {
    "allowed": (
        f"params.metadata.?annotations[?'{ALLOWED_KEYS}'].orValue('')"
        r".replace(',', ' ').replace('\n', ' ').split(' ')"
    ),
    "before": TEMPLATES["before"],
    "after": TEMPLATES["after"],
    "former": _metadata_of("variables.before"),
    "metadata": _metadata_of("variables.after"),
    "refused": (
        f"variables.metadata.map(each, each.filter(key, !(key in {format_literal(_OF_PODS)} || "
        f"{_begins(ACCEPTED_PREFIXES)} || {_IS_ALLOWED} || "
        "variables.former.exists(former, key in former && former[key] == each[key])))"
        ".join(', ')).filter(keys, keys != '').join(', ')"
    ),
    "others": f"[{_refused('labels')}, {_refused('annotations')}].filter(keys, keys != '').join(', ')",
}
"""Variables of the policy. A label or annotation that the object or its pods have already may stay."""

_REMEDY = (
    f"the administrator of the cluster can allow keys in annotation {ALLOWED_KEYS} of namespace "
    f"{SYSTEM_NAMESPACE}"
)

KEYS: Final = tuple(
    Validation(
        f"variables.{variable} == ''",
        f"{what} have labels or annotations that this cluster does not allow: {_REMEDY}",
        f"'{what} have labels or annotations that this cluster does not allow: ' + variables.{variable} + "
        f"': {_REMEDY}'",
    )
    for variable, what in (("refused", "pods of Modelplane"), ("others", "objects of Modelplane"))
)
"""The validations of labels and annotations."""
