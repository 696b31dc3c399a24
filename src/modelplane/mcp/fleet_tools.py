"""Tools of a fleet: list, explain, plan and events, and the size of a model, as text.

The facts and the sentences are those of ``modelplane explain``, ``modelplane plan``, ``modelplane size`` and
the dashboard.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from modelplane.api.conditions.reasons import find_row
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.kinds import KINDS, Kind
from modelplane.api.listing import listing
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.api.report_tables import Columns, Explained
from modelplane.api.schema.decode import InvalidObject
from modelplane.checkpoints import checkpoint
from modelplane.checkpoints.hub import Hub
from modelplane.controllers import fleet_resources
from modelplane.dashboard import explanations
from modelplane.dashboard.explanations import MOST_BYTES
from modelplane.dashboard.snapshot import (
    Cluster,
    Devices,
    Entry,
    Pool,
    Snapshot,
    build_timeline,
    list_object_events,
)
from modelplane.mcp.fleet import EVENTS, Fleet, clean, format_table, quote
from modelplane.offline.explain.explanation_tables import CONDITIONS
from modelplane.offline.explain.statuses import Said, explain_not_ready, read_conditions
from modelplane.offline.models import size_rows
from modelplane.offline.models.size_report import Size
from modelplane.operations.model_sizes import size_model
from modelplane.user_error import UserError

_MOST: Final = 20
"""Rows of hardware."""
_PATIENCE_S: Final = 60.0
_MODEL: Final = re.compile(r"[\w-][\w.-]{0,95}/[\w-][\w.-]{0,95}", re.ASCII)

T = TypeVar("T")
KIND_NAMES: Final = tuple(kind.name for kind in KINDS)
EXPLAINED: Final = (kind_name(ModelDeployment), kind_name(ModelService), kind_name(ModelReplica))
"""The kinds that can be explained."""
_BY_NAME: Final = {kind.name: kind for kind in KINDS}
_COMPUTING_S: Final = 60.0
"""Maximum time for an explanation or a plan. What is too late still ends before the next one begins."""
_MOST_LISTED: Final = 10
_MOST_OF_A_SENTENCE: Final = 2_000
"""Characters of a diagnosis, which names clusters and remedies."""
_EVENTS: Final = Columns[Entry](
    ("TIME", lambda event: event.at[:19]),
    ("TYPE", lambda event: "Warning" if event.warning else "Normal"),
    ("KIND", lambda event: event.kind),
    ("OBJECT", lambda event: f"{event.namespace}/{event.name}" if event.namespace else event.name),
    ("REASON", lambda event: event.reason),
    ("NOTE", lambda event: event.note),
    ("TIMES", lambda event: str(event.count)),
)


class SizeTool:
    """The tool; it compares with the catalogue, or with the pools of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def size(
        self,
        model: str,
        *,
        context: int,
        concurrency: int,
        quantization: str,
        kv_cache_dtype: str,
        in_fleet: bool,
    ) -> str:
        """Return the memory of a model, and the hardware that can serve it. Raises ``UserError``."""
        if not _MODEL.fullmatch(model):
            raise UserError(f'"{clean(model, 100)}" is not OWNER/NAME of the hub: correct it')
        pools = None
        if in_fleet:
            resources = (fleet_resources.INFERENCE_CLASSES, fleet_resources.INFERENCE_CLUSTERS)
            snapshot = await self._fleet.take_snapshot(resources)
            pools = [item for kind in resources for item in snapshot.list_objects(kind.kind)]

        def compute() -> Size:
            return size_model(
                checkpoint.read(Hub(model)),
                quantization=quantization or None,
                tokens=context or None,
                concurrency=concurrency,
                kv_cache_dtype=kv_cache_dtype,
                fleet=pools,
                option="context",
            )

        try:
            async with asyncio.timeout(_PATIENCE_S):
                return quote(_list_sizes(await asyncio.to_thread(compute)))
        except TimeoutError:
            raise UserError(f"the hub did not respond within {_PATIENCE_S:.0f} seconds: try again") from None
        except (UserError, InvalidObject) as error:
            raise UserError(clean(str(error))) from error
        except ModuleNotFoundError as error:
            raise UserError(
                f"{error.name} is not installed: install Modelplane with the extra [mcp]"
            ) from error


