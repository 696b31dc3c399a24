"""Instructions: what Releases tell Helm to do, read and checked. Their values: ``release_values.py``.

A Release has the schema of provider-helm. Fields that the controllers do not carry out are refused, never
ignored. Nothing in a Release can become an option, a path or a program on Helm's command line.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from modelplane.api import labels
from modelplane.api.rejected import Rejected
from modelplane.api.schema.fields import DNS_LABEL, SECRET_KEY, VERSION
from modelplane.host.addresses import is_loopback

USUAL_WAIT_S: Final = 300
LONGEST_WAIT_S: Final = 1800
LARGEST_VALUES: Final = 512 * 1024
"""Largest values of a release, in bytes: Helm stores them with the chart in a Secret of 1 MiB at most."""

_LONGEST_NAME = 53
"""Helm's limit for the name of a release."""
_USUAL_HISTORY = 10
_CHART_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_PATH = re.compile(r"(/[A-Za-z0-9][A-Za-z0-9._-]*)*/?")
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")

_SPEC = {"forProvider", "managementPolicies", "providerConfigRef", "rollbackLimit"}
_FOR_PROVIDER = {
    "chart",
    "maxHistory",
    "namespace",
    "plainHTTP",
    "skipCRDs",
    "skipCreateNamespace",
    "ssaForceConflicts",
    "takeOwnership",
    "values",
    "valuesFrom",
    "wait",
    "waitTimeout",
}


class ReleaseId(NamedTuple):
    """A release on a cluster."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """The release as messages name it."""
        return f'release "{self.name}" in namespace "{self.namespace}"'


class ValuesSource(NamedTuple):
    """A key of a Secret in the system's namespace that has values."""

    name: str
    key: str
    optional: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """A release that should exist, and how Helm installs it."""

    id: ReleaseId
    chart: str
    """The reference of an OCI chart, or the name of a chart in ``repository``."""
    repository: str
    version: str
    values: Mapping[str, Any]
    values_from: tuple[ValuesSource, ...]
    wait: bool
    timeout_s: int
    create_namespace: bool
    skip_crds: bool
    force_conflicts: bool
    take_ownership: bool
    plain_http: bool
    history: int
    retries: int | None
    """Failed attempts after which Helm is not run again until the Release changes; None is no limit."""

    def digest(self, values: Mapping[str, Any], owner_uid: str) -> str:
        """Return a hash of everything that an upgrade depends on; ``values`` has those of Secrets too.

        The owner is part of it: one that takes a release over is recorded by an upgrade.
        """
        parts = (owner_uid, self.chart, self.repository, self.version, self.skip_crds, values)
        return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()[:16]


def read_instruction(release: Mapping[str, Any]) -> Instruction | Rejected:
    """Return the instruction of a Release, or why it is not carried out."""
    try:
        return _read_instruction(release["metadata"], release["spec"])
    except ValueError as error:
        name = release["metadata"]["name"]
        return Rejected(subject=f'Release "{name}"', detail=f"is not carried out: {error}")


