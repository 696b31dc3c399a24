"""``modelplane install``: print the manifests of an installation, or apply them."""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from modelplane.cli.machine.running import refuse_local_fleet
from modelplane.cli.options import add_credential_lifetime_option, add_dry_run_option, format_example, read
from modelplane.cli.target import Target, add_target_options, run_steps
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.install.installation_options import Options
    from modelplane.install.waiting import Deadline, Report
    from modelplane.kube.client import Client
    from modelplane.kube.resources import Object
    from modelplane.offline.files.tree import Node


@click.command(
    epilog=format_example("modelplane install --image registry.example.org/modelplane:1 | kubectl apply -f -")
)
@click.option(
    "--image", metavar="IMAGE", help="Modelplane image to run. Required until images are published."
)
@click.option(
    "--image-digests",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="YAML file with digests of images. The manifests then pull these images by digest.",
)
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    default=2,
    metavar="NUMBER",
    help="Number of replicas of the controllers and of the gateway. Default: 2.",
)
@click.option(
    "--gateway-service-type",
    type=click.Choice(["LoadBalancer", "NodePort", "ClusterIP"]),
    default="LoadBalancer",
    help="Type of the gateway Service. Default: LoadBalancer.",
)
@click.option(
    "--gateway-annotation",
    "annotations",
    multiple=True,
    metavar="KEY=VALUE",
    callback=lambda _context, _parameter, values: dict(map(_annotation, values)),
    help=(
        "Annotation of the gateway Service, for example for an internal load balancer. You "
        "can repeat the option."
    ),
)
@click.option(
    "--team-namespace",
    "team_namespaces",
    multiple=True,
    metavar="NAMESPACE",
    help=(
        "Namespace in which Modelplane can read Secrets for models. You can repeat the "
        "option. Default: every namespace."
    ),
)
@click.option(
    "--no-quota",
    is_flag=True,
    help="Don't create a ResourceQuota in each --team-namespace.",
)
@add_credential_lifetime_option
@click.option("--no-network-policy", is_flag=True, help="Don't create network policies.")
@click.option(
    "--monitoring-namespace",
    "monitoring_namespaces",
    multiple=True,
    default=("monitoring",),
    metavar="NAMESPACE",
    help=("Namespace of pods that can scrape metrics. You can repeat the option. Default: monitoring."),
)
@click.option("--service-monitor", is_flag=True, help="Create a ServiceMonitor for the Prometheus operator.")
@click.option(
    "--inference-cluster",
    is_flag=True,
    help="Print the manifests and steps for registering a cluster with a fleet.",
)
@click.option(
    "--crossplane",
    is_flag=True,
    help=(
        "With --inference-cluster, add the permissions of provider-kubernetes, which include "
        "reading every Secret."
    ),
)
@click.option(
    "--installer",
    is_flag=True,
    help=(
        "With --inference-cluster, add the identity that installs charts. This identity is a "
        "cluster administrator."
    ),
)
@click.option(
    "--apply", "applied", is_flag=True, help="Apply the manifests, and wait until the pods are ready."
)
@click.option(
    "--upgrade", is_flag=True, help="With --apply, upgrade an existing installation to this version."
)
@add_target_options
@add_dry_run_option
def install(
    *,
    inference_cluster: bool,
    crossplane: bool,
    installer: bool,
    applied: bool,
    upgrade: bool,
    dry_run: bool,
    no_quota: bool,
    target: Target,
    **chosen: Any,
) -> None:
    """Install Modelplane: print the manifests for `kubectl apply -f -`, or apply them with --apply.

    Requires Kubernetes 1.34 or later. With --apply --dry-run, the API server only checks the manifests.
    """
    _check(
        inference_cluster=inference_cluster,
        options={"--crossplane": crossplane, "--installer": installer},
        applied=applied,
        trial=upgrade or dry_run,
        pinned=bool(chosen["image_digests"]),
    )
    if inference_cluster:
        from modelplane.install import cluster_requirements as registered

        lifetime = chosen["credential_lifetime"]
        click.echo(
            registered.build_instructions(lifetime, crossplane=crossplane, installer=installer), nl=False
        )
        _write(registered.build_manifests(crossplane=crossplane, installer=installer))
    elif not applied:
        from modelplane.install.manifests import build_manifests

        _write(build_manifests(_options(**chosen)))
        if not no_quota:
            _write_quotas(chosen["team_namespaces"])
    else:
        options = _options(**chosen)
        refuse_local_fleet(target.find_local_home())

        async def do(client: "Client", report: "Report", deadline: "Deadline") -> None:
            from modelplane.install.applying import Installer

            installer = Installer(client, report, deadline, dry_run=dry_run)
            await installer.install(options, upgrade=upgrade, check=_problems)

        run_steps(target, do)
        if not (upgrade or dry_run):
            click.echo(_NEXT)


