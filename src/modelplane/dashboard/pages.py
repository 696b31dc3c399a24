"""Pages: what each path shows, rendered from a snapshot of the fleet. Nothing here is sent anywhere."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.api.report_tables import Explained
from modelplane.dashboard import explanations
from modelplane.dashboard.explanations import describe_canary
from modelplane.dashboard.snapshot import (
    Readiness,
    Snapshot,
    build_timeline,
    find_readiness,
    list_object_events,
)
from modelplane.dashboard.traffic import Rates
from modelplane.offline.explain.statuses import read_conditions

PER_PAGE: Final = 50
"""Rows of one page of a table."""

_FRAGMENTS: Final = "_fragments"

_MOST_CARDS: Final = 40
"""Number of clusters up to which the map shows their pools and devices; with more, a cell for each."""
_MOST_ATTENTION: Final = 6
_NAME: Final = "([^/]{1,760})"


@dataclass(frozen=True, slots=True)
class Page:
    """A rendered page, and the content of its fragments by id."""

    html: str
    fragments: Mapping[str, str]
    status: int = 200


@dataclass(frozen=True, slots=True)
class Rows:
    """One page of a table; ``number`` counts from 1."""

    rows: Sequence[Any]
    total: int
    number: int
    last: int


def select_page(rows: Sequence[Any], number: int) -> Rows:
    """Return one page of rows; of a number beyond the last, the last."""
    last = max(math.ceil(len(rows) / PER_PAGE), 1)
    at = min(max(number, 1), last)
    return Rows(rows[(at - 1) * PER_PAGE : at * PER_PAGE], len(rows), at, last)


@pass_context
def _fragment(context: Context, name: str, caller: Callable[[], Markup]) -> Markup:
    """Return a part of a page that is replaced when it changes; for ``call`` in templates."""
    content = caller()
    context[_FRAGMENTS][name] = str(content)
    return Markup('<div class="fragment" id="{}" data-live>{}</div>').format(name, content)


def build_path(*segments: str) -> str:
    """Return the path of a page."""
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def build_query(**values: object) -> str:
    """Return a query of the values that are not empty."""
    return "?" + urlencode({key: str(value) for key, value in values.items() if value})


def _age(at: str | datetime) -> Markup:
    """Return a time that the page's script shows as an age, and without it as a time of day."""
    if not at:
        return Markup("")
    text = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(at, datetime) else at
    return Markup('<time datetime="{}">{} UTC</time>').format(text, text[:19].replace("T", " "))


def _decimal(value: float) -> str:
    """Return a number with two significant digits, or as a whole number from 10 on."""
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2g}"


Query = Mapping[str, str]


@dataclass(frozen=True)
class View:
    """Input from which a page is rendered."""

    snapshot: Snapshot
    now: datetime
    version: str = ""
    """Identifies the state; a page of the same version has the same content."""
    problems: tuple[str, ...] = ()
    rates: Mapping[str, Rates] = field(default_factory=dict)
    traffic_problem: str = ""
    currency: str = ""


@dataclass(frozen=True, slots=True)
class Attention:
    """An object that is not ready, and the page that explains it."""

    kind: str
    name: str
    path: str
    readiness: Readiness


