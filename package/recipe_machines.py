# ruff: noqa: INP001  a module beside what it helps to write, not a package
"""The machines of each provider that serve a model with the fewest GPUs, from the catalogue."""

import functools
from collections.abc import Iterator
from typing import Final

from modelplane.catalogue.catalogue_files import load_catalogue
from modelplane.catalogue.inference_classes import build_class
from modelplane.sizing.hardware import Node, Served, describe_node, plan_service
from modelplane.sizing.memory import Load, Model

HEAD: Final = (
    "### On other machines",
    "",
    "For each provider, the table lists the [catalogue](../../../docs/how-to/hardware.md) machine type that",
    "needs the fewest GPUs for a sequence of the recipe's length, with vLLM's defaults. To print the class",
    "of a machine type, run `modelplane classes show CLASS`. If you use a different machine type, change the",
    "selectors, parallel sizes and numbers of devices in the manifests.",
    "",
    "| Provider | Class | GPUs per replica | Split | Model and context |",
    "|---|---|---|---|---|",
)

_OWN: Final = ""
_PROVIDERS: Final = ("EKS", "GKE", "AKS", "Nebius", "Vultr", _OWN)
_MOST_NODES: Final = 2


def rows(model: Model, load: Load, driver: str, what: str) -> Iterator[str]:
    """Yield a row for each provider with a machine that serves a model."""
    for provider in _PROVIDERS:
        found = [
            fit
            for each in _nodes(provider)
            if each.driver == driver
            and isinstance(fit := plan_service(model, each, load, _MOST_NODES), Served)
        ]
        if found:
            least = min(found, key=lambda each: (each.split.gpus, each.node.memory, each.node.name))
            class_, split = least.node.name, least.split
            cells = (
                provider or "own",
                f"`{class_}`",
                f"{split.gpus} {_title(class_)}",
                str(split),
                f"{what}, {load.context:,} tokens",
            )
            yield f"| {' | '.join(cells)} |"


@functools.cache
def _nodes(provider: str) -> tuple[Node, ...]:
    known = load_catalogue()
    found = (
        describe_node(build_class(known, each))
        for each in known.machines.values()
        if (each.cloud or _OWN) == provider
    )
    return tuple(each for each in found if each is not None and not each.is_partition)


def _title(class_: str) -> str:
    known = load_catalogue()
    return known.find_card(known.machines[class_]).title
