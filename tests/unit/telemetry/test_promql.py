"""The alerts and queries that the documents and the board have, as a parser of PromQL reads them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from modelplane.telemetry.metric_definitions import METRICS, Type

ROOT = Path(__file__).resolve().parents[3]
OF_A_SCRAPE = {"job", "instance", "namespace", "pod", "container"}
"""Labels that Prometheus adds to every sample that it scrapes."""
PARTS = ("_bucket", "_sum", "_count")


def alerts() -> dict[str, str]:
    page = (ROOT / "docs" / "how-to" / "observe.md").read_text()
    blocks = [block.partition("```")[0] for block in page.split("```yaml\n")[1:]]
    [rules] = [each for each in map(yaml.safe_load, blocks) if each["kind"] == "PrometheusRule"]
    return {rule["alert"]: rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]}


def panels() -> dict[str, str]:
    board = json.loads((ROOT / "package" / "grafana" / "modelplane.json").read_text())
    return {
        f"{panel['title']} {number}": target["expr"]
        for panel in board["panels"]
        for number, target in enumerate(panel.get("targets", ()))
    }


QUERIES = {**alerts(), **panels()}


def parsed(query: str) -> Any:
    for variable, value in {"$__rate_interval": "5m", "$__range": "1h", "$__interval": "1m"}.items():
        query = query.replace(variable, value)
    return promql_parser.parse(query)


def inside(expression: Any) -> Iterator[Any]:
    """Yield an expression and all that it is made of."""
    yield expression
    for name in ("lhs", "rhs", "expr", "param", "vector_selector"):
        if (part := getattr(expression, name, None)) is not None:
            yield from inside(part)
    for part in getattr(expression, "args", ()):
        yield from inside(part)


def labels_of(name: str | None) -> set[str] | None:
    """Return the labels of a metric of ours; None of another one."""
    for metric in METRICS:
        if name == metric.name:
            return {*metric.labels}
        if metric.type is Type.HISTOGRAM and (name or "").removeprefix(metric.name) in PARTS:
            return {*metric.labels, "le"}
    return None


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_query_is_one_and_names_labels_that_there_are(query: str) -> None:
    expression = parsed(query)
    selectors = [each for each in inside(expression) if isinstance(each, promql_parser.VectorSelector)]
    assert selectors
    for each in selectors:
        matched = {matcher.name for matcher in each.matchers.matchers}
        if (known := labels_of(each.name)) is not None:
            assert matched <= known | OF_A_SCRAPE, each.name
    named = {
        label
        for each in inside(expression)
        if isinstance(each, promql_parser.AggregateExpr) and each.modifier is not None
        for label in each.modifier.labels
    }
    there = set().union(*(labels_of(each.name) or set() for each in selectors))
    assert named <= there | OF_A_SCRAPE


def test_what_is_no_query_is_refused() -> None:
    with pytest.raises(ValueError, match="expected type matrix"):
        parsed("rate(modelplane_replicas)")


def test_no_panel_of_the_board_hides_another() -> None:
    board = json.loads((ROOT / "package" / "grafana" / "modelplane.json").read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    places = [panel["gridPos"] for panel in board["panels"]]
    cells = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
