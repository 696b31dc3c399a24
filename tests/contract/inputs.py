"""What the command line is asked: calls for every example, every golden input, and a few more.

Input files are copied or split into one folder, so that every path in a call is relative and says nothing of
the machine.
"""

import copy
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from contract.golden_cases import golden_cases

CHILD = "modelplane.ai/child"
GROUP = "modelplane.ai"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One call: the record that it belongs to, the arguments, and what standard input holds."""

    record: str
    arguments: tuple[str, ...]
    input: str = ""


@dataclass(frozen=True, slots=True)
class Scratch:
    """The folder that calls are made in."""

    root: Path

    def write(self, path: str, objects: Iterable[Object]) -> str:
        """Write objects as a file; return its path as calls name it."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(yaml.dump_all(objects, Dumper=yaml.CSafeDumper, sort_keys=False), encoding="utf-8")
        return path


@dataclass(frozen=True, slots=True)
class Folder:
    """The manifests of one folder of examples, by path."""

    files: dict[str, list[Object]]
    around: dict[str, list[Object]] = field(default_factory=dict)
    """Those of the folder above, where this one has no cluster."""

    def fleet(self) -> Iterator[str]:
        """Yield the files that hold no deployment."""
        for path, objects in (self.around | self.files).items():
            if not any(item["kind"] == "ModelDeployment" for item in objects):
                yield path


def calls(checkout: Path, scratch: Scratch) -> list[Call]:
    """Return every call for a checkout, and write the files that they read."""
    shutil.copytree(checkout / "examples", scratch.root / "examples")
    return [*_examples(scratch), *_goldens(checkout, scratch), *_wrong(scratch), *_installing(), *_others()]


def _documents(path: Path) -> list[Object]:
    return [each for each in yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader) if each]


def _folders(root: Path) -> Iterator[tuple[str, Folder]]:
    found: dict[Path, dict[str, list[Object]]] = {}
    for path in sorted(root.glob("examples/**/*.yaml")):
        found.setdefault(path.parent, {})[str(path.relative_to(root))] = _documents(path)
    for folder, files in found.items():
        clusters = any(item["kind"] == "InferenceCluster" for each in files.values() for item in each)
        around = {} if clusters else found.get(folder.parent, {})
        yield str(folder.relative_to(root)), Folder(files, around)


def _examples(scratch: Scratch) -> Iterator[Call]:
    for record in ("text", "json"):
        yield Call("examples", ("validate", "examples", "-o", record))
    for name, folder in _folders(scratch.root):
        yield from _placed(name, tuple(folder.files), ())
        for path, objects in folder.files.items():
            fleet = tuple(each for each in folder.fleet() if each != path)
            yield from _validated(path, path)
            if any(item["kind"] == "ModelDeployment" for item in objects):
                yield from _placed(path, (path,), fleet)
            for number, item in enumerate(objects):
                beside = [*objects[:number], *objects[number + 1 :]]
                if not _ours(item):
                    continue
                owner = scratch.write(f"split/{path}/{number}.yaml", [item])
                rest = scratch.write(f"split/{path}/{number}-beside.yaml", beside) if beside else ""
                others = (*(each for each in folder.files if each != path), *filter(None, (rest,)))
                yield from _rendered(path, owner, required=(*others, *folder.around))
                if item["kind"] == "ModelDeployment":
                    yield from _explained(path, item, (*fleet, path))


def _ours(item: Object) -> bool:
    return str(item["apiVersion"]).partition("/")[0].endswith(GROUP)


def _validated(record: str, path: str) -> Iterator[Call]:
    yield Call(record, ("validate", path))
    yield Call(record, ("validate", path, "-o", "json"))


def _placed(record: str, paths: tuple[str, ...], fleet: tuple[str, ...]) -> Iterator[Call]:
    arguments = ("plan", *paths, *_each("--fleet", fleet))
    yield Call(record, arguments)
    yield Call(record, (*arguments, "--all"))
    yield Call(record, (*arguments, "-o", "json"))


def _explained(record: str, item: Object, fleet: tuple[str, ...]) -> Iterator[Call]:
    metadata = item["metadata"]
    arguments = ("explain", f"md/{metadata['name']}", *_each("--fleet", fleet))
    yield Call(record, arguments)
    yield Call(record, (*arguments, "--all", "-n", metadata.get("namespace", "default")))
    yield Call(record, (*arguments, "-o", "json"))


def _rendered(
    record: str, owner: str, observed: str = "", required: tuple[str, ...] = (), address: str = ""
) -> Iterator[Call]:
    arguments = ("render", owner, *_each("--observed", filter(None, (observed,))))
    arguments = (
        *arguments,
        *_each("--required", required),
        *_each("--gateway-address", filter(None, (address,))),
    )
    yield Call(record, arguments)
    yield Call(record, (*arguments, "-o", "json"))


def _each(option: str, values: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for value in values for word in (option, value))


