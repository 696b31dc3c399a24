# ruff: noqa: INP001  a module beside what it helps to write, not a package
"""The page that finds what to do by what a user sees, from the remedies of conditions."""

from collections.abc import Iterator
from pathlib import Path

from modelplane.api.clouds.cloud_rows import CLUSTER_KINDS
from modelplane.api.conditions.reasons import EVERY_KIND, ROWS, Row

_TEMPLATE = Path(__file__).with_name("troubleshoot.md.template")
_CLOUDS = "Cloud clusters"
_SYMPTOMS = {
    "models": ("ModelDeployment", "ModelReplica"),
    "weights": ("ModelCache",),
    "services": ("ModelService", "ModelEndpoint", "ModelKey"),
    "gateway": ("InferenceGateway",),
    "clusters": ("InferenceCluster", "ServingStack", _CLOUDS, "InferenceClass"),
    "policies": ("InferenceAutoscaler", "DeviceQuota"),
    "every": (EVERY_KIND,),
}
"""Places of the template, and the kinds whose reasons a user sees there."""


def troubleshoot_page() -> str:
    """Return the page as Markdown. Raises ValueError if the reasons of a kind are under no symptom."""
    kinds = {_kind(row) for row in ROWS if _asks_for_something(row)}
    if missing := kinds - {kind for group in _SYMPTOMS.values() for kind in group}:
        raise ValueError(f"put the kinds under a symptom of _SYMPTOMS: {', '.join(sorted(missing))}")
    tables = {place: "\n\n".join(_tables(group)) for place, group in _SYMPTOMS.items()}
    return _TEMPLATE.read_text(encoding="utf-8").format(**tables)


def _tables(kinds: tuple[str, ...]) -> Iterator[str]:
    for kind in kinds:
        rows = [row for row in ROWS if _kind(row) == kind and _asks_for_something(row)]
        # The clouds have the same rows, of which one is enough.
        lines = dict.fromkeys(
            f"| `{row.reason}` | `{row.reason.type}` | {row.reason.meaning} | {row.reason.remedy} |"
            for row in rows
        )
        heading = [f"### {kind}", ""] if len(kinds) > 1 else []
        yield "\n".join(
            [*heading, "| Reason | Condition | Meaning | What to do |", "|---|---|---|---|", *lines]
        )


def _kind(row: Row) -> str:
    return _CLOUDS if row.kind in CLUSTER_KINDS else row.kind


def _asks_for_something(row: Row) -> bool:
    """Return true if a user has to do more than wait."""
    remedy = row.reason.remedy
    return bool(remedy) and not remedy.startswith(("Wait. No action", "No action needed"))
