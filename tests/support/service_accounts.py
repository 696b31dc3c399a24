"""Acting on a control plane as one of its service accounts, by a token, as a pod does."""

import subprocess
from pathlib import Path

import yaml

from support.fleets import ControlPlane


def kubectl(plane: ControlPlane, *arguments: str, stdin: str = "") -> str:
    """Run kubectl as the administrator and return what it prints."""
    done = subprocess.run(
        [str(plane.binary), "kubectl", *arguments],
        env={"KUBECONFIG": str(plane.kubeconfig), "KUBECACHEDIR": str(plane.home.kubectl_cache)},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def kubeconfig(plane: ControlPlane, account: str, path: Path, token: str = "") -> Path:
    """Write the kubeconfig of a service account of the system namespace, with a token, or one of an hour."""
    namespace = ("-n", "modelplane-system")
    token = token or kubectl(plane, "create", "token", account, *namespace, "--duration=1h").strip()
    known = yaml.safe_load(plane.kubeconfig.read_text())
    name = {"name": account, "context": {"cluster": known["clusters"][0]["name"], "user": account}}
    known |= {
        "users": [{"name": account, "user": {"token": token}}],
        "contexts": [name],
        "current-context": account,
    }
    path.write_text(yaml.safe_dump(known))
    path.chmod(0o600)
    return path
