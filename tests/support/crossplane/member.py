"""A cluster whose API server is real: the provider's requests reach it under an identity of its own.

The controllers of charts, the scheduler and kubelets are missing there: ``work`` does what they do.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx2
import yaml
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import KubeConfig

from modelplane.api.meta import GATEWAY_NAME
from modelplane.compose.workload_kinds import Place, rows
from modelplane.controllers.fleet_resources import of_row, resource_for
from modelplane.kube import resources
from modelplane.kube.resources import Resource
from support.crossplane.api import ApiError, ApiServer
from support.crossplane.objects import Object, is_deleted
from support.crossplane.remote import RemoteCluster, working
from support.third_party_crds import FOLDER

_KINDS = tuple(of_row(row) for row in rows(Place.CLUSTERS))
"""Every kind of children."""


_SAID = {"message": "it works", "lastTransitionTime": "2026-01-01T00:00:00Z"}


class Connection:
    """Requests to an API server under one identity, one after the other."""

    def __init__(self, kubeconfig: Path) -> None:
        single = KubeConfig.from_file(kubeconfig).get()
        assert single is not None
        parameters = ConnectionParams(timeout=httpx2.Timeout(30), trust_env=False)
        self._http = httpx2.Client(**parameters.httpx_params(single))

    def close(self) -> None:
        self._http.close()

    def ask(self, method: str, path: str, **options: Any) -> Object | None:
        """Return an answer; nothing where there is no such object. ``ApiError`` where it is refused."""
        response = self._http.request(method, path, **options)
        if response.status_code == 404 and method != "PATCH":
            return None
        said: Object = response.json()
        if response.status_code >= 400:
            raise ApiError(said.get("reason", ""), said["message"])
        return said

    def get(self, manifest: Object) -> Object | None:
        return self.ask("GET", path_of(manifest))

    def list(self, resource: Resource) -> list[Object]:
        """Return the objects of a kind; none where it is not served."""
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [kind | each for each in (self.ask("GET", resource.build_path()) or {"items": ()})["items"]]

    def apply(self, manifest: Object, manager: str, *, dry_run: bool = False) -> Object:
        """Apply by force, as a dry run or for good."""
        applied = self.ask(
            "PATCH",
            path_of(manifest),
            params={"fieldManager": manager, "force": "true"} | ({"dryRun": "All"} if dry_run else {}),
            content=yaml.safe_dump(manifest),
            headers={"Content-Type": "application/apply-patch+yaml"},
        )
        assert applied is not None
        return applied

    def report(self, item: Object, status: Object) -> None:
        """Write an object's status, where it differs."""
        if {**item.get("status", {}), **status} != item.get("status"):
            self.ask(
                "PATCH",
                f"{path_of(item)}/status",
                json={"status": status},
                headers={"Content-Type": "application/merge-patch+json"},
            )


