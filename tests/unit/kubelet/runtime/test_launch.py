from pathlib import Path

import pytest

from modelplane.kubelet.runtime.launch import environment_of


@pytest.mark.parametrize("is_environment", [True, False])
def test_a_pod_sees_the_environment_of_its_engine(tmp_path: Path, is_environment: bool) -> None:
    """A virtual environment may be below /tmp, which a pod does not see."""
    if is_environment:
        (tmp_path / "pyvenv.cfg").touch()
    expected = (tmp_path,) if is_environment else ()
    assert environment_of(str(tmp_path / "bin" / "vllm")) == expected
