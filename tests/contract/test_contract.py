"""The recorder of the contract notices a change in each part of it, and no move."""

import shutil
import subprocess
from pathlib import Path

import pytest

from contract.counts import counts
from contract.names import names
from contract.record import count_lines, differences, record
from support.checkouts import ROOT

KEPT = {"package", "docs/reference", "examples/concepts", "examples/reference/modelcaches.yaml"}
CODE = "src/**/*.py"
CASES = "tests/golden/composition/model_cache"
GOLDEN = f"{CASES}/partial.yaml"
BASE = f"{CASES}/an-attempt-that-failed-is-told-while-the-next-waits.yaml"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of this checkout with few examples and one golden case."""
    root = tmp_path_factory.mktemp("checkout")
    for path in (*KEPT, GOLDEN, BASE, "tests/golden/programs", "src"):
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / path).is_dir():
            shutil.copytree(ROOT / path, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / path, target)
    return root


@pytest.fixture(scope="module")
def before(checkout, tmp_path_factory):
    into = tmp_path_factory.mktemp("before") / "record"
    record(checkout, into)
    return into


@pytest.fixture
def changed(checkout):
    """Replace text in files of the copy while a test runs."""
    originals: dict[Path, str] = {}

    def change(pattern: str, old: str, new: str) -> None:
        texts = {file: file.read_text() for file in checkout.glob(pattern)}
        found = {file: text for file, text in texts.items() if old in text}
        assert found
        for file, text in found.items():
            originals.setdefault(file, text)
            file.write_text(text.replace(old, new))

    yield change
    for file, text in originals.items():
        file.write_text(text)


def _changed_files(before: Path, after: Path) -> set[str]:
    heads = (difference.splitlines()[0] for difference in differences(before, after))
    return {head.removeprefix("--- before/").strip() for head in heads}


def test_a_record_has_every_part(before):
    said = {
        str(path.relative_to(before)): path.read_text() for path in before.rglob("*.txt") if path.is_file()
    }
    assert "exit 1" in said["calls/wrong/modelcaches.txt"]
    assert "modelcache-ml-team-weights-124df" in said["calls/golden/model_cache/partial.txt"]
    assert "kind: CustomResourceDefinition" in said["calls/install/3.txt"]
    assert "sha256:" in said["calls/package/configuration.txt"]
    assert "--gateway-address" in said["commands/render.txt"]
    assert "--home" in said["commands/supervise.txt"]
    assert "modelplane_leader" in said["names/metrics.txt"].splitlines()
    assert {"modelplane.ai/remote-objects", "modelplane.ai/owner-uid"} <= set(
        said["names/keys.txt"].splitlines()
    )
    assert {"modelplane-controller", "modelplane-team-objects"} <= set(said["names/ours.txt"].splitlines())
    assert {"controller.kubeconfig", "{}.lock"} <= set(said["names/paths.txt"].splitlines())
    assert "{}-kubeconfig" in said["names/composed.txt"].splitlines()
    assert str(ROOT) not in "".join(said.values())


def test_what_is_recorded_twice_is_the_same(checkout, before, tmp_path):
    record(checkout, tmp_path / "again")
    assert list(differences(before, tmp_path / "again")) == []


def test_a_change_is_noticed_in_each_part(checkout, before, changed, tmp_path):
    changed(CODE, '"--gateway-address", default=', '"--gateway", default=')
    changed(CODE, '"modelplane.ai/modelcache"', '"modelplane.ai/cache"')
    changed(CODE, '"controller.kubeconfig"', '"manager.kubeconfig"')
    changed(CODE, '"modelplane_leader"', '"modelplane_leading"')
    changed("package/grafana/modelplane.json", "modelplane_leader", "modelplane_leading")
    changed("package/helm/modelplane/values.yaml", "replicas", "copies")
    changed("examples/concepts/model-cache.yaml", "name: ", "name: another-")
    changed(GOLDEN, "pvc-west", "pvc-south")
    record(checkout, tmp_path / "after")
    assert _changed_files(before, tmp_path / "after") >= {
        "commands/render.txt",
        "names/keys.txt",
        "names/paths.txt",
        "names/metrics.txt",
        "names/rendered labels.txt",
        "names/rendered objects.txt",
        "files/package/grafana/modelplane.json",
        "files/package/helm/modelplane/values.yaml",
        "calls/examples/concepts/model-cache.yaml.txt",
        "calls/golden/model_cache/partial.txt",
        "goldens/model_cache/partial.yaml",
    }


def test_other_code_than_the_checkouts_is_not_recorded(checkout, tmp_path):
    empty = tmp_path / "empty"
    shutil.copytree(checkout / "examples", empty / "examples")
    with pytest.raises(SystemExit, match="this would record the code of"):
        record(empty, tmp_path / "record")


def test_a_name_that_moves_to_another_module_is_the_same_name(tmp_path):
    for folder, module in (("before", "here/one"), ("after", "there/two")):
        path = tmp_path / folder / f"{module}.py"
        path.parent.mkdir(parents=True)
        path.write_text(
            '"""Of modelplane.ai/docs."""\n'
            f'from modelplane.{folder} import x\nM = "modelplane.{folder}.main"\n'
            'KEY = "modelplane.ai/key"\nNAME = f"{KEY}-kubeconfig"\nPATH = x / "settings.json"\n'
        )
    assert names(tmp_path / "before") == names(tmp_path / "after")
    assert names(tmp_path / "after") == {
        "metrics": [],
        "keys": ["modelplane.ai/key"],
        "ours": [],
        "composed": ["{}-kubeconfig"],
        "paths": ["settings.json"],
    }


def test_counts_name_the_tests_that_are_gone(tmp_path):
    test = tmp_path / "tests" / "test_one.py"
    test.parent.mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    test.write_text("def test_a():\n    assert 1\n\ndef test_b():\n    assert 2\n")
    before = counts(tmp_path)
    test.write_text("def test_a():\n    assert 1\n")
    assert list(count_lines(before, counts(tmp_path))) == [
        "cases: 2 before, 1 now",
        "assertions: 2 before, 1 now",
        "goldens: 0 before, 0 now",
        "lines of src: 0 before, 0 now",
        "  test_b: 1 before, none now",
    ]


def test_the_target_compares_with_a_commit():
    shown = subprocess.run(
        ("make", "-n", "contract", "BASE=v1"), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "contract.record --base v1" in shown.stdout
