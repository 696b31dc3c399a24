"""The lines that a newcomer pastes next: they work as they are printed, in the shell that ran ``up``."""

import shlex
import shutil
import sys
from pathlib import Path

import modelplane
from modelplane.local.home import Home, home_directory

_EXAMPLE = "01-first-answer"


def next_steps(home: Home) -> str:
    """Return how to deploy the first example and to ask it something."""
    kubectl = "kubectl" if shutil.which("kubectl") else "modelplane kubectl"
    lines = [
        *_reach_modelplane(),
        *_name_home(home),
        "export KUBECONFIG=$(modelplane kubeconfig)",
        f"{kubectl} apply -f {_example()}",
        f"{kubectl} wait --for=condition=Ready ms/first-answer -n ml-team --timeout=2m",
        'modelplane chat first-answer -n ml-team "What is the capital of France?"',
    ]
    return "\n".join(["Deploy a model and ask it something:", "", *(f"  {line}" for line in lines), ""])


def _reach_modelplane() -> list[str]:
    """Return what makes ``modelplane`` the command that runs now, where it is not."""
    own = Path(sys.executable).parent
    found = shutil.which("modelplane")
    if found is not None and Path(found).parent == own:
        return []
    if (own / "activate").exists():
        return [f"source {_from_here(own / 'activate')}"]
    return [f'export PATH={shlex.quote(str(own))}:"$PATH"']


def _name_home(home: Home) -> list[str]:
    return [] if home_directory(None) == home else [f"export MODELPLANE_HOME={shlex.quote(str(home.root))}"]


def _example() -> str:
    """Return where the example is; in an installation without the repository, where it would be."""
    folder = Path(modelplane.__file__).parents[2] / "examples" / _EXAMPLE
    return f"{_from_here(folder)}/" if folder.exists() else f"examples/{_EXAMPLE}/"


def _from_here(path: Path) -> str:
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
