"""Crossplane's protection: what a Usage names cannot be deleted while the Usage is there."""

from collections.abc import Iterable, Iterator

from support.crossplane.api import ApiError, ApiServer, Event
from support.crossplane.composite import PREFIX
from support.crossplane.objects import Key, Kind, Object, is_deleted, key_of, kind_of, set_conditions
from support.crossplane.schemas import PROTECTION
from support.crossplane.simulation import DONE, Result

USAGE = Kind(PROTECTION, "Usage")
CLUSTER_USAGE = Kind(PROTECTION, "ClusterUsage")
IN_USE = "crossplane.io/in-use"
ATTEMPT = "usage.crossplane.io/deletion-attempt-with-policy"
_FINALIZER = "usage.apiextensions.crossplane.io"
_DETAILS = "crossplane.io/usage-details"
_CROSSPLANE = "crossplane"


class Protection:
    """Reconciles Usages and ClusterUsages, and refuses deletions on behalf of these."""

    first_delay = 1.0
    longest_delay = 60.0
    workers = 1
    poll_s = 60.0

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        api.admission = self.admit

    def admit(self, item: Object, propagation: str) -> None:
        """Refuse to delete what is in use, and note on it that somebody tried."""
        if item["metadata"].get("labels", {}).get(IN_USE) != "true":
            return
        usages = list(self._of(key_of(item)))
        if not usages:
            return
        attempted = self._api.get(key_of(item))
        if attempted is not None and attempted["metadata"].get("annotations", {}).get(ATTEMPT) != propagation:
            attempted["metadata"].setdefault("annotations", {})[ATTEMPT] = propagation
            self._api.update(attempted, _CROSSPLANE)
        first = usages[0]
        why = f' with reason: "{first["spec"].get("reason", "")}"' if "by" not in first["spec"] else ""
        raise ApiError(
            "InUse",
            f"This resource is in-use by {len(usages)} usage(s), including the {first['kind']} "
            f'"{first["metadata"]["name"]}"{why}.',
        )

    def wakes(self, event: Event) -> Iterable[Key]:
        """Return the usage that changed. The objects that it names wake nobody."""
        return [event.key] if event.key.of in (USAGE, CLUSTER_USAGE) else []

    def reconcile(self, key: Key) -> Result:
        """Mark what is used; let go a usage that is deleted."""
        usage = self._api.get(key)
        if usage is None:
            return DONE
        try:
            return self._deleted(usage) if is_deleted(usage) else self._configured(usage)
        except ApiError:
            return Result(again=True)

    def _configured(self, usage: Object) -> Result:
        before = usage
        metadata = usage["metadata"]
        if _FINALIZER not in metadata.setdefault("finalizers", []):
            metadata["finalizers"].append(_FINALIZER)
            usage = self._api.update(usage, _CROSSPLANE)
        details = self._details(usage)
        if usage["metadata"].setdefault("annotations", {}).get(_DETAILS) != details:
            usage["metadata"]["annotations"][_DETAILS] = details
            usage = self._api.update(usage, _CROSSPLANE)
        used = self._api.get(self._used(usage))
        if used is None:
            return Result(again=True)
        if used["metadata"].get("labels", {}).get(IN_USE) != "true":
            used["metadata"].setdefault("labels", {})[IN_USE] = "true"
            self._api.update(used, _CROSSPLANE)
        if "by" in usage["spec"]:
            using = self._api.get(self._using(usage))
            if using is None:
                return Result(again=True)
            usage = self._owned(usage, using)
        available = {
            "type": "Ready",
            "status": "True",
            "reason": "Available",
            "observedGeneration": usage["metadata"]["generation"],
        }
        if usage != before:
            set_conditions(usage, [available], str(self._api.clock))
            self._api.update_status(usage, _CROSSPLANE)
        return Result(after=self.poll_s)

    def _owned(self, usage: Object, using: Object) -> Object:
        owners = usage["metadata"].setdefault("ownerReferences", [])
        if any(owner["uid"] == using["metadata"]["uid"] for owner in owners):
            return usage
        metadata = using["metadata"]
        owners.append(
            {
                "apiVersion": using["apiVersion"],
                "kind": using["kind"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            }
        )
        return self._api.update(usage, _CROSSPLANE)

    def _deleted(self, usage: Object) -> Result:
        metadata = usage["metadata"]
        composed = PREFIX in metadata.get("labels", {})
        if "by" in usage["spec"] and composed and self._api.get(self._using(usage)) is not None:
            return Result(after=30.0)
        used = self._api.get(self._used(usage))
        if used is not None:
            if len(list(self._of(key_of(used)))) < 2 and used["metadata"].get("labels", {}).pop(IN_USE, ""):
                used = self._api.update(used, _CROSSPLANE)
            policy = used["metadata"].get("annotations", {}).get(ATTEMPT)
            if policy and usage["spec"].get("replayDeletion"):
                self._api.clock.after(2.0, lambda: self._replay(key_of(used), policy))
        metadata["finalizers"] = [each for each in metadata.get("finalizers", ()) if each != _FINALIZER]
        self._api.update(usage, _CROSSPLANE)
        return DONE

    def _replay(self, key: Key, policy: str) -> None:
        try:
            self._api.delete(key, policy)
        except ApiError as error:
            if error.reason not in ("NotFound", "InUse"):
                raise

    def _of(self, used: Key) -> Iterator[Object]:
        for kind in (USAGE, CLUSTER_USAGE):
            yield from (usage for usage in self._api.of(kind) if self._used(usage) == used)

    def _used(self, usage: Object) -> Key:
        of = usage["spec"]["of"]
        namespace = of["resourceRef"].get("namespace", usage["metadata"].get("namespace", ""))
        return Key(*kind_of(of["apiVersion"], of["kind"]), namespace, of["resourceRef"]["name"])

    def _using(self, usage: Object) -> Key:
        by = usage["spec"]["by"]
        # What uses something is in the usage's own namespace, or in none.
        namespace = usage["metadata"].get("namespace", "")
        return Key(*kind_of(by["apiVersion"], by["kind"]), namespace, by["resourceRef"]["name"])

    def _details(self, usage: Object) -> str:
        spec = usage["spec"]
        if spec.get("reason"):
            return str(spec["reason"])
        of, by = spec["of"], spec["by"]
        return f"{by['kind']}/{by['resourceRef']['name']} uses {of['kind']}/{of['resourceRef']['name']}"
