"""The reconciler of composite resources, and what it does with a function's answer.

One rule: each write is one of Crossplane's own, in its order, so that watches report what they would there.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import grpc
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from support.crossplane.api import ApiError, ApiServer, Change, Event, Stored
from support.crossplane.breaker import Breaker, Limits
from support.crossplane.objects import (
    Key,
    Kind,
    Object,
    condition,
    controller_of,
    is_deleted,
    key_of,
    kind_of,
    set_conditions,
)
from support.crossplane.protobuf import Resources, plain
from support.crossplane.schemas import COMPOSITES
from support.crossplane.simulation import DONE, Result, Simulation
from support.plain_objects import copied

FINALIZER = "composite.apiextensions.crossplane.io"
NAME = "crossplane.io/composition-resource-name"
PREFIX = "crossplane.io/composite"
MOST_CALLS = 5
_CALL_S = 0.005
_CROSSPLANE = "crossplane"
_COMPOSITE = "apiextensions.crossplane.io/composite"
_STATUS = {
    fnv1.STATUS_CONDITION_TRUE: "True",
    fnv1.STATUS_CONDITION_FALSE: "False",
}
_SYSTEM = ("Ready", "Synced", "Responsive", "Healthy")
_CAPABILITIES = (
    fnv1.CAPABILITY_CAPABILITIES,
    fnv1.CAPABILITY_REQUIRED_RESOURCES,
    fnv1.CAPABILITY_CREDENTIALS,
    fnv1.CAPABILITY_CONDITIONS,
    fnv1.CAPABILITY_REQUIRED_SCHEMAS,
)

Run = Callable[[fnv1.RunFunctionRequest], fnv1.RunFunctionResponse]
"""A function."""


class Emitted(NamedTuple):
    """An event that Crossplane records for a composite."""

    of: Key
    type: str
    reason: str
    message: str


class ComposeError(Exception):
    """Why a composite could not be composed. Crossplane tries again, later each time."""


@dataclass
class Call:
    """One call of the function, for tests to look into."""

    of: Key
    request: fnv1.RunFunctionRequest
    response: fnv1.RunFunctionResponse
    seconds: float


@dataclass
class _Composed:
    """What came of one run of the function."""

    resources: dict[str, tuple[Object, bool]]
    response: fnv1.RunFunctionResponse
    unsynced: list[str] = field(default_factory=list)


class CompositeController:
    """Reconciles the composites of one kind."""

    first_delay = 1.0
    longest_delay = 30.0
    workers = 100

    def __init__(self, simulation: Simulation, api: ApiServer, kind: Kind, run: Run) -> None:
        self._simulation = simulation
        self._api = api
        self._kind = kind
        self._composition = f"{COMPOSITES[kind].plural}.{kind.group}"
        self.run = run
        self.limits = Limits()
        self.real_time = False
        """Whether a call takes as long as it really took; else it takes the same time on every machine."""
        self.realtime = True
        """Whether composed resources are watched. Without, a composite that is not ready is tried again."""
        self.breakers: dict[Key, Breaker] = {}
        self.calls: list[Call] = []
        self.emitted: list[Emitted] = []
        self._resources = Resources()
        self._children: dict[Key, set[Key]] = {}
        self._owners: dict[Key, set[Key]] = {}

    # What wakes a composite

    def wakes(self, event: Event) -> Iterable[Key]:
        """Return the composite itself, or those that an event of a child gets through to."""
        if event.key.of == self._kind:
            self._index(event)
            if not self.realtime or self._reaches(event, event.key, of_child=False):
                yield event.key
        if not self.realtime:
            return
        for owner in sorted(self._owners.get(event.key, ())):
            if self._reaches(event, owner, of_child=True):
                yield owner

    def _reaches(self, event: Event, owner: Key, *, of_child: bool) -> bool:
        return self.breaker(owner).lets_through(event, self._api.clock.now, of_child=of_child)

    def _index(self, event: Event) -> None:
        for child in self._children.pop(event.key, ()):
            self._owners[child].discard(event.key)
        if event.change is not Change.DELETED:
            self._children[event.key] = set(_references(event.new.object))
            for child in self._children[event.key]:
                self._owners.setdefault(child, set()).add(event.key)

    def breaker(self, key: Key) -> Breaker:
        """Return the breaker of a composite."""
        if key not in self.breakers:
            now = self._api.clock.now
            self.breakers[key] = Breaker(self.limits, self.limits.burst, filled_at=now)
        return self.breakers[key]

    # Reconciling

    def reconcile(self, key: Key) -> Result:
        """Reconcile a composite once."""
        seen = self._simulation.cache(self._api).get(key)
        if seen is None:
            return DONE
        try:
            return self._reconcile(copied(seen.object))
        except ApiError as error:
            if error.reason in ("Conflict", "NotFound"):
                return Result(again=True)
            raise

    def _reconcile(self, xr: Object) -> Result:
        # Marked with the generation that was read; written with the next status, whichever that is.
        set_conditions(xr, [self._responsive(xr)], str(self._api.clock))
        if is_deleted(xr):
            self._without_finalizer(xr)
            return DONE
        xr = self._prepared(xr)
        try:
            composed, xr = self._compose(xr)
        except ComposeError as error:
            self._failed(xr, str(error), error)
            return Result(again=True)
        except ApiError as error:
            if error.reason == "Conflict":
                return Result(again=True)
            self._failed(xr, f"cannot compose resources: {error}", error)
            return Result(again=True)
        return self._finished(xr, composed)

    def _without_finalizer(self, xr: Object) -> None:
        finalizers = xr["metadata"].get("finalizers", [])
        if FINALIZER in finalizers:
            finalizers.remove(FINALIZER)
            xr = self._api.update(xr, _CROSSPLANE)
        if self._api.stored(key_of(xr)) is not None:
            deleting = {"type": "Ready", "status": "False", "reason": "Deleting"}
            success = {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"}
            set_conditions(xr, [deleting, success], str(self._api.clock))
            self._api.update_status(xr, _CROSSPLANE)

    def _prepared(self, xr: Object) -> Object:
        """Return a composite with its finalizer, its composition and its label."""
        metadata = xr["metadata"]
        if FINALIZER not in metadata.setdefault("finalizers", []):
            metadata["finalizers"].append(FINALIZER)
            xr = self._api.update(xr, _CROSSPLANE)
        own = xr["spec"].setdefault("crossplane", {})
        if "compositionRef" not in own:
            # The definition names it, so that choosing it is no write of its own.
            own["compositionRef"] = {"name": self._composition}
        if "compositionRevisionRef" not in own:
            own["compositionRevisionRef"] = {"name": f"{self._composition}-1"}
            xr = self._api.update(xr, _CROSSPLANE)
        if PREFIX not in xr["metadata"].get("labels", {}):
            xr["metadata"].setdefault("labels", {})[PREFIX] = xr["metadata"]["name"]
            xr = self._api.update(xr, _CROSSPLANE)
        return xr

    def _compose(self, xr: Object) -> tuple[_Composed, Object]:
        observed = dict(self._observed(xr))
        response = self._settled(xr, observed)
        desired = {
            name: (_rendered(name, plain(resource.resource), xr, observed), resource.ready == fnv1.READY_TRUE)
            for name, resource in response.desired.resources.items()
        }
        self._collect_garbage(observed, desired)
        key = key_of(xr)
        named = {field: xr["metadata"][field] for field in ("name", "namespace") if field in xr["metadata"]}
        refs: Object = {"apiVersion": xr["apiVersion"], "kind": xr["kind"], "metadata": named}
        refs["spec"] = {"crossplane": {"resourceRefs": sorted(_refs(xr, desired), key=_ref_order)}}
        self._api.apply(refs, _COMPOSITE)
        composed = _Composed(desired, response)
        owner = f"apiextensions.crossplane.io/composed/{_hash(key.name + key.kind)}"
        for name, (child, _) in sorted(desired.items()):
            try:
                self._api.apply(child, owner)
            except ApiError as error:
                if error.reason != "Invalid":
                    raise ComposeError(
                        f'cannot compose resources: cannot apply composed resource "{name}": {error}'
                    ) from error
                self._emit(
                    key, "Warning", "ComposeResources", f'cannot apply composed resource "{name}": {error}'
                )
                composed.unsynced.append(name)
        wanted: Object = plain(response.desired.composite.resource)
        wanted |= {"apiVersion": xr["apiVersion"], "kind": xr["kind"]}
        wanted["metadata"] = {**named, "uid": xr["metadata"]["uid"]}
        # All conditions that there are go along with what the function says, so that none is lost.
        if pending := xr.get("status", {}).get("conditions"):
            wanted.setdefault("status", {})["conditions"] = copied(pending)
        return composed, self._api.apply(wanted, _COMPOSITE, "status")

    def _observed(self, xr: Object) -> Iterator[tuple[str, Stored]]:
        for key in _references(xr):
            # Crossplane asks the server where its cache knows of nothing.
            found = self._simulation.cache(self._api).get(key) or self._api.stored(key)
            if found is None:
                continue
            controller = controller_of(found.object)
            if controller and controller["uid"] != xr["metadata"]["uid"]:
                continue
            name = found.object["metadata"].get("annotations", {}).get(NAME)
            if not name:
                raise ComposeError(f'cannot compose resources: {key} has no annotation "{NAME}"')
            yield name, found

    # Asking the function

    def _settled(self, xr: Object, observed: dict[str, Stored]) -> fnv1.RunFunctionResponse:
        """Return the answer after which the function asks for nothing else than before it."""
        request = fnv1.RunFunctionRequest()
        stored = self._api.stored(key_of(xr))
        managers = stored.managers if stored else {}
        request.observed.composite.resource.CopyFrom(self._resources.resource(Stored(xr, managers)).resource)
        for name, child in sorted(observed.items()):
            request.observed.resources[name].CopyFrom(self._resources.resource(child))
        request.meta.capabilities.extend(_CAPABILITIES)
        request.meta.tag = _hash(xr["metadata"]["uid"] + xr["metadata"]["resourceVersion"])
        before = None
        for _ in range(MOST_CALLS):
            response = self._called(key_of(xr), request)
            for result in response.results:
                if result.severity == fnv1.SEVERITY_FATAL:
                    self._conditions_of(xr, response)
                    raise ComposeError(
                        f'cannot compose resources: pipeline step "modelplane" returned a fatal result: '
                        f"{result.message}"
                    )
            asked = response.requirements if response.HasField("requirements") else None
            if asked == before:
                return response
            before = response.requirements
            request.required_resources.clear()
            for name, selector in sorted(before.resources.items()):
                request.required_resources[name].CopyFrom(self._fetched(selector))
            request.context.CopyFrom(response.context)
        raise ComposeError(
            "cannot compose resources: requirements didn't stabilize after the maximum number of iterations "
            f"({MOST_CALLS})"
        )

    def _called(self, of: Key, request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
        began = time.perf_counter()
        try:
            response = self.run(request)
        except grpc.RpcError as error:
            self._api.clock.spend(_CALL_S)
            raise ComposeError(
                f'cannot compose resources: cannot run pipeline step "modelplane": {error}'
            ) from error
        took = time.perf_counter() - began
        self._api.clock.spend(took if self.real_time else _CALL_S)
        self.calls.append(Call(of, request, response, took))
        return response

    def _fetched(self, selector: fnv1.ResourceSelector) -> fnv1.Resources:
        kind = kind_of(selector.api_version, selector.kind)
        cache = self._simulation.cache(self._api)
        if selector.WhichOneof("match") == "match_name":
            found = cache.get(Key(*kind, selector.namespace, selector.match_name))
            return self._resources.resources([found] if found else [])
        labels = dict(selector.match_labels.labels)
        return self._resources.resources(
            stored
            for stored in cache.list(kind)
            if selector.namespace in ("", stored.object["metadata"].get("namespace", ""))
            and labels.items() <= stored.object["metadata"].get("labels", {}).items()
        )

    # Doing what it says

    def _collect_garbage(self, observed: dict[str, Stored], desired: dict[str, tuple[Object, bool]]) -> None:
        for name in sorted(observed.keys() - desired.keys()):
            child = observed[name].object
            try:
                self._api.delete(key_of(child))
            except ApiError as error:
                if error.reason != "NotFound":
                    raise ComposeError(
                        "cannot compose resources: cannot garbage collect composed resources that are no "
                        f'longer desired: cannot delete composed resource "{name}": {error}'
                    ) from error

    def _conditions_of(self, xr: Object, response: fnv1.RunFunctionResponse) -> None:
        told = [
            {
                "type": each.type,
                "status": _STATUS.get(each.status, "Unknown"),
                "reason": each.reason,
                "message": each.message,
            }
            for each in response.conditions
            if each.type not in _SYSTEM
        ]
        set_conditions(xr, told, str(self._api.clock))

    def _failed(self, xr: Object, message: str, error: Exception) -> None:
        key = key_of(xr)
        self._emit(key, "Warning", "ComposeResources", message)
        if isinstance(error, ApiError) and error.reason == "Invalid":
            message = "cannot compose resources: some resources were invalid, check events"
        latest = self._api.get(key)
        if latest is None:
            return
        latest["status"] = copied(xr.get("status", latest.get("status", {})))
        last = self.calls[-1] if self.calls and self.calls[-1].of == key else None
        told = {each.type for each in last.response.conditions} if last else set()
        unknown = [
            {
                **each,
                "status": "Unknown",
                "reason": "FatalError",
                "message": "A fatal error occurred before the status of this condition could be determined.",
            }
            for each in latest["status"].get("conditions", ())
            if each["type"] not in (*_SYSTEM, *told)
        ]
        synced = self._system("Synced", False, "ReconcileError", latest, message)
        responsive = [condition(xr, "Responsive")] if condition(xr, "Responsive") else []
        set_conditions(latest, [*unknown, synced, *responsive], str(self._api.clock))
        self._api.update_status(latest, _CROSSPLANE)

    def _finished(self, xr: Object, composed: _Composed) -> Result:
        key = key_of(xr)
        before = copied(xr.get("status", {}))
        response = composed.response
        for result in response.results:
            type_ = "Normal" if result.severity == fnv1.SEVERITY_NORMAL else "Warning"
            self._emit(key, type_, result.reason or "ComposeResources", result.message)
        self._conditions_of(xr, response)
        unready = sorted(name for name, (_, ready) in composed.resources.items() if not ready)
        is_ready = not unready
        if response.desired.composite.ready != fnv1.READY_UNSPECIFIED:
            is_ready, unready_said = response.desired.composite.ready == fnv1.READY_TRUE, ""
        else:
            unready_said = f"Unready resources: {_first(unready)}" if unready else ""
        unsynced = f"Unsynced resources: {_first(composed.unsynced)}" if composed.unsynced else ""
        system = [
            self._system(
                "Synced", not unsynced, "ReconcileError" if unsynced else "ReconcileSuccess", xr, unsynced
            ),
            self._system("Ready", is_ready, "Available" if is_ready else "Creating", xr, unready_said),
        ]
        set_conditions(xr, system, str(self._api.clock))
        if xr["status"] != before:
            self._api.update_status(xr, _CROSSPLANE)
        if not self.realtime:
            return Result(again=True) if unready or unsynced else Result(after=60.0)
        ttl = response.meta.ttl.ToTimedelta().total_seconds()
        return Result(after=ttl)

    def _responsive(self, xr: Object) -> Object:
        breaker = self.breaker(key_of(xr))
        if not breaker.is_open:
            return self._system("Responsive", True, "WatchCircuitClosed", xr)
        message = f"Too many watch events from {breaker.triggered_by}. Allowing events periodically."
        return self._system("Responsive", False, "WatchCircuitOpen", xr, message)

    def _system(self, type_: str, holds: bool, reason: str, xr: Object, message: str = "") -> Object:
        return {
            "type": type_,
            "status": "True" if holds else "False",
            "reason": reason,
            "message": message,
            "observedGeneration": xr["metadata"]["generation"],
        }

    def _emit(self, of: Key, type_: str, reason: str, message: str) -> None:
        event = Emitted(of, type_, reason, message)
        if not self.emitted or self.emitted[-1] != event:
            self.emitted.append(event)


def _references(xr: Object) -> Iterator[Key]:
    """Yield the keys of the children that a composite records."""
    namespace = xr["metadata"].get("namespace", "")
    for ref in xr["spec"].get("crossplane", {}).get("resourceRefs", ()):
        yield Key(*kind_of(ref["apiVersion"], ref["kind"]), ref.get("namespace", namespace), ref["name"])


def _refs(xr: Object, desired: dict[str, tuple[Object, bool]]) -> Iterator[Object]:
    for child, _ in desired.values():
        ref = {"apiVersion": child["apiVersion"], "kind": child["kind"], "name": child["metadata"]["name"]}
        if "namespace" not in xr["metadata"] and "namespace" in child["metadata"]:
            ref["namespace"] = child["metadata"]["namespace"]
        yield ref


def _ref_order(ref: Object) -> str:
    return str(ref["apiVersion"] + ref["kind"] + ref["name"])


def _rendered(name: str, child: Object, xr: Object, observed: dict[str, Stored]) -> Object:
    """Return a child as Crossplane applies it."""
    if not child.get("apiVersion") or not child.get("kind"):
        raise ComposeError(f'cannot compose resources: composed resource "{name}" has no apiVersion or kind')
    metadata: dict[str, Any] = child.setdefault("metadata", {})
    owner = xr["metadata"]
    if name in observed:
        known = observed[name].object["metadata"]
        metadata |= {field: known[field] for field in ("name", "namespace") if field in known}
    if "namespace" in owner:
        metadata["namespace"] = owner["namespace"]
    prefix = owner["labels"][PREFIX]
    if not metadata.get("name"):
        metadata["name"] = f"{prefix}-{_hash(owner['uid'] + name)[:12]}"
    metadata.setdefault("annotations", {})[NAME] = name
    metadata.setdefault("labels", {})[PREFIX] = prefix
    reference = {
        "apiVersion": xr["apiVersion"],
        "kind": xr["kind"],
        "name": owner["name"],
        "uid": owner["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata["ownerReferences"] = [*metadata.get("ownerReferences", ()), reference]
    child.pop("status", None)
    return child


def _first(names: list[str]) -> str:
    """Return the first three names, and how many there are beside these."""
    shown = ", ".join(sorted(names)[:3])
    return f"{shown}, and {len(names) - 3} more" if len(names) > 3 else shown


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