def _goldens(checkout: Path, scratch: Scratch) -> Iterator[Call]:
    for name, (case, _) in golden_cases(checkout).items():
        record = f"golden/{name}"
        owner = scratch.write(f"{record}/owner.yaml", [case["owner"]])
        children = [_keyed(key, child) for key, child in case.get("observed", {}).items()]
        lists = (found for found in case.get("required", {}).values() if isinstance(found, list))
        beside = [item for found in lists for item in found]
        observed = scratch.write(f"{record}/observed.yaml", children) if children else ""
        required = (scratch.write(f"{record}/required.yaml", beside),) if beside else ()
        yield from _validated(record, owner)
        yield from _rendered(record, owner, observed, required, case.get("gatewayAddress", ""))
        if case["owner"]["kind"] == "ModelDeployment":
            yield from _placed(record, (owner,), required)
            fleet = (*required, *filter(None, (observed,)), owner)
            yield from _explained(record, case["owner"], fleet)


def _keyed(key: str, child: Object) -> Object:
    child = copy.deepcopy(child)
    child.setdefault("metadata", {}).setdefault("annotations", {})[CHILD] = key
    return child


def _wrong(scratch: Scratch) -> Iterator[Call]:
    """Yield what is said of manifests with one mistake each, for every field in the reference's examples."""
    for path in sorted(scratch.root.glob("examples/reference/*.yaml")):
        objects = [mistaken for item in _documents(path) if _ours(item) for mistaken in _mistakes(item)]
        if not objects:
            continue
        record = f"wrong/{path.stem}"
        yield from _validated(record, scratch.write(f"{record}.yaml", objects))
        yield from _rendered(record, scratch.write(f"{record}-first.yaml", objects[:1]))
        yield Call(record, ("plan", f"{record}.yaml"))
    yield Call("wrong/input", ("validate", "-"))
    yield Call("wrong/input", ("validate", "-"), "a: [")
    yield Call("wrong/input", ("validate", "-"), "apiVersion: v1\nkind: Pod\n")
    yield Call("wrong/input", ("validate", "gone.yaml"))
    yield Call("wrong/input", ("plan", "examples/concepts/model-service.yaml"))
    yield Call("wrong/input", ("render", "examples/concepts/inference-class-eks-l4.yaml"))
    yield Call("wrong/input", ("explain", "md/none", "--fleet", "examples/deploying-models/fleet.yaml"))


def _mistakes(item: Object) -> Iterator[Object]:
    places: list[tuple[str | int, ...]] = [("spec",), *_fields(("spec",), item.get("spec", {}))]
    for number, place in enumerate(places):
        for mistake in ("gone", "unknown", "wrong"):
            changed = copy.deepcopy(item)
            changed["metadata"]["name"] = f"{mistake}-{number}"
            around: Any = changed
            for step in place[:-1]:
                around = around[step]
            if mistake == "gone":
                del around[place[-1]]
            elif mistake == "unknown" and isinstance(around, dict):
                around["unheardOf"] = True
            else:
                around[place[-1]] = {"of": ["another", "type"]}
            yield changed


def _fields(place: tuple[str | int, ...], value: Any) -> Iterator[tuple[str | int, ...]]:
    inner: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = list(enumerate(value))[:1]
    for step, each in inner:
        yield (*place, step)
        yield from _fields((*place, step), each)


_IMAGE = ("--image", "registry.example/modelplane:1")

_INSTALL = (
    (),
    ("--inference-cluster",),
    ("--inference-cluster", "--crossplane"),
    ("--image", "registry.example/modelplane:1", "--replicas", "3"),
    (*_IMAGE, "--gateway-service-type", "NodePort", "--gateway-annotation", "example.org/internal=true"),
    (*_IMAGE, "--gateway-service-type", "ClusterIP", "--no-network-policy", "--service-monitor"),
    (
        *_IMAGE,
        "--team-namespace",
        "ml-team",
        "--team-namespace",
        "research",
        "--monitoring-namespace",
        "observing",
    ),
    ("--dry-run",),
    ("--upgrade",),
    ("--inference-cluster", "--apply"),
    ("--crossplane",),
    ("--gateway-annotation", "no-value"),
)
"""Of every option of ``install``, both ways; --help shows an option that is missing here."""


def _installing() -> Iterator[Call]:
    for number, options in enumerate(_INSTALL):
        yield Call(f"install/{number}", ("install", *options))
    yield Call("package/prerequisites", ("package", "prerequisites"))
    for options in ((), ("--version", "v1.2.3", "--registry", "registry.example/ai")):
        yield Call("package/configuration", ("package", "build", "configuration", *options))
    yield Call("package/configuration", ("package", "build", "configuration", "--version", "one"))


def _others() -> Iterator[Call]:
    """Yield what commands for a fleet say where there is none."""
    for command in (("status",), ("kubeconfig",), ("logs",), ("down",), ("chat", "gemma")):
        yield Call("no-fleet", (*command, "--home", "home"))