def _read_instruction(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Instruction:
    """Return the instruction. Raises ValueError for a field that is not accepted, with its name."""
    wanted = spec["forProvider"]
    _reject_other_fields(spec, _SPEC, "spec")
    _reject_other_fields(wanted, _FOR_PROVIDER, "spec.forProvider")
    if spec.get("managementPolicies", ["*"]) != ["*"]:
        raise ValueError("spec.managementPolicies must be [*]")
    name = metadata.get("annotations", {}).get(labels.EXTERNAL_NAME, metadata["name"])
    if len(name) > _LONGEST_NAME:
        raise ValueError(f'the name "{name}" is longer than {_LONGEST_NAME} characters')
    namespace = wanted.get("namespace", "default")
    _check_format(DNS_LABEL, name, "the name of the release")
    _check_format(DNS_LABEL, namespace, "spec.forProvider.namespace")
    chart, repository = _read_chart(wanted["chart"], plain=bool(wanted.get("plainHTTP")))
    values = wanted.get("values", {})
    if len(msgspec.json.encode(values)) > LARGEST_VALUES:
        raise ValueError(f"spec.forProvider.values is larger than {LARGEST_VALUES // 1024} KiB")
    return Instruction(
        ReleaseId(namespace, name),
        chart,
        repository,
        wanted["chart"]["version"],
        values,
        tuple(_list_sources(wanted)),
        wait=bool(wanted.get("wait")),
        timeout_s=_parse_duration(wanted.get("waitTimeout", "")),
        create_namespace=not wanted.get("skipCreateNamespace"),
        skip_crds=bool(wanted.get("skipCRDs")),
        force_conflicts=bool(wanted.get("ssaForceConflicts")),
        take_ownership=bool(wanted.get("takeOwnership")),
        plain_http=bool(wanted.get("plainHTTP")),
        history=int(wanted.get("maxHistory", _USUAL_HISTORY)),
        retries=spec.get("rollbackLimit"),
    )


def _reject_other_fields(given: Mapping[str, Any], known: set[str], path: str) -> None:
    if unknown := sorted(given.keys() - known):
        raise ValueError(
            f"{path}.{unknown[0]} needs provider-helm: remove it, or run Modelplane on Crossplane"
        )


def _check_format(pattern: str, value: Any, what: str) -> None:
    if not isinstance(value, str) or len(value) > 63 or not re.fullmatch(pattern, value):
        raise ValueError(f"{what} is not valid: {str(value)[:64]!a}")


def _read_chart(chart: Mapping[str, Any], *, plain: bool) -> tuple[str, str]:
    """Return the chart and its repository as Helm takes them; an OCI chart is one reference."""
    _reject_other_fields(chart, {"name", "repository", "version"}, "spec.forProvider.chart")
    name, repository = str(chart.get("name", "")), str(chart.get("repository", ""))
    if not _CHART_NAME.fullmatch(name):
        raise ValueError(f"spec.forProvider.chart.name is not the name of a chart: {name[:64]!a}")
    _check_format(
        VERSION, chart.get("version"), "spec.forProvider.chart.version, which must name one version,"
    )
    scheme, is_local = _parse_repository(repository)
    if (plain or scheme == "http") and not is_local:
        raise ValueError(
            f"{repository[:128]!a} would be read without TLS, which is only allowed for a loopback address"
        )
    return (f"{repository.rstrip('/')}/{name}", "") if scheme == "oci" else (name, repository)


def _parse_repository(repository: str) -> tuple[str, bool]:
    """Return the scheme of a repository, and True if it is on this machine."""
    try:
        parts = urlsplit(repository)
        usable = (
            parts.scheme in {"oci", "https", "http"}
            and parts.hostname
            and (parts.port is None or parts.port > 0)
            and _PATH.fullmatch(parts.path)
            and not (parts.username or parts.password or parts.query or parts.fragment)
        )
    except ValueError:
        usable = False
    if not usable or not repository.isprintable() or " " in repository:
        raise ValueError(
            f"spec.forProvider.chart.repository is not an oci:// or https:// address: {repository[:128]!a}"
        )
    return parts.scheme, is_loopback(parts.hostname or "")


def _list_sources(wanted: Mapping[str, Any]) -> Iterator[ValuesSource]:
    for item in wanted.get("valuesFrom", ()):
        reference = item.get("secretKeyRef")
        if reference is None or item.keys() - {"secretKeyRef"}:
            raise ValueError("spec.forProvider.valuesFrom must name Secrets: use secretKeyRef")
        key = reference.get("key", "values.yaml")
        if not re.fullmatch(SECRET_KEY, key):
            raise ValueError(
                f"spec.forProvider.valuesFrom uses key {key[:64]!a}, which is not a valid Secret key"
            )
        yield ValuesSource(reference["name"], key, bool(reference.get("optional")))


def _parse_duration(duration: str) -> int:
    """Return the seconds of a Go duration; the usual wait if it is empty."""
    if not duration:
        return USUAL_WAIT_S
    match = _DURATION.fullmatch(duration)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    total = hours * 3600 + minutes * 60 + seconds
    if not 0 < total <= LONGEST_WAIT_S:
        raise ValueError(
            f"spec.forProvider.waitTimeout must be from 1s to {LONGEST_WAIT_S // 60}m: {duration[:32]!a}"
        )
    return total
