"""``modelplane explain``: explain the placement, routing and readiness of an object.

The same code reads a live fleet and a dump of one.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from modelplane.cli import object_names
from modelplane.cli.errors import UserError
from modelplane.cli.inspect import placing
from modelplane.cli.manifest_files import load
from modelplane.cli.options import ListedArgument, add_all_option, add_fleet_option
from modelplane.cli.output import TEXT, add_output_option, print_document
from modelplane.cli.target import Target, add_namespace_option, add_target_options, read_fleet

if TYPE_CHECKING:
    from modelplane.api.kinds import Kind
    from modelplane.api.meta import Object
    from modelplane.offline.files.report_documents import Report
    from modelplane.offline.plan.fleet_of_files import Files


def _forms() -> list[str]:
    return object_names.list_forms(_explained())


@click.command()
@click.argument("name", cls=ListedArgument, values=_forms)
@add_fleet_option("Objects of a fleet, as `kubectl get -o yaml` prints them, instead of the control plane.")
@add_namespace_option
@add_target_options
@add_all_option
@add_output_option
def explain(
    name: str, namespace: str, fleet: tuple[str, ...], target: Target, everything: bool, output: str
) -> None:
    """Explain the placement, routing and readiness of one object.

    For a ModelDeployment: where each replica was placed and why, and which rules rejected the others. For a
    ModelService: why it is ready or not, and which endpoints get its requests. For a ModelReplica: why it
    was placed there, and why it is ready or not.

    The exit status is 2 if a replica is not placed, or a service or replica is not ready, and 1 if a file
    is invalid.
    """

    kind, called = _parse_target(name)
    if not fleet:
        namespace = target.choose_namespace(namespace)
    files = _files(fleet, target, kind)
    objects = files.store.list_kind(kind.api_version, kind.name)
    report, well, tell = _EXPLAIN[kind.name](
        files, object_names.find_one(objects, kind.name, called, namespace)
    )
    if output == TEXT:
        tell(everything)
    else:
        print_document(report, output)
    if not well:
        raise click.exceptions.Exit(placing.NOT_PLACED)


_Explained = tuple["Report", bool, Callable[[bool], None]]
"""A document, True if the object is well, and a printer of the document as text, in full or abridged."""


def _deployment(files: "Files", item: "Object") -> _Explained:
    from modelplane.cli import tables
    from modelplane.offline.plan import placement_tables, placements

    result = placements.explain(files, item)

    def print_tables(everything: bool) -> None:
        deployment = result.deployment
        verdict = deployment.diagnosis or placement_tables.describe_placed([deployment])
        click.echo(f"{deployment.name}: {verdict}")
        places = placement_tables.list_replica_places(deployment.replicas)
        tables.show(placement_tables.WHERE.tabulate("Replicas", places))
        placing.print_refusals("Refused by", deployment.refusals, everything=everything)
        tables.show(placement_tables.REMEDIES.tabulate("To place one more, one of", deployment.remedies))
        placing.print_rollout([deployment])
        placing.print_standby([deployment])
        placing.print_cost([deployment])
        placing.print_alternatives(result, everything=everything)
        placing.print_fleet(result, [deployment], everything=everything)

    return result, result.placed, print_tables


def _service(files: "Files", item: "Object") -> _Explained:
    from modelplane.cli import tables
    from modelplane.offline.explain import explanation_tables as rows
    from modelplane.offline.explain.service_explanation import explain_service

    result = explain_service(files, item)

    def print_tables(everything: bool) -> None:
        click.echo(rows.describe_service(result))
        tables.show(rows.CONDITIONS.tabulate("Conditions", result.conditions))
        told = rows.select_endpoints(result.endpoints, everything=everything)
        tables.show(rows.ENDPOINTS.tabulate("Endpoints", told))
        if others := len(result.endpoints) - len(told):
            noun = "endpoint" if others == 1 else "endpoints"
            click.echo(f"\nNot selected: {others:,} other {noun} of the namespace; --all shows them")
        tables.show(rows.ABSENT.tabulate("Selected, but without an endpoint", result.without_endpoint))
        _tell_notes(result.notes)

    return result, result.ready, print_tables


def _replica(files: "Files", item: "Object") -> _Explained:
    from modelplane.cli import tables
    from modelplane.offline.explain import explanation_tables as rows
    from modelplane.offline.explain.replica_explanation import explain_replica
    from modelplane.offline.plan import placement_tables

    result = explain_replica(files, item)

    def print_tables(_everything: bool) -> None:
        click.echo(rows.describe_replica(result))
        tables.show(rows.CONDITIONS.tabulate("Conditions", result.conditions))
        placed = () if result.placement is None else (result.placement,)
        places = placement_tables.list_replica_places(placed)
        tables.show(placement_tables.WHERE.tabulate("Where it is", places))
        click.echo(f"\nEndpoint: {result.endpoint or 'none'}")
        tables.show(rows.ROUTING.tabulate("Services that select it", result.services))
        _tell_notes(result.notes)

    return result, result.ready, print_tables


def _tell_notes(notes: tuple[str, ...]) -> None:
    if notes:
        click.echo()
    for note in notes:
        click.echo(note)


_EXPLAIN: Final[dict[str, Callable[["Files", "Object"], _Explained]]] = {
    "ModelDeployment": _deployment,
    "ModelService": _service,
    "ModelReplica": _replica,
}
"""The kinds that can be explained; the first is the default for a name without a kind."""


def _explained() -> "list[Kind]":
    from modelplane.api.kinds import KINDS

    return [kind for name in _EXPLAIN for kind in KINDS if kind.name == name]


def _parse_target(name: str) -> "tuple[Kind, str]":
    """Return the kind and the name that an argument in kubectl's form names."""
    from modelplane.api.kinds import KINDS

    explained = _explained()
    shorts = ", ".join(object_names.list_forms(explained))
    meant = object_names.parse_object_name(name, explained)
    if meant is not None:
        return meant
    if "/" in name and (other := object_names.parse_object_name(name, KINDS)):
        kind, of = other
        raise UserError(
            f'explain takes {shorts}, and "{name}" is of kind {kind.name}: its conditions say why it is not '
            f"ready, so run `kubectl describe {kind.singular}/{of}`"
        )
    raise click.BadParameter(f'"{name}" names none of {shorts}', param_hint=f"{explained[0].short}/NAME")


def _files(fleet: tuple[str, ...], target: Target, kind: "Kind") -> "Files":
    """Return the fleet of the files, or without files that of the API server."""
    from modelplane.offline.plan.fleet_of_files import assemble

    if fleet:
        (objects,) = load(fleet)
        return assemble(objects)
    from modelplane.controllers.fleet_resources import needed_to_explain

    return assemble(read_fleet(target, needed_to_explain(kind.name)), live=True)
