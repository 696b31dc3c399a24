"""What kstatus says of our objects is recorded, and is what the library says today."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.object_states import RECORD, recorded, states

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(
        shutil.which("go") is None, reason="the oracle is built with go, which is not on the PATH"
    ),
]
SOURCE = Path(__file__).parent / "kstatus"
UPDATE = "MODELPLANE_UPDATE_GOLDEN"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    binary = tmp_path_factory.mktemp("kstatus") / "kstatus"
    subprocess.run(["go", "build", "-o", str(binary), "."], cwd=SOURCE, check=True)
    return binary


def test_kstatus_is_as_recorded(program: Path) -> None:
    objects = states()
    asked = "".join(f"{json.dumps(each)}\n" for each in objects.values())
    done = subprocess.run([str(program)], input=asked, check=True, capture_output=True, text=True)
    answers = [json.loads(line)["status"] for line in done.stdout.splitlines()]
    found = dict(zip(objects, answers, strict=True))
    if os.environ.get(UPDATE):
        lines = {name: {**recorded().get(name, {}), "kstatus": said} for name, said in found.items()}
        RECORD.write_text(json.dumps(lines, indent=1, sort_keys=True) + "\n")
    assert found == {name: each.get("kstatus") for name, each in recorded().items()}


@pytest.mark.parametrize(
    ("moment", "status"),
    [
        pytest.param("waits", "InProgress", id="not ready yet"),
        pytest.param("serves", "Current", id="ready"),
        pytest.param("served", "InProgress", id="not ready any more; kstatus fails only what is Stalled"),
        pytest.param("created", "Current", id="too early: it has no conditions yet"),
        pytest.param("serves and was edited", "InProgress", id="its status is of the former generation"),
    ],
)
def test_the_record_has_what_the_documentation_says(moment: str, status: str) -> None:
    found = {each["kstatus"] for name, each in recorded().items() if name.endswith(f" {moment}")}
    assert found == {status}