def _check(
    *, inference_cluster: bool, options: dict[str, bool], applied: bool, trial: bool, pinned: bool
) -> None:
    """Refuse options that have no effect together; ``options`` are those of an inference cluster."""
    if trial and not applied:
        raise click.UsageError("--upgrade and --dry-run require --apply")
    for option, chosen in options.items():
        if chosen and not inference_cluster:
            raise click.UsageError(f"{option} requires --inference-cluster")
    if inference_cluster and applied:
        raise click.UsageError(
            "--inference-cluster only prints manifests: apply them to the cluster with kubectl"
        )
    if inference_cluster and pinned:
        raise click.UsageError(
            "--image-digests has no effect with --inference-cluster, whose manifests contain no images"
        )


def _without_image() -> str:
    """Return how to build and push an image while none is published."""
    from modelplane import __version__

    image = f"REGISTRY/modelplane:{__version__}"
    return (
        "no Modelplane image is published yet, so set --image to your own image. To build one, run these "
        "commands in a checkout, with a registry that your nodes can pull from:\n\n  docker build -f "
        f"package/Containerfile -t {image} .\n  docker push {image}\n  modelplane install --image {image} "
        "--apply"
    )


_NEXT = (
    "Installed Modelplane. Next, create an InferenceGateway, with `authentication: APIKey`, and a cluster: "
    "docs/how-to/install.md"
)


def _annotation(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not (key and separator):
        raise click.BadParameter(f'"{text}" is not of the form KEY=VALUE')
    return key, value


def _options(
    *,
    image: str | None,
    image_digests: str | None,
    replicas: int,
    annotations: dict[str, str],
    no_network_policy: bool,
    **others: Any,
) -> "Options":
    from modelplane.install.installation_options import IS_PUBLISHED, Options

    if image is None and not IS_PUBLISHED:
        raise UserError(_without_image())
    image = image or Options().image
    return Options(
        image=_pin_image(image_digests, image) if image_digests else image,
        controllers=replicas,
        gateways=replicas,
        gateway_annotations=annotations,
        network_policy=not no_network_policy,
        **others,
    )


_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def _pin_image(path: str, image: str) -> str:
    """Return the image that manifests name, with its digest from a file: a YAML mapping of images to digests.

    A line that pins nothing is an error, because its author believes that it does.
    """
    if "@" in image:
        raise UserError(f'"{image}" already contains a digest: omit the digest or --image-digests')
    lines = _read_digests(path)
    for name, digest in lines.items():
        if name != image:
            raise _digest_error(
                path, f'"{name}" has a digest, but the manifests pull only "{image}": remove the line', digest
            )
        if not _DIGEST.fullmatch(str(digest.value)):
            raise _digest_error(
                path, f'the digest of "{name}" must be "sha256:" followed by 64 hexadecimal digits', digest
            )
    if image not in lines:
        raise UserError(f'{path}: the digest of "{image}", which the manifests pull, is missing: add it')
    return f"{image}@{lines[image].value}"


def _read_digests(path: str) -> "dict[str, Node]":
    from modelplane.offline.files.diagnostics import Unreadable
    from modelplane.offline.files.sources import Unopened
    from modelplane.offline.files.tree import parse_documents

    [source] = read([path])
    if isinstance(source, Unopened):
        raise UserError(f"{path}: {source.why}")
    parsed = [*parse_documents(source.text)]
    for document in parsed:
        if isinstance(document, Unreadable):
            raise UserError(f"{path}:{document.place.line}: {document.message}")
        for repeated in document.duplicates:
            raise UserError(
                f'{path}:{repeated.place.line}: "{repeated.path[-1]}" appears twice: remove one line'
            )
        if len(parsed) == 1 and isinstance(document.node.value, dict):
            return document.node.value
    raise UserError(
        f"{path}: the file is not a mapping of images to digests: write lines of the form IMAGE: "
        "sha256:DIGEST"
    )


def _digest_error(path: str, message: str, node: "Node") -> UserError:
    return UserError(f"{path}:{node.place.line}: {message}")


def _write_quotas(namespaces: Sequence[str]) -> None:
    """Write the quota of each namespace of a team; as a comment, if none is named."""
    from modelplane.install.manifests import build_quota
    from modelplane.offline.files.yaml_text import to_yaml

    for namespace in namespaces:
        click.echo(f"---\n{to_yaml(build_quota(namespace))}", nl=False)
    if not namespaces:
        click.echo("# To limit the objects of a team, apply this quota to the team's namespace.")
        for line in to_yaml(build_quota("TEAM")).splitlines():
            click.echo(f"# {line}")


def _write(manifests: "Sequence[Object]") -> None:
    from modelplane.offline.files.yaml_text import to_yaml

    click.echo("---\n".join(map(to_yaml, manifests)), nl=False)


def _problems(items: "Sequence[Object]") -> list[str]:
    """Return the errors that `modelplane validate` finds in objects."""
    from modelplane.offline.check import validation
    from modelplane.offline.files.diagnostics import Severity
    from modelplane.offline.files.sources import Source

    report = validation.validate(Source("", json.dumps(item)) for item in items)
    return [
        ": ".join(filter(None, (str(problem.object or ""), problem.field, problem.message)))
        for problem in report.problems
        if problem.severity is Severity.ERROR
    ]
