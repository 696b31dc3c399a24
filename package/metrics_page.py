# ruff: noqa: INP001  a script beside what it writes, not a package
"""The reference page of metrics, from their table."""

from modelplane.telemetry.metric_definitions import LABELS, METRICS, Metric, Program

_TABLE = ("| Metric | Type | Labels | Meaning |", "|---|---|---|---|")
_INTRODUCTION = (
    "`/metrics` of `--metrics-address` exports these metrics in the text format of Prometheus, and "
    "`process_*` and `python_info` of the process itself. [How to observe a fleet](../how-to/observe.md) "
    "lists useful alerts.\n\n"
    "Metrics of an object disappear with the object. All other metrics count from the start of the process. "
    "Only the leader exports metrics of the fleet; a standby doesn't."
)


def metrics_page() -> str:
    """Return the page."""
    parts = ["# Metrics", _INTRODUCTION]
    for title, programs in _SECTIONS.items():
        rows = [_row(metric) for metric in METRICS if metric.programs == programs]
        parts += [f"## {title}", "\n".join([*_TABLE, *rows])]
    parts += ["## Labels", "The values of the labels limit the number of series of a metric."]
    labels = [f"| `{name}` | {bound} |" for name, bound in LABELS.items()]
    parts.append("\n".join(["| Label | Values |", "|---|---|", *labels]))
    return "\n\n".join(parts) + "\n"


_SECTIONS = {
    "Every process": frozenset(Program),
    "Controllers": frozenset({Program.CONTROLLER}),
    "The Crossplane function": frozenset({Program.FUNCTION}),
    "The gateway": frozenset({Program.GATEWAY}),
}


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.type} | {labels} | {metric.help} |"