def _list_sizes(size: Size) -> Iterator[str]:
    yield clean(size_rows.describe_model(size))
    yield from format_table(size_rows.WEIGHTS.tabulate("Weights", size_rows.list_weights(size)))
    yield ""
    yield f"KV cache: {size_rows.describe_cache(size)}"
    yield from format_table(size_rows.SPLITS.tabulate(size_rows.SPLITS_TITLE, size_rows.list_splits(size)))
    served = size_rows.tabulate_served(size.hardware, _MOST)
    yield from format_table(served)
    if not served.rows:
        yield from format_table(size_rows.tabulate_refused(size.hardware))


class FleetTools:
    """The tools, over one fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._worker = ThreadPoolExecutor(1, "explanations and plans")

    async def list_objects(self, kind: str, namespace: str) -> str:
        """Return a row for each object of a kind. Raises ``UserError``."""
        meant = _kind(kind)
        if namespace and not meant.namespaced:
            raise UserError(f"{kind} has no namespace: omit namespace")
        snapshot = await self._fleet.take_snapshot([fleet_resources.resource_of_kind(meant.type)], namespace)
        items = snapshot.list_objects(kind)
        if not items:
            return f"There is no {kind} in {f'namespace {namespace}' if namespace else 'the fleet'}."
        lines = format_table(_columns(meant).tabulate("", items))
        pools = await self._pools(snapshot) if meant.type is InferenceCluster else ()
        return quote((f"{len(items):,} of kind {kind}", *lines, *pools))

    async def explain(self, kind: str, name: str, namespace: str) -> str:
        """Return why replicas are placed, routed to, and ready, or not. Raises ``UserError``."""
        if kind not in EXPLAINED:
            raise UserError(f"{clean(kind)} cannot be explained: name one of {', '.join(EXPLAINED)}")
        snapshot = await self._fleet.take_snapshot(fleet_resources.list_needed_to_explain(kind))
        item = _find(snapshot, kind, name, namespace)
        told = await self._compute(explanations.explain, snapshot, item)
        lines = format_table(_columns_of_conditions(kind).tabulate("Conditions", read_conditions(item)))
        return quote((*_lines(told), *lines))

    async def plan(self, manifests: str) -> str:
        """Return the placement of the ModelDeployments of manifests. Raises ``UserError``."""
        if len(manifests.encode()) > MOST_BYTES:
            raise UserError(f"the manifests have more than {MOST_BYTES // 1024} KiB: plan fewer at a time")
        snapshot = await self._fleet.take_snapshot(fleet_resources.NEEDED_TO_PLAN)
        return quote(_lines(await self._compute(explanations.plan, snapshot, manifests)))

    async def list_events(self, kind: str, name: str, namespace: str, limit: int) -> str:
        """Return the latest events, newest first. Raises ``UserError``."""
        if name and not kind:
            raise UserError("a name requires a kind: set both or neither")
        meant = _kind(kind) if kind else None
        item = await self._find(meant, name, namespace) if meant and name else None
        snapshot = await self._fleet.take_snapshot([EVENTS], namespace)
        if item is None:
            events = tuple(event for event in build_timeline(snapshot) if kind in ("", event.kind))
        else:
            events = list_object_events(snapshot, item)
        if not events:
            return "There are no events. The control plane keeps events for an hour."
        lines = format_table(_EVENTS.tabulate("", events[:limit]))
        return quote((f"{len(events):,} events, newest first", *lines))

    async def _find(self, kind: Kind, name: str, namespace: str) -> Object:
        if kind.namespaced and not namespace:
            raise UserError(f"a {kind.name} is in a namespace: give it")
        item = await self._fleet.find(fleet_resources.resource_of_kind(kind.type), namespace, name)
        if item is None:
            raise UserError(f'there is no {kind.name} "{clean(name)}": list {kind.plural} to see their names')
        return item

    async def _pools(self, clusters: Snapshot) -> Iterable[str]:
        """Return the devices of pools, used ones as the scheduler counts them."""
        try:
            replicas = await self._fleet.take_snapshot([fleet_resources.MODEL_REPLICAS])
        except UserError as refused:
            return ("", f"The devices of pools are not counted: {refused}")
        rows = [
            _PoolDevices(cluster, pool, devices)
            for cluster in Snapshot({**clusters.objects, **replicas.objects}).clusters
            for pool in cluster.pools
            for devices in pool.devices or (None,)
        ]
        return tuple(format_table(_POOLS.tabulate("Pools", rows)))

    async def _compute(self, do: Callable[..., T], *arguments: Any) -> T:
        """Run a function in a thread, one at a time. Raises ``UserError``."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_COMPUTING_S):
                return await loop.run_in_executor(self._worker, do, *arguments)
        except TimeoutError:
            late = f"the computation takes more than {_COMPUTING_S:.0f} seconds"
            raise UserError(f"{late}: plan fewer replicas, or run `modelplane plan`") from None


