"""The lines that a newcomer pastes next.

They work as they are printed: in the shell that ran ``up``, or in any other
where that one stays with the fleet.
"""

import os
import shlex
import shutil
import sys
from pathlib import Path

import modelplane
from modelplane.local.home import ENVIRONMENT_VARIABLE, Home, home_directory

_EXAMPLE = "01-first-answer"


def next_steps(home: Home, *, elsewhere: bool = False) -> str:
    """Return how to deploy the first example and to ask it something.

    ``elsewhere``: in a new terminal, about which nothing is known.
    """
    kubectl = "kubectl" if shutil.which("kubectl") else "modelplane kubectl"
    here = Path("/") if elsewhere else Path.cwd()
    lines = [
        *_reach_modelplane(here, anew=elsewhere),
        *_name_home(home),
        "export KUBECONFIG=$(modelplane kubeconfig)",
        f"{kubectl} apply -f {_example(here)}",
        f"{kubectl} wait --for=condition=Ready ms/first-answer -n ml-team --timeout=2m",
        'modelplane chat first-answer -n ml-team "What is the capital of France?"',
    ]
    heading = "Deploy a model and ask it something"
    heading += ", in another terminal:" if elsewhere else ":"
    return "\n".join([heading, "", *(f"  {line}" for line in lines), ""])


def _reach_modelplane(here: Path, *, anew: bool) -> list[str]:
    """Return what makes ``modelplane`` the command that runs now, where it is not."""
    own = Path(sys.executable).parent
    found = shutil.which("modelplane")
    if not anew and found is not None and Path(found).parent == own:
        return []
    if (own / "activate").exists():
        return [f"source {_as_seen_from(here, own / 'activate')}"]
    return [f'export PATH={shlex.quote(str(own))}:"$PATH"']


def _name_home(home: Home) -> list[str]:
    # The variable may have been set for `up` alone, which cannot be seen from within.
    if ENVIRONMENT_VARIABLE not in os.environ and home_directory(None) == home:
        return []
    return [f"export {ENVIRONMENT_VARIABLE}={shlex.quote(str(home.root))}"]


def _example(here: Path) -> str:
    """Return where the example is; in an installation without the repository, where it would be."""
    folder = Path(modelplane.__file__).parents[2] / "examples" / _EXAMPLE
    return f"{_as_seen_from(here, folder)}/" if folder.exists() else f"examples/{_EXAMPLE}/"


def _as_seen_from(here: Path, path: Path) -> str:
    near = path.is_relative_to(here) and here != Path("/")
    return shlex.quote(str(path.relative_to(here) if near else path))
