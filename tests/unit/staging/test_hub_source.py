"""The size of a repository of the hub."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from modelplane.compose.cache import staging_program
from modelplane.compose.cache.staging_sources import MEASURED, NO_VOLUME
from modelplane.staging import hub_source, main
from support import hub
from support.hub import Hub
from unit.staging.conftest import Volume


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Hub]:
    with hub.serve() as running:
        files = {}
        for name, size in {"a.safetensors": 200_000, "config.json": 10, "pickle.bin": 1_000}.items():
            files[name] = tmp_path / name
            files[name].write_bytes(bytes(size))
        running.add("team/model", files, token="secret")
        yield running


def source(served: Hub, **changed: str) -> dict[str, dict[str, str]]:
    given = {"repo": "team/model", "revision": "", "files": "All", "endpoint": served.url}
    return {"huggingFace": given | changed}


def test_the_size_is_that_of_the_files_that_would_be_staged(volume: Volume, served: Hub) -> None:
    assert volume.measure(source(served)) == (66, "201010 bytes in 3 files")
    assert volume.measure(source(served, files="Safetensors", revision="main")) == (
        66,
        "200010 bytes in 2 files",
    )
    assert not any(asked.path.startswith("/content/") for asked in served.asked)


def test_the_address_of_the_hub_may_be_that_of_the_environment(volume: Volume, served: Hub) -> None:
    given = source(served, endpoint="")
    assert volume.measure(given, {"HF_ENDPOINT": served.url, "TOKEN": "secret"})[0] == 66


def test_a_revision_that_does_not_exist_is_the_cause(volume: Volume, served: Hub) -> None:
    url = f"{served.url}/api/models/team/model/revision/nope"
    assert volume.measure(source(served, revision="nope")) == (65, f"{url} does not exist (404)")


def test_both_programs_and_what_composes_them_agree() -> None:
    assert (main.MEASURED, main.NO_VOLUME) == (MEASURED, NO_VOLUME)
    patterns = ", ".join(f'"*{ending}"' for ending in hub_source.WITHOUT_CODE)
    assert f"only = [{patterns}]" in staging_program.PROGRAM
