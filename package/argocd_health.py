# ruff: noqa: INP001  a script beside what it writes, not a package
"""Health checks of the kinds for Argo CD, in Lua, from the table of conditions and their reasons."""

from collections.abc import Iterable
from typing import Any, Final

from modelplane.api.conditions.reasons import (
    EVERY_KIND,
    ROWS,
    CloudClusterReason,
    DeviceQuotaReason,
    InferenceAutoscalerReason,
    InferenceClusterReason,
    InferenceGatewayReason,
    ModelCacheReason,
    ModelDeploymentReason,
    ModelEndpointReason,
    ModelKeyReason,
    ModelReplicaReason,
    ModelServiceReason,
    SyncedReason,
)
from modelplane.api.conditions.row import Reason
from modelplane.api.kinds import KINDS, Kind

CONFIG_MAP: Final = "argocd-cm"
"""The ConfigMap from which Argo CD reads health checks."""

WAITS: Final = (
    CloudClusterReason.WAITING_FOR_ACCOUNT,
    DeviceQuotaReason.PRIORITY_CLASS_NOT_FOUND,
    InferenceAutoscalerReason.DEPLOYMENT_NOT_FOUND,
    InferenceAutoscalerReason.NO_METRICS,
    InferenceGatewayReason.INVALID_CERTIFICATE_REF,
    ModelCacheReason.AUTH_SECRET_MISSING,
    ModelDeploymentReason.MODEL_CACHE_NOT_FOUND,
    ModelDeploymentReason.NO_CLUSTERS,
    ModelDeploymentReason.PREFERRED_NOT_FOUND,
    ModelEndpointReason.SECRET_REFUSED,
    ModelKeyReason.NOT_GRANTED,
    ModelReplicaReason.REFERENCE_NOT_FOUND,
    ModelServiceReason.NO_ENDPOINTS,
)
"""Reasons that end when another object is there, which one synchronization may create a moment later."""

ADVISORY: Final = (
    DeviceQuotaReason.PRIORITY_CLASS_UNKNOWN,
    InferenceClusterReason.CAPACITY_STALE,
    InferenceClusterReason.INVALID_CERTIFICATE,
    InferenceClusterReason.UNSUPPORTED_GATEWAY,
    InferenceGatewayReason.TLS_UNSUPPORTED,
    InferenceGatewayReason.UNSUPPORTED_BACKEND,
    ModelDeploymentReason.FAILOVER_PAUSED,
    ModelDeploymentReason.NOT_SUPPORTED,
    ModelDeploymentReason.SATURATION_UNKNOWN,
    ModelEndpointReason.SECRET_UNREADABLE,
    ModelKeyReason.NO_PRICES,
    ModelKeyReason.NO_RATE_LIMIT_SERVICE,
    ModelKeyReason.TYPE_NOT_GRANTED,
)
"""Reasons of warnings that keep no object from being ready."""

PAUSED: Final = (
    InferenceAutoscalerReason.PAUSED,
    ModelDeploymentReason.ROLLOUT_PAUSED,
    SyncedReason.RECONCILE_PAUSED,
)
"""Reasons of what a person has suspended."""

_CHECK: Final = """\
local health = {status = "Progressing", message = "Waiting for the first reconcile"}
local conditions = {}
for _, each in ipairs((obj.status or {}).conditions or {}) do
  conditions[each.type] = each
end
local ready, synced = conditions.Ready, conditions.Synced
if ready == nil then
  return health
end
for _, each in ipairs({ready, synced}) do
  local seen = each.observedGeneration or 0
  if seen > 0 and seen < (obj.metadata.generation or 0) then
    health.message = "Waiting for the reconcile of the last edit"
    return health
  end
end
for name, reasons in pairs(paused) do
  local found = conditions[name]
  if found ~= nil and found.status == "False" and reasons[found.reason] then
    return {status = "Suspended", message = found.message or found.reason}
  end
end
if ready.status == "True" and (synced == nil or synced.status == "True") then
  return {status = "Healthy", message = ready.message or ""}
end
health.message = ready.message or ready.reason
local cause = nil
for _, name in ipairs(order) do
  local found = conditions[name]
  if found ~= nil and found.status == "False" and warnings[name][found.reason] then
    if waiting[name] ~= nil and waiting[name][found.reason] then
      return health
    end
    cause = cause or found
  end
end
if cause ~= nil then
  return {status = "Degraded", message = cause.message or cause.reason}
end
return health
"""


def check(kind: Kind) -> str:
    """Return the health check of a kind: a program that reads ``obj`` and returns its health."""
    rows = [
        row.reason for row in ROWS if row.kind in (EVERY_KIND, kind.name) and row.reason.holds is not True
    ]
    blocking = [row for row in rows if row.warns and not _is_among(row, ADVISORY)]
    warnings = _by_condition(blocking)
    paused = _by_condition(row for row in rows if _is_among(row, PAUSED))
    waits = _by_condition(row for row in blocking if _is_among(row, WAITS))
    lines = [
        f"local warnings = {_table(warnings)}",
        f"local order = {{{', '.join(map(_quoted, warnings))}}}",
        f"local waiting = {_table(waits)}",
        f"local paused = {_table(paused)}",
    ]
    return "\n".join((*lines, _CHECK))


def _is_among(row: Reason, rows: Iterable[Reason]) -> bool:
    """Return True if a row is one of others: rows of several conditions have the same word."""
    return any(row is other for other in rows)


def config_map() -> dict[str, Any]:
    """Return the health checks as Argo CD reads them, to be merged with what is there."""
    checks = {f"resource.customizations.health.{kind.group}_{kind.name}": check(kind) for kind in KINDS}
    labels = {"app.kubernetes.io/name": CONFIG_MAP, "app.kubernetes.io/part-of": "argocd"}
    metadata = {"name": CONFIG_MAP, "namespace": "argocd", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": checks}


def _by_condition(rows: Iterable[Reason]) -> dict[str, list[str]]:
    words: dict[str, list[str]] = {}
    for row in rows:
        words.setdefault(str(row.type), []).append(str(row))
    return words


def _table(reasons: dict[str, list[str]]) -> str:
    if not reasons:
        return "{}"
    rows = (
        f"  {name} = {{{', '.join(f'{each} = true' for each in its)}}},\n" for name, its in reasons.items()
    )
    return f"{{\n{''.join(rows)}}}"


def _quoted(text: str) -> str:
    return f'"{text}"'
