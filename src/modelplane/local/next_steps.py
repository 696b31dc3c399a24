"""Next steps: the lines to paste after ``up``.

They work as printed, in any directory and from any installation: the manifests come from
``modelplane example``. They are for the shell that ran ``up``, or for any other where that one stays with
the fleet.
"""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final, NamedTuple

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.local.home import ENVIRONMENT_VARIABLE, Home, choose_home
from modelplane.local.settings import LocalSettings

_TOUR_GOES_ON = (
    "The tour continues in examples/03-deploying-a-model/README.md. To write the pages and manifests to "
    "this directory, run `modelplane example --dir examples`."
)


class Contents(NamedTuple):
    """Objects that the control plane has."""

    has_clusters: bool
    has_deployments: bool


EMPTY: Final = Contents(has_clusters=False, has_deployments=False)


def describe_next_steps(
    home: Home, settings: LocalSettings, contents: Contents = EMPTY, *, elsewhere: bool = False
) -> str:
    """Return the lines that look at the models of a fleet, deploy the first one, or register a cluster.

    ``elsewhere``: for a new terminal, which has none of this shell's settings.
    """
    kubectl = "kubectl" if shutil.which("kubectl") else "modelplane kubectl"
    lines = [
        *_reach_modelplane(Path("/") if elsewhere else Path.cwd(), anew=elsewhere),
        *_name_home(home),
        "export KUBECONFIG=$(modelplane kubeconfig)",
    ]
    after: list[str] = []
    if contents.has_deployments:
        heading = "See the models of this fleet"
        lines += [f"{kubectl} get modeldeployments,modelservices -A", "modelplane top"]
    elif settings.register or contents.has_clusters:
        heading = "Deploy a model and ask it a question"
        lines += [
            _apply(kubectl, "first-answer"),
            f"{kubectl} wait --for=condition=Ready ms/first-answer -n ml-team --timeout=2m",
            'modelplane chat first-answer -n ml-team "What is the capital of France?"',
        ]
    else:
        heading = "Register your first cluster"
        lines += [
            f"{kubectl} get secrets -n {SYSTEM_NAMESPACE}",
            _apply(kubectl, "build-the-platform"),
            f"{kubectl} wait --for=condition=Ready ic --all --timeout=1m",
        ]
        after = ["", _TOUR_GOES_ON]
    heading += ", in another terminal:" if elsewhere else ":"
    return "\n".join([heading, "", *(f"  {line}" for line in lines), *after, ""])


def _apply(kubectl: str, example: str) -> str:
    return f"modelplane example {example} | {kubectl} apply -f -"


def _reach_modelplane(here: Path, *, anew: bool) -> list[str]:
    """Return the lines that put this ``modelplane`` on the path; none if it is there."""
    folder = Path(sys.executable).parent
    program = shutil.which("modelplane")
    if not anew and program is not None and Path(program).parent == folder:
        return []
    if (folder / "activate").exists():
        return [f"source {_as_seen_from(here, folder / 'activate')}"]
    return [f'export PATH={shlex.quote(str(folder))}:"$PATH"']


def _name_home(home: Home) -> list[str]:
    # The variable may have been set for `up` alone, which cannot be seen from within.
    if ENVIRONMENT_VARIABLE not in os.environ and choose_home(None) == home:
        return []
    return [f"export {ENVIRONMENT_VARIABLE}={shlex.quote(str(home.root))}"]


def _as_seen_from(here: Path, path: Path) -> str:
    near = path.is_relative_to(here) and here != Path("/")
    return shlex.quote(str(path.relative_to(here) if near else path))
