"""Pods narrowed to one container, which is all that a runtime sees of a pod. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from modelplane.kube.resources import Object


def list_containers(pod: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the containers of a pod: init containers and sidecars in their order, then the main ones."""
    return (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])


def select_container(pod: Object, name: str) -> Object:
    """Return a pod as if one of its containers were the only one.

    A volume in memory that several containers mount is one on disk then: memory that is mounted for one
    process is not seen by another.
    """
    every = list_containers(pod)
    if len(every) == 1:
        return pod
    spec = {key: value for key, value in pod["spec"].items() if key != "initContainers"}
    shared = set(_shared(every))
    volumes = [_on_disk(volume) if volume["name"] in shared else volume for volume in spec.get("volumes", ())]
    chosen = [container for container in every if container["name"] == name]
    return {**pod, "spec": {**spec, "containers": chosen, "volumes": volumes}}


def _shared(every: tuple[Mapping[str, Any], ...]) -> Iterator[str]:
    mounted = [{mount["name"] for mount in container.get("volumeMounts", ())} for container in every]
    return (name for name in set().union(*mounted) if sum(name in names for names in mounted) > 1)


def _on_disk(volume: Mapping[str, Any]) -> Mapping[str, Any]:
    if volume.get("emptyDir", {}).get("medium") != "Memory":
        return volume
    return {**volume, "emptyDir": {**volume["emptyDir"], "medium": ""}}