class Member(RemoteCluster):
    """A real API server, as provider-kubernetes asks it: each look at what is there is a dry run too."""

    def __init__(self, name: str, api: ApiServer, provider: Connection, administrator: Connection) -> None:
        super().__init__(name, api)
        self._provider = provider
        self._administrator = administrator
        self.requests: defaultdict[str, set[str]] = defaultdict(set)
        """The requests that were answered for each kind."""
        self.refused: list[str] = []
        self._desired: set[str] = set()
        self._applied: set[str] = set()

    def get(self, manifest: Object) -> Object | None:
        self._map(manifest)
        self._note("get", manifest)
        return self._provider.get(manifest)

    def serves(self, manifest: Object) -> bool:
        group = manifest["apiVersion"]
        if "get" in self.requests[manifest["kind"]]:
            return True
        found = self._provider.ask("GET", f"/apis/{group}" if "/" in group else f"/api/{group}")
        return any(each["kind"] == manifest["kind"] for each in (found or {}).get("resources", ()))

    def dry_run(self, manifest: Object, _manager: str) -> None:
        # The provider keeps the answer for as long as the manifest is the same.
        state = json.dumps([manifest, _manager])
        if state not in self._desired:
            self._apply("dry run", manifest, _manager)
            self._desired.add(state)

    def apply(self, manifest: Object, manager: str) -> Object:
        self._map(manifest)
        exists = self._provider.get(manifest) is not None
        return self._apply("update" if exists else "create", manifest, manager)

    def is_as(self, manifest: Object, manager: str) -> bool:
        there = self._provider.get(manifest)
        if there is None:
            return False
        metadata = there["metadata"]
        state = json.dumps([manifest, manager, metadata.get("generation"), metadata.get("labels")])
        if state not in self._applied:
            wanted = self._apply("dry run", manifest, manager)
            if _compared(there, manager) != _compared(wanted, manager):
                return False
            self._applied.add(state)
        return True

    def delete(self, manifest: Object, propagation: str) -> None:
        self._note("delete", manifest)
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        try:
            self._provider.ask("DELETE", path_of(manifest), json=options)
        except ApiError as error:
            self.refused.append(f"delete {manifest['kind']}: {error}")
            raise

    def objects(self, kind: str) -> list[Object]:
        return [item for each in _KINDS if each.kind == kind for item in self._administrator.list(each)]

    def work(self) -> None:
        """Let everything work: pods run, those of Jobs to their end, and the rest has its controllers."""
        for resource in (*_KINDS, resources.PODS):
            for item in self._administrator.list(resource):
                status = _of_pod(item) if resource.kind == "Pod" else _complete(working(item))
                # Kubernetes' own controllers report of these.
                if status and not is_deleted(item) and resource.kind not in ("Deployment", "Job"):
                    self._administrator.report(item, status)

    def _apply(self, verb: str, manifest: Object, manager: str) -> Object:
        try:
            applied = self._provider.apply(manifest, manager, dry_run=verb == "dry run")
        except ApiError as error:
            self.refused.append(f"{verb} {manifest['kind']}: {error}")
            raise
        self._note(verb, manifest)
        return applied

    def _note(self, verb: str, manifest: Object) -> None:
        self.requests[manifest["kind"]].add(verb)


class Installer:
    """Who installs charts on a member, as its administrator."""

    reachable = True

    def __init__(self, administrator: Connection) -> None:
        self._administrator = administrator

    def apply(self, manifest: Object, manager: str) -> Object:
        return self._administrator.apply(manifest, manager)

    def define(self, name: str) -> None:
        plural, _, group = name.partition(".")
        [path] = FOLDER.glob(f"*/{group}_{plural}.yaml")
        self._administrator.apply(yaml.safe_load(path.read_text()), "helm")


def path_of(item: Object) -> str:
    metadata = item["metadata"]
    return resource_for(item["apiVersion"], item["kind"]).build_path(
        metadata.get("namespace"), metadata["name"]
    )


def _of_pod(pod: Object) -> Object:
    is_job = "job-name" in pod["metadata"].get("labels", {})
    ready = {"type": "Ready", "status": "False" if is_job else "True"}
    return {"phase": "Succeeded" if is_job else "Running", "conditions": [ready]}


def _complete(status: Object) -> Object:
    """Return a status with what a real API server asks of it."""
    filled = {**status}
    if "conditions" in status:
        filled["conditions"] = [{**_SAID, **each} for each in status["conditions"]]
    if "parents" in status:
        reference = {"parentRef": {"name": GATEWAY_NAME}}
        filled["parents"] = [{**reference, **_complete(each)} for each in status["parents"]]
    return filled


def _compared(item: Object, manager: str) -> Object:
    """Return an object as the provider compares it: with the fields that it owns, without their time."""
    fields = [
        each["fieldsV1"] for each in item["metadata"].get("managedFields", ()) if each["manager"] == manager
    ]
    return {**item, "metadata": {**item["metadata"], "managedFields": fields}}
