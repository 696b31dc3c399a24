# ruff: noqa: INP001  a script, not a package
"""The Helm chart, made of the same manifests as ``modelplane install`` writes.

Values that a user may set are placeholders in the manifests, which become template actions in their text.
With the default values the chart therefore equals the output of the command, except for the namespace, which
Helm creates.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from modelplane import __version__
from modelplane.api.meta import GATEWAY_NAMESPACE, SYSTEM_NAMESPACE
from modelplane.compose.definition_owner import GUIDE
from modelplane.crossplane.package.metadata import to_yaml
from modelplane.install import (
    controller_deployment,
    gateway_deployment,
    identity_permissions,
    network_policies,
    pod_parts,
)
from modelplane.install.installation_options import CONTROLLER, GATEWAY, Options, ServiceType, build_namespace
from modelplane.install.manifests import build_definitions, build_service_monitors
from modelplane.kube.resources import Object

_DEFAULTS = Options()
_COUNT = {"type": "integer", "minimum": 0}
_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1}}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_OBJECT = {"type": "object"}
_SWITCH = {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the chart."""

    path: str
    default: Any
    about: str
    schema: Object

    def format_text(self) -> str:
        """Return the placeholder of a text."""
        return f"<<.Values.{self.path} | quote>>"

    def format_number(self) -> str:
        """Return the placeholder of a number."""
        return f"<<.Values.{self.path}>>"

    def format_block(self) -> str:
        """Return the placeholder of a mapping or a list."""
        return f"<<block .Values.{self.path}>>"


IMAGE = Value("image", _DEFAULTS.image, "The image of every container.", {"type": "string", "minLength": 1})
CONTROLLERS = Value(
    "controller.replicas", _DEFAULTS.controllers, "Controllers; one of them acts at a time.", _COUNT
)
CONTROLLER_RESOURCES = Value(
    "controller.resources", _DEFAULTS.controller_resources, "What each of them needs.", _OBJECT
)
CREDENTIAL_LIFETIME = Value(
    "controller.credentialLifetime",
    _DEFAULTS.credential_lifetime,
    "Lifetime of the tokens that they request from clusters, at least 10m; a cluster may grant less.",
    {"type": "string", "pattern": "^([0-9.]+[a-z]+)+$"},
)
GATEWAYS = Value("gateway.replicas", _DEFAULTS.gateways, "Replicas of the gateway.", _COUNT)
SERVICE_TYPE = Value(
    "gateway.serviceType",
    str(_DEFAULTS.gateway_service_type),
    "Type of the gateway's Service.",
    {"enum": [str(service_type) for service_type in ServiceType]},
)
ANNOTATIONS = Value(
    "gateway.serviceAnnotations",
    _DEFAULTS.gateway_annotations,
    "Of its Service, such as one that makes the load balancer internal.",
    _TEXTS,
)
ENVOY_RESOURCES = Value(
    "gateway.envoyResources",
    _DEFAULTS.envoy_resources,
    "What each Envoy needs; near its limit of memory, it refuses requests.",
    _OBJECT,
)
GATEWAY_RESOURCES = Value(
    "gateway.resources", _DEFAULTS.gateway_resources, "What the process beside it needs.", _OBJECT
)
TEAM_NAMESPACES = Value(
    "teamNamespaces",
    [*_DEFAULTS.team_namespaces],
    "Where Secrets that models name may be read; in every namespace where none is listed.",
    _NAMES,
)
NETWORK_POLICY = Value(
    "networkPolicy.enabled", _DEFAULTS.network_policy, "Whether there are network policies.", _SWITCH
)
MONITORING_NAMESPACES = Value(
    "networkPolicy.monitoringNamespaces",
    [*_DEFAULTS.monitoring_namespaces],
    "Whose pods may read the metrics.",
    _NAMES,
)
SERVICE_MONITOR = Value(
    "serviceMonitor.enabled",
    _DEFAULTS.service_monitor,
    "Whether there is a ServiceMonitor, for the Prometheus operator.",
    _SWITCH,
)
KINDS = Value(
    "crds.enabled",
    True,
    "Whether the chart brings the CustomResourceDefinitions. They stay when the release is uninstalled.",
    _SWITCH,
)

VALUES = (
    IMAGE,
    CONTROLLERS,
    CONTROLLER_RESOURCES,
    CREDENTIAL_LIFETIME,
    GATEWAYS,
    SERVICE_TYPE,
    ANNOTATIONS,
    ENVOY_RESOURCES,
    GATEWAY_RESOURCES,
    TEAM_NAMESPACES,
    NETWORK_POLICY,
    MONITORING_NAMESPACES,
    SERVICE_MONITOR,
    KINDS,
)
"""Every value, in the order of ``values.yaml``."""

_OPTIONS = Options(
    image=IMAGE.format_text(),
    controllers=CONTROLLERS.format_number(),
    gateways=GATEWAYS.format_number(),
    gateway_service_type=SERVICE_TYPE.format_text(),
    gateway_annotations=ANNOTATIONS.format_block(),
    credential_lifetime=CREDENTIAL_LIFETIME.format_text(),
    monitoring_namespaces=MONITORING_NAMESPACES.format_block(),
    service_monitor=True,
    controller_resources=CONTROLLER_RESOURCES.format_block(),
    envoy_resources=ENVOY_RESOURCES.format_block(),
    gateway_resources=GATEWAY_RESOURCES.format_block(),
)


