"""Laws of ``modelplane validate``: whatever a file holds, each answer is one line, soon, and no traceback."""

import json
from contextlib import suppress

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from modelplane.offline.files.tree import Document, parse_documents
from modelplane.offline.files.yaml_text import NotFinite, resolve, to_yaml
from modelplane.offline.plan.fleet_of_files import assemble
from modelplane.offline.plan.placements import plan
from modelplane.offline.render.rendering import render
from modelplane.user_error import UserError
from support.manifests import CLASS, DEPLOYMENT, cluster, loaded, validated

MANIFESTS = [next(yaml.safe_load_all(text)) for text in (DEPLOYMENT, CLASS, cluster("west"))]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
    st.sampled_from(["y", "on", "1e3", "0o7", "{}", "- a", "modelplane.ai/x", "device.driver == 1", "80Gi"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
YAML_WORDS = st.sampled_from(
    [
        *(
            "a",
            "- ",
            ": ",
            "\n",
            "  ",
            "\t",
            "{",
            "}",
            "[",
            "]",
            "&a ",
            "*a",
            "<<: *a",
            "|\n",
            ">-\n",
            "'",
            '"',
        ),
        *("#", "---\n", "...\n", "%YAML 1.1\n", "!!int ", "? ", ",", "\x00", "kind: List\n", "items:\n"),
        *("apiVersion: modelplane.ai/v1alpha1\n", "kind: ModelDeployment\n", "metadata: {name: x}\n"),
        "spec:\n",
    ]
)


def check(content):
    found = validated(content)
    for problem in found.problems:
        line = str(problem)
        assert "\n" not in line
        assert line.isprintable()
        assert problem.message
        assert problem.line == 0 or (problem.line > 0 and problem.column > 0)
    assert found.valid == (not any(problem.severity == "error" for problem in found.problems))
    return found


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_judged(content):
    check(content)


@settings(deadline=None)
@given(st.lists(YAML_WORDS, max_size=40).map("".join))
def test_any_pieces_of_yaml_are_judged(text):
    check(text.encode())


@st.composite
def mutated(draw):
    """A valid manifest of which a few values are others, missing, or have another name."""
    manifest = json.loads(json.dumps(draw(st.sampled_from(MANIFESTS))))
    for _ in range(draw(st.integers(1, 3))):
        target = manifest
        while True:
            keys = list(target) if isinstance(target, dict) else list(range(len(target)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(target[key], dict | list) and target[key] and draw(st.booleans()):
                target = target[key]
                continue
            change = draw(st.sampled_from(["replace", "remove", "rename", "move"]))
            if change == "replace":
                target[key] = draw(VALUES)
            elif change == "remove":
                del target[key]
            elif isinstance(target, dict):
                value = target.pop(key)
                (manifest if change == "move" else target)[draw(TEXTS) if change == "rename" else key] = value
            break
    return manifest


@settings(deadline=None)
@given(mutated())
def test_a_manifest_with_mistakes_is_judged_object_by_object(manifest):
    found = check(json.dumps(manifest).encode())
    kind, name = manifest.get("kind"), manifest.get("metadata")
    if (
        found.summary.objects
        and isinstance(name, dict)
        and isinstance(name.get("name"), str)
        and name["name"]
    ):
        assert all(problem.object.kind == kind for problem in found.problems)


@settings(deadline=None)
@given(st.lists(mutated(), min_size=1, max_size=3), st.booleans())
def test_what_is_accepted_can_be_planned_and_rendered(manifests, printed):
    if printed:
        for manifest in manifests:
            if isinstance(manifest.get("metadata"), dict):
                manifest["metadata"]["uid"] = "1"  # a server has it, so it is not checked again
    found = loaded("".join(f"---\n{json.dumps(manifest)}\n" for manifest in (*MANIFESTS, *manifests)))
    with suppress(UserError):
        files = assemble(found.objects)
        plan(files, files.deployments)
    for item in found.objects:
        with suppress(UserError):
            render((item,), (), found.objects)


@settings(deadline=None)
@given(st.dictionaries(TEXTS.filter(bool), VALUES, max_size=4))
def test_what_render_prints_is_read_back_as_it_was(value):
    [document] = parse_documents(to_yaml(value))
    assert isinstance(document, Document)
    assert document.node.to_plain() == _as_json_carries_it(value)


def _as_json_carries_it(value):
    if isinstance(value, dict):
        return {key: _as_json_carries_it(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_as_json_carries_it(child) for child in value]
    if isinstance(value, float) or (isinstance(value, int) and not -(2**63) <= value < 2**64):
        return pytest.approx(value)
    return value


@settings(deadline=None)
@given(st.from_regex(r"[-+.0-9_eExXoObB:yYnNtTfFa-f]{0,12}", fullmatch=True))
def test_a_word_is_a_text_or_something_that_json_carries(text):
    try:
        value = resolve(text)
    except NotFinite:
        return
    assert json.loads(json.dumps(value, allow_nan=False)) == value
