"""Output of ``modelplane deploy``: the manifests, their summary and plan, and what must exist."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from modelplane.cli.inspect import placing
from modelplane.cli.tables import show as show_table

if TYPE_CHECKING:
    from modelplane.api.meta import Object
    from modelplane.offline.models.model_manifests import Wanted
    from modelplane.offline.models.proposals import Proposal, Proposed

_MOST = 20
"""Pools up to which all are printed."""


def as_documents(manifests: "Sequence[Object]") -> str:
    """Return manifests as one YAML text."""
    from modelplane.offline.files.yaml_output import as_yaml

    return "---\n".join(as_yaml(each) for each in manifests)


def show(proposal: "Proposal", wanted: "Wanted", *, everything: bool) -> None:
    """Print the summary of a proposal, and its plan as ``plan`` prints it."""
    from modelplane.offline.models.size_rows import gib

    served, result = proposal.served, proposal.plan
    node = served.node
    devices = f"{served.split.gpus} {node.device}"
    nodes = f" on {served.nodes} nodes" if served.nodes > 1 else ""
    click.echo(
        f"{wanted.engine} with {served.split} on {devices}{nodes}, {gib(served.memory.gpu)} of "
        f"{gib(node.memory)} GiB of each, {wanted.context:,} tokens of context"
    )
    show_table("Objects:", ("KIND", "NAMESPACE", "NAME", "WHAT"), _rows(proposal, wanted))
    click.echo()
    placing.tell_replicas(result.deployments)
    for each in result.deployments:
        if each.diagnosis:
            click.echo(f"\n{each.name}: {each.diagnosis}")
            placing.tell_refusals("", each.refusals, everything=everything)
    placing.tell_cost(result.deployments)
    placing.tell_fleet(result, result.deployments, everything=everything)
    for number, line in enumerate(needs(wanted, proposal)):
        click.echo(line if number else f"\n{line}")


def _rows(proposal: "Proposal", wanted: "Wanted") -> Iterator[tuple[str, ...]]:
    from modelplane.api.meta import kind_name
    from modelplane.api.model_cache import ModelCache
    from modelplane.api.model_deployment import ModelDeployment
    from modelplane.api.model_service import ModelService

    split = proposal.served.split
    devices = f"{split.tensor} {'device' if split.tensor == 1 else 'devices'}"
    pods = "1 pod" if split.pipeline == 1 else f"{split.pipeline} pods"
    each = "" if split.pipeline == 1 else " each"
    what = {
        kind_name(ModelCache): f"the weights, from claim {wanted.claim}"
        if wanted.claim
        else f"the weights of {wanted.repo}",
        kind_name(ModelDeployment): f"replicas: {wanted.replicas}, of {pods} with {devices}{each}",
        kind_name(ModelService): "the address for requests",
    }
    for item in proposal.manifests:
        yield item["kind"], wanted.namespace, wanted.name, what[item["kind"]]


def needs(wanted: "Wanted", proposal: "Proposal") -> Iterator[str]:
    """Yield what must exist for the replicas to start."""
    cached = len(proposal.manifests) > 2
    namespace = f'namespace "{wanted.namespace}"'
    if wanted.claim:
        yield (
            f'PersistentVolumeClaim "{wanted.claim}" with the files of the folder must exist in {namespace} '
            "of each cluster"
        )
    if wanted.token_secret:
        where = f"{namespace} of the control plane" if cached else f"{namespace} of each cluster"
        yield f'Secret "{wanted.token_secret}" with your token as HF_TOKEN must exist in {where}'


def show_refusals(proposed: "Proposed", *, everything: bool) -> None:
    """Print why no pool can serve the model."""
    refusals = proposed.refusals
    if not refusals:
        click.echo("The fleet has no InferenceCluster with a node pool: register one")
        return
    click.echo("No pool of the fleet can serve the model")
    told = refusals if everything else refusals[:_MOST]
    show_table("Pools:", ("CLUSTER", "POOL", "CLASS", "REASON"), told)
    if len(told) < len(refusals):
        click.echo(f"and {len(refusals) - len(told)} more: --all shows them")