def build_chart() -> dict[str, str]:
    """Return the files of the chart, by their path in it."""
    accounts = [
        build_namespace(GATEWAY_NAMESPACE),
        pod_parts.build_service_account(CONTROLLER, controller_deployment.CONTROLLER_COMPONENT),
        pod_parts.build_service_account(GATEWAY, gateway_deployment.GATEWAY_COMPONENT),
    ]
    templates = {
        "checks": _CHECKS.replace("NAMESPACE", SYSTEM_NAMESPACE).replace("GUIDE", GUIDE),
        "crds": _only_if(KINDS, _documents(build_definitions())),
        "accounts": _documents(accounts),
        "permissions": _permissions(),
        "network": _only_if(NETWORK_POLICY, _documents(network_policies.build_manifests(_OPTIONS))),
        "monitoring": _only_if(SERVICE_MONITOR, _documents(build_service_monitors(_OPTIONS))),
        "gateway": _documents(gateway_deployment.build_gateway(_OPTIONS)),
        "controller": _documents(controller_deployment.build_controllers(_OPTIONS)),
    }
    return {
        "Chart.yaml": to_yaml(_ABOUT),
        "values.yaml": _values(),
        "values.schema.json": json.dumps(_schema(), indent=2) + "\n",
        **{f"templates/{name}.yaml": text for name, text in templates.items()},
    }


_ABOUT = {
    "apiVersion": "v2",
    "name": "modelplane",
    "description": "A control plane for AI inference across a fleet of GPU clusters",
    "type": "application",
    "version": __version__,
    "appVersion": __version__,
    "kubeVersion": ">=1.34.0-0",
}

_CHECKS = """\
{{- if ne .Release.Namespace "NAMESPACE" }}
{{- fail "the namespace must be NAMESPACE: add --namespace NAMESPACE --create-namespace" }}
{{- end }}
{{- $version := "apiextensions.k8s.io/v1" }}
{{- $kind := lookup $version "CustomResourceDefinition" "" "modeldeployments.modelplane.ai" }}
{{- range dig "metadata" "ownerReferences" (list) $kind }}
{{- if eq .kind "CompositeResourceDefinition" }}
{{- fail "the controllers must not run: Crossplane owns the kinds: see GUIDE" }}
{{- end }}
{{- end }}
"""


def _permissions() -> str:
    """Return the roles: objects that models name are read in all namespaces, or in the listed ones."""
    everywhere = identity_permissions.build_roles(())
    there = [
        manifest
        for manifest in identity_permissions.build_roles(("<<. | quote>>",))
        if manifest not in everywhere
    ]
    elsewhere = [
        manifest for manifest in everywhere if manifest not in identity_permissions.build_roles(("any",))
    ]
    always = [manifest for manifest in everywhere if manifest not in elsewhere]
    return "".join(
        (
            _documents(always),
            f"{{{{- range .Values.{TEAM_NAMESPACES.path} }}}}\n",
            _documents(there),
            "{{- else }}\n",
            _documents(elsewhere),
            "{{- end }}\n",
        )
    )


def _only_if(value: Value, text: str) -> str:
    return f"{{{{- if .Values.{value.path} }}}}\n{text}{{{{- end }}}}\n"


def _documents(manifests: Iterable[Object]) -> str:
    return "".join(f"---\n{_actions(to_yaml(manifest))}" for manifest in manifests)


_BLOCK = re.compile(r"^( *(?:- )?)([\w.]+): <<block (.+)>>$", re.MULTILINE)
_SCALAR = re.compile(r"<<(.+?)>>")


def _actions(text: str) -> str:
    """Return the text of a manifest with template actions in the place of placeholders."""
    if "{{" in text:
        raise ValueError("a manifest contains {{, which a template would take for an action")

    def block(match: re.Match[str]) -> str:
        lead, key, value = match.groups()
        return f"{lead}{key}: {{{{- toYaml {value} | nindent {len(lead) + 2} }}}}"

    return _SCALAR.sub(r"{{ \1 }}", _BLOCK.sub(block, text))


def _values() -> str:
    """Return ``values.yaml``: each value under its path, after a line about it."""
    return "\n".join(
        _section(name) for name in dict.fromkeys(value.path.partition(".")[0] for value in VALUES)
    )


def _section(name: str) -> str:
    inner = [candidate for candidate in VALUES if candidate.path.startswith(f"{name}.")]
    if not inner:
        [value] = [candidate for candidate in VALUES if candidate.path == name]
        return _entry(value, name, "")
    return f"{name}:\n" + "".join(_entry(entry, entry.path.partition(".")[2], "  ") for entry in inner)


def _entry(value: Value, key: str, indent: str) -> str:
    lines = to_yaml({key: value.default}).splitlines()
    return "".join(f"{indent}{line}\n" for line in (f"# {value.about}", *lines))


def _schema() -> Object:
    """Return the schema of the values, which makes a misspelled value an error."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_object(VALUES, "")}


def _object(values: Iterable[Value], prefix: str) -> Object:
    properties: Object = {}
    for name, inner in _grouped(values, prefix):
        whole = [candidate for candidate in inner if candidate.path == prefix + name]
        properties[name] = (
            {"description": whole[0].about, **whole[0].schema}
            if whole
            else _object(inner, f"{prefix}{name}.")
        )
    # Helm passes these to every subchart.
    others: Object = {} if prefix else {"global": {}}
    return {"type": "object", "additionalProperties": False, "properties": properties | others}


def _grouped(values: Iterable[Value], prefix: str) -> Iterator[tuple[str, list[Value]]]:
    groups: dict[str, list[Value]] = {}
    for value in values:
        groups.setdefault(value.path.removeprefix(prefix).partition(".")[0], []).append(value)
    yield from groups.items()
