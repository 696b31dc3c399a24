"""A control plane whose API server writes down what service accounts ask for, and what they asked."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts:modelplane-system"]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True, slots=True, order=True)
class Asked:
    """One thing that an account asked for."""

    account: str
    group: str
    resource: str
    """With its subresource, as roles have it."""
    namespace: str
    name: str
    verb: str
    code: int


def audited(binary: Path, folder: Path) -> tuple[Path, Path]:
    """Return a program that runs as the binary does, but with an audit log; and where that is."""
    policy, log, program = folder / "policy.json", folder / "audit.log", folder / "kubernetes"
    policy.write_text(json.dumps(POLICY))
    flags = f"--audit-policy-file={policy}", f"--audit-log-path={log}"
    program.write_text(
        "#!/bin/sh\n"
        f'if [ "$2" = kube-apiserver ]; then shift 2; '
        f'set -- control-plane kube-apiserver {shlex.join(flags)} "$@"; fi\n'
        f'exec {shlex.quote(str(binary))} "$@"\n'
    )
    program.chmod(0o700)
    return program, log


def asked(log: Path) -> Iterator[Asked]:
    """Yield what accounts asked for of objects; one that made an object by a patch has created it too."""
    # The last line may be in the middle of being written.
    written, _, _ = log.read_text().rpartition("\n")
    for line in written.splitlines():
        event = json.loads(line)
        about = event.get("objectRef")
        if about is None or "resource" not in about:
            continue
        resource = "/".join(filter(None, (about["resource"], about.get("subresource", ""))))
        code = event["responseStatus"]["code"]
        verbs = ("patch", "create") if (event["verb"], code) == ("patch", 201) else (event["verb"],)
        for verb in verbs:
            yield Asked(
                event["user"]["username"].rpartition(":")[2],
                about.get("apiGroup", ""),
                resource,
                about.get("namespace", ""),
                about.get("name", ""),
                verb,
                code,
            )
