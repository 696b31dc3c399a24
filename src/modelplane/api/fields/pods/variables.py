"""Variables and arguments of a container, and the sources of their values (core/v1 ``EnvVar``)."""

from typing import Annotated, Final, TypeAlias

from modelplane.api.meta import Model
from modelplane.api.schema.fields import DNS_SUBDOMAIN, SECRET_KEY, Rule, about


class KeyReference(Model):
    """One key of a Secret or ConfigMap."""

    name: Annotated[str, about("Name of the object.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
    key: Annotated[str, about("Key in its data.", min_length=1, max_length=253, pattern=SECRET_KEY)]
    optional: (
        Annotated[bool, about("Whether the pod starts even if the object or the key is missing.")] | None
    ) = None


_FIELD_PATH = (
    r"^(metadata\.(name|namespace|uid|(labels|annotations)\['[^']+'\])"
    r"|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?))$"
)
"""Fields that Kubernetes lets a variable read (downward API)."""


class FieldReference(Model):
    """A field of the pod itself."""

    field_path: Annotated[
        str,
        about(
            "Path of the field, such as status.podIP or metadata.labels['team'].",
            min_length=1,
            max_length=512,
            pattern=_FIELD_PATH,
        ),
    ]
    api_version: (
        Annotated[
            str,
            about("Schema version of the path: v1.", max_length=2, pattern="^v1$"),
        ]
        | None
    ) = None


_MAX_ARGUMENT: Final = 32768
"""A quarter of what Linux gives a program in one argument or variable."""


class EnvSource(Model):
    """Source of a variable's value: exactly one of the fields is set."""

    __rules__ = (
        Rule(
            "[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef)]"
            ".filter(given, given).size() == 1",
            "set exactly one of secretKeyRef, configMapKeyRef and fieldRef",
        ),
    )

    secret_key_ref: Annotated[KeyReference, about("A key of a Secret.")] | None = None
    config_map_key_ref: Annotated[KeyReference, about("A key of a ConfigMap.")] | None = None
    field_ref: Annotated[FieldReference, about("A field of the pod (downward API).")] | None = None


class EnvVar(Model):
    """One environment variable."""

    __rules__ = (
        Rule(
            "!(has(self.value) && self.value != '' && has(self.valueFrom))",
            "set either value or valueFrom, not both",
        ),
    )

    name: Annotated[
        str,
        about(
            "Name of the variable: printable ASCII without an equals sign.",
            min_length=1,
            max_length=253,
            pattern="^[ -<>-~]+$",
        ),
    ]
    value: (
        Annotated[
            str,
            about(
                "Value of the variable. $(NAME) expands a variable that is defined earlier.",
                max_length=_MAX_ARGUMENT,
            ),
        ]
        | None
    ) = None
    value_from: Annotated[EnvSource, about("Source of the value, instead of value.")] | None = None


Argument: TypeAlias = Annotated[str, about("One argument.", max_length=_MAX_ARGUMENT)]