class Pages:
    """The table of paths."""

    def __init__(self, origin: str) -> None:
        """``origin`` names the control plane, for the heading."""
        self._origin = origin
        self._environment = Environment(
            loader=PackageLoader("modelplane.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(fragment=_fragment, link=build_path, with_query=build_query)
        self._environment.filters.update(age=_age, decimal=_decimal, number="{:,}".format)

    def render(self, path: str, query: Query, view: View) -> Page:
        """Render the page of a path."""
        for pattern, build in _PATHS:
            if (match := pattern.fullmatch(path)) and (
                built := build(view, query, *map(unquote, match.groups()))
            ):
                return self._page(*built, path, view)
        return self._page("missing.html", {"title": "Not found", "path": path}, path, view, 404)

    def plan(self, text: str, view: View) -> Page:
        """Render the page of a manifest that was sent to be planned."""
        planned = explanations.plan(view.snapshot, text)
        return self._page("plan.html", _plan_values(text, planned), "/plan", view)

    def _page(
        self, template: str, values: Mapping[str, Any], path: str, view: View, status: int = 200
    ) -> Page:
        common = {"origin": self._origin, "view": view, "section": path.split("/")[1], "live": True}
        fragments: dict[str, str] = {}
        given = {**common, **values, _FRAGMENTS: fragments}
        return Page(self._environment.get_template(template).render(given), fragments, status)


_Built = tuple[str, Mapping[str, Any]] | None
"""A template and its values; None if there is no such object."""


def _number(query: Query) -> int:
    text = query.get("page", "1")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 1


def _listed(rows: Sequence[Any], query: Query) -> Mapping[str, Any]:
    """Return the rows whose name contains what is searched for, one page of them."""
    text = query.get("q", "").strip().lower()[:100]
    matching = [row for row in rows if text in _label(row)] if text else rows
    return {"rows": select_page(matching, _number(query)), "q": text}


def _label(row: Any) -> str:
    names = ("namespace", "region", "name", "note", "reason")
    return "/".join(str(getattr(row, column, "")) for column in names).lower()


def _fleet(view: View, query: Query) -> _Built:
    snapshot = view.snapshot
    attention = tuple(_attention(snapshot))
    values = {
        "title": "Fleet",
        "attention": attention[:_MOST_ATTENTION],
        "more": max(len(attention) - _MOST_ATTENTION, 0),
        "cards": len(snapshot.clusters) <= _MOST_CARDS,
        **_listed(sorted(snapshot.clusters, key=lambda cluster: cluster.readiness.ready), query),
    }
    return "fleet.html", values


def _attention(snapshot: Snapshot) -> Iterator[Attention]:
    for service in snapshot.services:
        if not service.readiness.ready:
            path = build_path("services", service.namespace, service.name)
            yield Attention("Service", f"{service.namespace}/{service.name}", path, service.readiness)
    for row in snapshot.deployments:
        if not row.readiness.ready:
            path = build_path("deployments", row.namespace, row.name)
            why = row.diagnosis or row.readiness.why
            readiness = Readiness(False, why, row.readiness.since, row.readiness.word)
            yield Attention("Deployment", f"{row.namespace}/{row.name}", path, readiness)
    for cluster in snapshot.clusters:
        if not cluster.readiness.ready:
            yield Attention("Cluster", cluster.name, build_path("clusters", cluster.name), cluster.readiness)


def _cluster(view: View, query: Query, name: str) -> _Built:
    snapshot = view.snapshot
    item = snapshot.find(kind_name(InferenceCluster), "", name)
    cluster = next((shown for shown in snapshot.clusters if shown.name == name), None)
    if item is None or cluster is None:
        return None
    replicas_there = [
        (replica["metadata"]["namespace"], replica["metadata"]["name"], find_readiness(replica))
        for replica in snapshot.list_objects(kind_name(ModelReplica))
        if replica["spec"].get("clusterName") == name
    ]
    replicas = select_page(
        sorted(replicas_there, key=lambda replica: (replica[2].ready, *replica[:2])), _number(query)
    )
    return "cluster.html", {"title": name, "cluster": cluster, "replicas": replicas, **_about(view, item)}


def _about(view: View, item: Object) -> Mapping[str, Any]:
    return {
        "conditions": read_conditions(item),
        "entries": list_object_events(view.snapshot, item)[:50],
        "readiness": find_readiness(item),
    }


def _table(title: str, rows: Sequence[Any], query: Query) -> _Built:
    return f"{title.lower()}.html", {"title": title, **_listed(rows, query)}


def _deployment(view: View, _query: Query, namespace: str, name: str) -> _Built:
    built = _explained(view, "deployment.html", kind_name(ModelDeployment), namespace, name)
    item = view.snapshot.find(kind_name(ModelDeployment), namespace, name)
    if built is None or item is None:
        return None
    template, values = built
    return template, {**values, "canary": describe_canary(item)}


def _service(view: View, _query: Query, namespace: str, name: str) -> _Built:
    return _explained(view, "service.html", kind_name(ModelService), namespace, name)


def _replica(view: View, _query: Query, namespace: str, name: str) -> _Built:
    return _explained(view, "replica.html", kind_name(ModelReplica), namespace, name)


def _explained(view: View, template: str, kind: str, namespace: str, name: str) -> _Built:
    item = view.snapshot.find(kind, namespace, name)
    if item is None:
        return None
    values = {
        "title": f"{namespace}/{name}",
        "explained": explanations.explain(view.snapshot, item),
        "rates": view.rates.get(f"{namespace}/{name}"),
        "spec": item["spec"],
    }
    return template, {**values, **_about(view, item)}


def _plan_values(text: str, planned: "Explained | None") -> Mapping[str, Any]:
    return {"title": "Plan", "text": text, "planned": planned, "live": False}


_PATHS: Final[tuple[tuple[re.Pattern[str], Callable[..., _Built]], ...]] = (
    (re.compile("/"), _fleet),
    (re.compile(f"/clusters/{_NAME}"), _cluster),
    (re.compile("/deployments"), lambda view, query: _table("Deployments", view.snapshot.deployments, query)),
    (re.compile(f"/deployments/{_NAME}/{_NAME}"), _deployment),
    (re.compile("/services"), lambda view, query: _table("Services", view.snapshot.services, query)),
    (re.compile(f"/services/{_NAME}/{_NAME}"), _service),
    (re.compile(f"/replicas/{_NAME}/{_NAME}"), _replica),
    (re.compile("/events"), lambda view, query: _table("Events", build_timeline(view.snapshot), query)),
    (re.compile("/plan"), lambda _view, _query: ("plan.html", _plan_values("", None))),
)
