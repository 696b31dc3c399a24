"""Command lines of Helm. Values never are on one: Helm reads them from its standard input."""

from collections.abc import Mapping

from modelplane.controllers.helm.instruction import USUAL_WAIT_S, Instruction, ReleaseId
from modelplane.controllers.helm.steps import Action, Step


def arguments(
    step: Step, release: ReleaseId, instruction: Instruction | None, marks: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the arguments of a run, without those for the connection; ``marks`` are the release's labels."""
    match step.action:
        case Action.ROLL_BACK:
            return ("rollback", release.name, str(step.revision), *_common(release), "--wait=hookOnly")
        case Action.CLEAR:
            # Its hooks may be what was interrupted.
            return ("uninstall", release.name, "--no-hooks", *_uninstalling(release))
        case Action.UNINSTALL:
            return ("uninstall", release.name, *_uninstalling(release))
    if instruction is None:
        raise ValueError(f"{step.action} of {release} needs an instruction")
    return (
        "upgrade",
        release.name,
        instruction.chart,
        "--install",
        *_common(release, instruction.timeout_s),
        "--version",
        instruction.version,
        *(("--repo", instruction.repository) if instruction.repository else ()),
        "--values=-",
        "--reset-values",
        f"--wait={'watcher' if instruction.wait else 'hookOnly'}",
        f"--history-max={instruction.history}",
        "--labels",
        ",".join(f"{key}={value}" for key, value in marks.items()),
        *(("--create-namespace",) if instruction.create_namespace else ()),
        *(("--skip-crds",) if instruction.skip_crds else ()),
        *(("--force-conflicts",) if instruction.force_conflicts else ()),
        *(("--take-ownership",) if instruction.take_ownership else ()),
        *(("--plain-http",) if instruction.plain_http else ()),
    )


def _uninstalling(release: ReleaseId) -> tuple[str, ...]:
    # Until its objects are gone: the next one may be what they need.
    return (*_common(release), "--ignore-not-found", "--wait=watcher")


def _common(release: ReleaseId, timeout_s: int = USUAL_WAIT_S) -> tuple[str, ...]:
    return ("--namespace", release.namespace, f"--timeout={timeout_s}s")
