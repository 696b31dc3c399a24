"""provider-kubernetes: objects of other clusters, each kept in step with an Object.

What its reconciler writes of an Object is what the managed reconciler of crossplane-runtime writes, one
update after the other: its name, its finalizer, that it is about to create, that it has created, its status.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import yaml
from cel_expr_python import cel

from support.crossplane.api import ApiError, ApiServer, Change, Event
from support.crossplane.objects import (
    Key,
    Kind,
    Object,
    condition,
    is_deleted,
    key_of,
    kind_of,
    set_conditions,
)
from support.crossplane.remote import NoMatch, RemoteCluster
from support.crossplane.schemas import OBJECTS
from support.crossplane.simulation import DONE, Result, Simulation
from support.plain_objects import copied

OBJECT = Kind(OBJECTS, "Object")
CLUSTER_PROVIDER_CONFIG = Kind(OBJECTS, "ClusterProviderConfig")
PROVIDER_CONFIG = Kind(OBJECTS, "ProviderConfig")
USAGE = Kind(OBJECTS, "ProviderConfigUsage")
_FINALIZER = "finalizer.managedresource.crossplane.io"
_IN_USE = "in-use.crossplane.io"
_EXTERNAL_NAME = "crossplane.io/external-name"
_PENDING = "crossplane.io/external-create-pending"
_SUCCEEDED = "crossplane.io/external-create-succeeded"
_FAILED = "crossplane.io/external-create-failed"
_PROVIDER = "crossplane-kubernetes-provider"
_EVERYTHING = ["*"]


class ProviderError(Exception):
    """Why an Object could not be brought in step."""


class ProviderKubernetes:
    """Reconciles Objects."""

    first_delay = 1.0
    longest_delay = 60.0
    workers = 100
    poll_s = 600.0
    poll_unready_s = 30.0

    def __init__(
        self, simulation: Simulation, api: ApiServer, cluster_at: Callable[[str], RemoteCluster | None]
    ) -> None:
        self._simulation = simulation
        self._api = api
        self._cluster_at = cluster_at
        self.watches = True
        """Whether the provider was started with watches, for the Objects that ask to be watched."""
        self._answered: dict[tuple[Key, str], float] = {}
        self._watched: dict[tuple[str, Key], set[Key]] = {}

    def wakes(self, event: Event) -> Iterable[Key]:
        """Return the Object that changed in what is wanted of it; not in its status."""
        if event.key.of != OBJECT:
            return []
        if event.change is not Change.MODIFIED or event.old is None:
            return [event.key]
        return [event.key] if _wanted(event.old.object) != _wanted(event.new.object) else []

    def remote_changed(self, cluster: str, key: Key) -> Iterable[Key]:
        """Return the Objects that watch an object of another cluster."""
        return sorted(self._watched.get((cluster, key), ())) if self.watches else []

    def reconcile(self, key: Key) -> Result:
        """Bring what an Object describes in step with it."""
        item = self._api.get(key)
        if item is None:
            return DONE
        try:
            return self._reconcile(key, item)
        except ApiError as error:
            if error.reason in ("Conflict", "NotFound"):
                return Result(again=True)
            raise

    def _reconcile(self, key: Key, item: Object) -> Result:
        policies = item["spec"].get("managementPolicies", _EVERYTHING)
        deletes = bool({"*", "Delete"} & set(policies))
        if is_deleted(item) and not deletes:
            return self._finalized(item)
        item = self._named(item)
        try:
            cluster = self._connected(item)
        except ProviderError as error:
            return self._unsynced(item, f"connect failed: {error}")
        if (wait := self._wait(item, cluster)) > 1e-6:
            return Result(after=wait)
        if not is_deleted(item) and (problem := self._resolved(item)):
            return self._unsynced(item, f"observe failed: cannot resolve resource references: {problem}")
        manifest = _manifest(item)
        # The watch begins before the first look, so what is not there yet is watched too, once its kind is.
        if item["spec"].get("watch") and cluster.serves(manifest):
            self._watched.setdefault((cluster.name, key_of(manifest)), set()).add(key)
        try:
            found = cluster.get(manifest)
        except (ApiError, ConnectionError, NoMatch) as error:
            return self._unsynced(item, f"observe failed: cannot get object: {error}")
        if found is not None:
            self._report(item, found)
            try:
                cluster.dry_run(manifest, _owner(item))
            except (ApiError, ConnectionError, NoMatch) as error:
                why = f"cannot get desired state: cannot dry run SSA: {error}"
                return self._unsynced(item, f"observe failed: {why}")
        if found is None and policies == ["Observe"]:
            return self._unsynced(item, "observe failed: external resource does not exist")
        if is_deleted(item):
            return self._deleted(item, cluster, manifest, found)
        item = self._held(item)
        if found is None and {"*", "Create"} & set(policies):
            return self._created(item, cluster, manifest)
        return self._in_step(item, cluster, manifest, found)

    def _named(self, item: Object) -> Object:
        annotations = item["metadata"].setdefault("annotations", {})
        if _EXTERNAL_NAME in annotations:
            return item
        annotations[_EXTERNAL_NAME] = item["metadata"]["name"]
        return self._api.update(item, _PROVIDER)

    def _held(self, item: Object) -> Object:
        finalizers = item["metadata"].setdefault("finalizers", [])
        if _FINALIZER in finalizers:
            return item
        finalizers.append(_FINALIZER)
        # The answer says nothing of a status that was not written yet, so what was observed is not lost.
        held = {**self._api.update(item, _PROVIDER), "status": item.get("status", {})}
        self._hold_references(held)
        return held

    def _connected(self, item: Object) -> RemoteCluster:
        reference = item["spec"]["providerConfigRef"]
        if reference["kind"] not in (CLUSTER_PROVIDER_CONFIG.name, PROVIDER_CONFIG.name):
            raise ProviderError(
                f"cannot get provider config: unknown provider config kind: {reference['kind']}"
            )
        self._track(item, reference)
        config = self._api.get(_config(reference, item["metadata"]["namespace"]))
        if config is None:
            named = f'{reference["kind"]}.{OBJECTS} "{reference["name"]}"'
            raise ProviderError(f"cannot get provider config: {named} not found")
        server = self._server(config["spec"]["credentials"])
        cluster = self._cluster_at(server)
        if cluster is None:
            raise ProviderError(f"cannot build kube client for provider config: no such host: {server}")
        return cluster

    def _server(self, credentials: Object) -> str:
        building = "cannot build kube client for provider config"
        if credentials["source"] != "Secret":
            raise ProviderError(f"{building}: source {credentials['source']} is not known here")
        where = credentials["secretRef"]
        secret = self._api.get(Key("", "Secret", where["namespace"], where["name"]))
        if secret is None:
            raise ProviderError(
                f'{building}: cannot get credentials secret: Secret "{where["name"]}" not found'
            )
        server = _server_of(secret.get("data", {}).get(where["key"], ""))
        if not server:
            raise ProviderError(f"{building}: cannot create new client from config: invalid configuration")
        return server

    def _track(self, item: Object, config: Object) -> None:
        metadata = item["metadata"]
        key = Key(*USAGE, metadata["namespace"], metadata["uid"])
        if self._api.stored(key) is not None:
            return
        usage = {
            "apiVersion": item["apiVersion"],
            "kind": USAGE.name,
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "labels": {"crossplane.io/provider-config": config["name"]},
                "ownerReferences": [
                    {
                        "apiVersion": item["apiVersion"],
                        "kind": item["kind"],
                        "name": metadata["name"],
                        "uid": metadata["uid"],
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "providerConfigRef": {"kind": config["kind"], "name": config["name"]},
            "resourceRef": {
                "apiVersion": item["apiVersion"],
                "kind": item["kind"],
                "name": metadata["name"],
            },
        }
        try:
            self._api.create(usage, _PROVIDER)
        except ApiError as error:
            raise ProviderError(f"cannot track ProviderConfig usage: {error}") from error

    def _resolved(self, item: Object) -> str:
        """Take over what an Object names of others; return why one cannot be read.

        What is taken over stands in the Object's manifest from its next update on.
        """
        for reference in item["spec"].get("references", ()):
            named = reference.get("patchesFrom") or reference["dependsOn"]
            if named["kind"] == "Secret" and not named.get("namespace"):
                missing = "an empty namespace may not be set when a resource name is provided"
                return f"cannot get referenced resource: {missing}"
            other = self._api.get(_referenced(named))
            if other is None:
                return f'cannot get referenced resource: {named["kind"]} "{named["name"]}" not found'
            if "patchesFrom" not in reference:
                continue
            path = named["fieldPath"]
            try:
                taken = _read(other, path)
            except KeyError:
                return f"cannot patch from referenced resource: {path}: no such field"
            _write(item["spec"]["forProvider"]["manifest"], reference.get("toFieldPath", path), taken)
        return ""

    def _hold_references(self, item: Object) -> None:
        for reference in item["spec"].get("references", ()):
            other = self._api.get(_referenced(reference.get("patchesFrom") or reference["dependsOn"]))
            if other is not None:
                finalizer = f"kubernetes.crossplane.io/referred-by-object-{item['metadata']['uid']}"
                other["metadata"].setdefault("finalizers", []).append(finalizer)
                self._api.update(other, _PROVIDER)

    def _let_go_references(self, item: Object) -> None:
        for reference in item["spec"].get("references", ()):
            other = self._api.get(_referenced(reference.get("patchesFrom") or reference["dependsOn"]))
            finalizer = f"kubernetes.crossplane.io/referred-by-object-{item['metadata']['uid']}"
            if other is not None and finalizer in other["metadata"].get("finalizers", ()):
                other["metadata"]["finalizers"].remove(finalizer)
                self._api.update(other, _PROVIDER)

    def _wait(self, item: Object, cluster: RemoteCluster) -> float:
        """Return how long a slow cluster still takes to answer what is wanted of it now."""
        if not cluster.latency_s:
            return 0.0
        state = (key_of(item), json.dumps(_wanted(item), sort_keys=True))
        now = self._api.clock.now
        return max(0.0, self._answered.setdefault(state, now + cluster.latency_s) - now)

    # What comes of it

    def _created(self, item: Object, cluster: RemoteCluster, manifest: Object) -> Result:
        now = str(self._api.clock)
        item["metadata"]["annotations"][_PENDING] = now
        item = self._api.update(item, _PROVIDER)
        try:
            cluster.apply(manifest, _owner(item))
        except (ApiError, ConnectionError, NoMatch) as error:
            item["metadata"]["annotations"][_FAILED] = now
            item = self._api.update(item, _PROVIDER)
            return self._unsynced(item, f"create failed: cannot create object: {error}", creating=True)
        # What creating told of the object may be lost in the answer to the next update.
        item["metadata"]["annotations"][_SUCCEEDED] = now
        item = self._api.update(item, _PROVIDER)
        self._write_status(item, _creating(), _synced(item))
        return Result(again=True)

    def _in_step(
        self, item: Object, cluster: RemoteCluster, manifest: Object, found: Object | None
    ) -> Result:
        policies = set(item["spec"].get("managementPolicies", _EVERYTHING))
        passive = not policies & {"*", "Create", "Update"}
        if passive or found is None or cluster.is_as(manifest, _owner(item)):
            if item["spec"].get("readiness", {}).get("policy", "SuccessfulCreate") == "SuccessfulCreate":
                set_conditions(item, [_available()], str(self._api.clock))
        elif policies & {"*", "Update"}:
            try:
                self._report(item, cluster.apply(manifest, _owner(item)))
            except (ApiError, ConnectionError, NoMatch) as error:
                return self._unsynced(item, f"update failed: cannot apply object: {error}")
        self._write_status(item, _synced(item))
        ready = condition(item, "Ready").get("status") == "True"
        return Result(after=self.poll_s if ready else self.poll_unready_s)

    def _deleted(
        self, item: Object, cluster: RemoteCluster, manifest: Object, found: Object | None
    ) -> Result:
        if len(item["metadata"].get("finalizers", ())) > 1:
            return Result(again=True)
        if found is None:
            return self._finalized(item)
        try:
            cluster.delete(manifest, item["spec"]["forProvider"]["deletionPropagationPolicy"])
        except (ApiError, ConnectionError, NoMatch) as error:
            return self._unsynced(item, f"delete failed: cannot delete object: {error}")
        self._write_status(item, {"type": "Ready", "status": "False", "reason": "Deleting"}, _synced(item))
        return Result(again=True)

    def _finalized(self, item: Object) -> Result:
        self._let_go_references(item)
        finalizers = item["metadata"].get("finalizers", [])
        if _FINALIZER in finalizers:
            finalizers.remove(_FINALIZER)
            self._api.update(item, _PROVIDER)
        return DONE

    def _unsynced(self, item: Object, message: str, creating: bool = False) -> Result:
        failed = {
            "type": "Synced",
            "status": "False",
            "reason": "ReconcileError",
            "message": message,
            "observedGeneration": item["metadata"]["generation"],
        }
        self._write_status(item, *([_creating()] if creating else []), failed)
        return Result(again=True)

    def _report(self, item: Object, found: Object) -> None:
        item.setdefault("status", {}).setdefault("atProvider", {})["manifest"] = copied(found)
        readiness = item["spec"].get("readiness", {})
        policy = readiness.get("policy", "SuccessfulCreate")
        if policy == "SuccessfulCreate":
            return
        conditions = found.get("status", {}).get("conditions", ())
        message = ""
        if policy == "DeriveFromObject":
            ready = condition(found, "Ready").get("status") == "True"
        elif policy == "AllTrue":
            ready = bool(conditions) and all(each["status"] == "True" for each in conditions)
        else:
            ready, message = _answer(readiness.get("celQuery", ""), found)
        told = _available() if ready else {"type": "Ready", "status": "False", "reason": "Unavailable"}
        set_conditions(item, [{**told, "message": message}], str(self._api.clock))

    def _write_status(self, item: Object, *conditions: Object) -> None:
        set_conditions(item, conditions, str(self._api.clock))
        self._api.update_status(item, _PROVIDER)


class ProviderConfigs:
    """Counts who uses a provider configuration, and holds it while anybody does."""

    first_delay = 1.0
    longest_delay = 60.0
    workers = 1

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    def wakes(self, event: Event) -> Iterable[Key]:
        """Return the config that changed, or whose use did."""
        if event.key.of == USAGE:
            return [_config(event.new.object["providerConfigRef"], event.key.namespace)]
        return [event.key] if event.key.of in (CLUSTER_PROVIDER_CONFIG, PROVIDER_CONFIG) else []

    def reconcile(self, key: Key) -> Result:
        """Count the users; let go a config that is deleted and has none."""
        config = self._api.get(key)
        if config is None:
            return DONE
        users = sum(
            _config(usage["providerConfigRef"], usage["metadata"]["namespace"]) == key
            for usage in self._api.of(USAGE)
        )
        finalizers = config["metadata"].setdefault("finalizers", [])
        if is_deleted(config):
            if not users and _IN_USE in finalizers:
                finalizers.remove(_IN_USE)
                self._api.update(config, _PROVIDER)
            return DONE
        if _IN_USE not in finalizers:
            finalizers.append(_IN_USE)
        config = self._api.update(config, _PROVIDER)
        config.setdefault("status", {})["users"] = users
        self._api.update_status(config, _PROVIDER)
        return DONE


@cache
def _server_of(kubeconfig: str) -> str:
    """Return the API server of a kubeconfig as a Secret holds it; nothing where it makes no sense."""
    try:
        return str(
            yaml.load(base64.b64decode(kubeconfig), yaml.CSafeLoader)["clusters"][0]["cluster"]["server"]
        )
    except (KeyError, TypeError, IndexError, binascii.Error, yaml.YAMLError):
        return ""


def _config(reference: Object, namespace: str) -> Key:
    """Return the key of the provider configuration that an object of a namespace uses."""
    is_shared = reference["kind"] == CLUSTER_PROVIDER_CONFIG.name
    return Key(OBJECTS, reference["kind"], "" if is_shared else namespace, reference["name"])


def _wanted(item: Object) -> Any:
    metadata = item["metadata"]
    return [item["spec"], metadata.get("labels"), metadata.get("annotations"), is_deleted(item)]


def _manifest(item: Object) -> Object:
    manifest: Object = copied(item["spec"]["forProvider"]["manifest"])
    manifest.setdefault("metadata", {}).setdefault("name", item["metadata"]["name"])
    return manifest


def _referenced(named: Object) -> Key:
    return Key(*kind_of(named["apiVersion"], named["kind"]), named.get("namespace", ""), named["name"])


def _read(item: Object, path: str) -> Any:
    for step in _steps(path):
        item = item[step]
    return item


def _write(item: Object, path: str, value: Any) -> None:
    *above, last = _steps(path)
    for step in above:
        item = item.setdefault(step, {})
    item[last] = value


def _steps(path: str) -> list[str]:
    """Return the names in a path of fields such as ``data[token]`` or ``metadata.labels``."""
    return [
        step for part in path.split("[") for step in ([part[:-1]] if part.endswith("]") else part.split("."))
    ]


def _owner(item: Object) -> str:
    return f"provider-kubernetes/{item['metadata']['name']}"


def _answer(query: str, found: Object) -> tuple[bool, str]:
    if not query:
        return False, "cel query cannot be empty"
    try:
        answer = _program(query).eval(data={"object": found})
    except (RuntimeError, ValueError, TypeError) as error:
        return False, f"failed to eval the program: {error}"
    if answer.type().name() != "BOOL":
        return False, f"failed to eval the program: {answer}"
    return answer.value() is True, ""


@cache
def _program(query: str) -> Any:
    return cel.NewEnv(variables={"object": cel.Type.DYN}).compile(query)


def _available() -> Object:
    return {"type": "Ready", "status": "True", "reason": "Available"}


def _creating() -> Object:
    return {"type": "Ready", "status": "False", "reason": "Creating"}


def _synced(item: Object) -> Object:
    generation = item["metadata"]["generation"]
    return {
        "type": "Synced",
        "status": "True",
        "reason": "ReconcileSuccess",
        "observedGeneration": generation,
    }
