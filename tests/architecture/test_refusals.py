"""One refusal: a check returns ``Rejected | None``, and no function returns an empty text for "fine"."""

import ast
import functools
from pathlib import Path
from typing import Final

from architecture.empty_texts import find_empty_texts

ROOT: Final = Path(__file__).parents[2]

KINDS_OF_NO: Final = {
    "modelplane.api.rejected.Rejected": "what does not pass a check, why, and what to do",
    "modelplane.compose.composition.Blocked": "no decision is possible, because an input is unknown",
    "modelplane.kubelet.cannot_start.CannotStart": "the exception that carries a rejection to a pod's status",
}
"""The types for "no", with what each is for."""

_NAMES: Final = (
    "Rejected", "Refus", "Misfit", "Blocked", "NotYet", "Cannot", "Unclear", "Unsizable", "Unwritable",
    "Unresolvable", "Unplannable",
)  # fmt: skip

EMPTY: Final = {
    "a status shows an address, an id or a name as an empty text until it is known": (
        "api.inference_cluster.find_region",
        "compose.clouds.eks.find_file_system",
        "compose.clouds.gke.find_project",
        "compose.clouds.site.text",
        "compose.cluster.inference_cluster._cache_storage",
        "compose.cluster.inference_cluster._gateway_address",
        "compose.gateway.fleet_gateway.proxy",
        "compose.gateway.inference_gateway._address",
        "compose.service.model_service._address",
        "compose.serving_stack.cluster_gateway.address",
        "compose.serving_stack.stack_flow._address",
        "crossplane.function.requirements.backend_of_leaving",
        "install.registration.observed.read_text",
    ),
    "the text of a file, of which an empty one is the same as none": (
        "proxy.interface.read_former",
        "proxy.proxies.read_former",
    ),
    "the sentence of a diagnosis, which stands in another text": (
        "scheduler.diagnosis.describe",
        "scheduler.preemption.describe",
    ),
}
"""Functions that return an empty text which a caller asks for truth, by the reason."""


@functools.cache
def _trees() -> dict[str, ast.Module]:
    paths = sorted((ROOT / "src/modelplane").rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def test_no_function_returns_an_empty_text_for_fine() -> None:
    found = {name.removeprefix("modelplane.") for name in find_empty_texts(_trees())}
    assert found == {name for names in EMPTY.values() for name in names}


def test_there_are_two_types_for_no() -> None:
    found = {
        f"{path.removeprefix('src/').removesuffix('.py').replace('/', '.')}.{node.name}"
        for path, tree in _trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name.lstrip("_").startswith(_NAMES)
    }
    assert found == set(KINDS_OF_NO)


def test_an_empty_text_for_fine_is_found() -> None:
    checks = ast.parse(
        "def check(x) -> str:\n    return 'no' if x else ''\n"
        "def passed_on(x) -> str:\n    return check(x)\n"
        "def label(x) -> str:\n    return x or ''\n"
    )
    caller = ast.parse(
        "from modelplane.a import passed_on, label\n"
        "def act(x):\n    if problem := passed_on(x):\n        return problem\n    return f'{label(x)}'\n"
    )
    found = find_empty_texts({"src/modelplane/a.py": checks, "src/modelplane/b.py": caller})
    assert found == {"modelplane.a.passed_on": "modelplane.b"}