def _kind(name: str) -> Kind:
    """Return the kind of a name. Raises ``UserError``."""
    if name not in _BY_NAME:
        raise UserError(f'"{clean(name)}" is not a kind of Modelplane: name one of {", ".join(KIND_NAMES)}')
    return _BY_NAME[name]


def _find(snapshot: Snapshot, kind: str, name: str, namespace: str) -> Object:
    """Return the one object of a name. Raises ``UserError``."""
    everything = snapshot.list_objects(kind)
    matching = [
        item
        for item in everything
        if item["metadata"]["name"] == name and namespace in ("", item["metadata"]["namespace"])
    ]
    if len(matching) == 1:
        return matching[0]
    if matching:
        where = ", ".join(sorted(item["metadata"]["namespace"] for item in matching))
        raise UserError(
            f'there is a {kind} "{clean(name)}" in several namespaces: name one of {clean(where)}'
        )
    names = [f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in everything]
    existing = f"there are {clean(listing(names, _MOST_LISTED))}" if names else "the fleet has none"
    where = f" in namespace {clean(namespace)}" if namespace else ""
    raise UserError(f'the fleet has no {kind} "{clean(name)}"{where}: {existing}')


def _lines(told: Explained) -> Iterator[str]:
    yield clean(told.verdict, _MOST_OF_A_SENTENCE)
    for titled in told.tables:
        yield from format_table(titled)
    if told.notes:
        yield ""
    for note in told.notes:
        yield clean(note, _MOST_OF_A_SENTENCE)


def _columns_of_conditions(kind: str) -> Columns[Said]:
    """Return the columns of conditions, with the meaning and the remedy of each reason."""

    def describe(said: Said) -> str:
        row = find_row(kind, said.type, said.reason, holds=said.status == "True")
        return "-" if row is None else " ".join(filter(None, (row.meaning, row.remedy)))

    return Columns(*CONDITIONS.columns, ("MEANING AND REMEDY", describe))


def _columns(kind: Kind) -> Columns[Object]:
    """Return the columns of a kind: those that kubectl prints, and why an object is not ready."""
    where: tuple[tuple[str, Callable[[Object], str]], ...] = ()
    if kind.namespaced:
        where = (("NAMESPACE", lambda item: str(item["metadata"].get("namespace", ""))),)
    return Columns(
        *where,
        ("NAME", lambda item: str(item["metadata"]["name"])),
        *((column.name, partial(_value, path=column.path)) for column in kind.own_columns),
        ("READY", lambda item: "False" if explain_not_ready(item) else "True"),
        ("MESSAGE", lambda item: explain_not_ready(item) or "-"),
    )


def _value(item: Any, path: str) -> str:
    for part in path.removeprefix(".").split("."):
        item = item.get(part) if isinstance(item, dict) else None
    return "-" if item is None else str(item)


class _PoolDevices(NamedTuple):
    cluster: Cluster
    pool: Pool
    devices: Devices | None


_POOLS: Final = Columns[_PoolDevices](
    ("CLUSTER", lambda row: row.cluster.name),
    ("REGION", lambda row: row.cluster.region or "-"),
    ("POOL", lambda row: row.pool.name),
    ("NODES", lambda row: str(row.pool.nodes)),
    ("DEVICE", lambda row: row.devices.name if row.devices else "-"),
    ("TOTAL", lambda row: str(row.devices.total) if row.devices else "-"),
    ("USED", lambda row: str(row.devices.used) if row.devices else "-"),
    ("FREE", lambda row: str(row.devices.free) if row.devices else "-"),
)
