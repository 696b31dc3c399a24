"""``modelplane explain``: explain the placement, routing and readiness of an object.

The same code reads a live fleet and a dump of one.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from modelplane.cli.exit_statuses import UNMET
from modelplane.cli.inspect import plan
from modelplane.cli.options import ListedArgument, add_all_option, add_fleet_option, format_example, load
from modelplane.cli.output import TEXT, add_output_option, print_document
from modelplane.cli.target import (
    Target,
    add_namespace_option,
    add_target_options,
    find_one,
    list_forms,
    parse_object_name,
    read_fleet,
)
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.api.kinds import Kind
    from modelplane.api.meta import Object
    from modelplane.api.report_tables import Explained
    from modelplane.offline.explain.statuses import Said
    from modelplane.offline.files.report_documents import Report
    from modelplane.offline.plan.fleet_of_files import Files


@click.command(epilog=format_example("modelplane explain md/gemma -n ml-team"))
@click.argument("name", cls=ListedArgument, values=lambda: list_forms(_explained()))
@add_fleet_option("Read the fleet from the output of `kubectl get -o yaml` instead of the control plane.")
@add_namespace_option
@add_target_options
@add_all_option
@add_output_option
def explain(
    name: str, namespace: str, fleet: tuple[str, ...], target: Target, everything: bool, output: str
) -> None:
    """Explain why an object is ready or not.

    For a ModelDeployment, show where each replica is placed, and why the other clusters were rejected. For a
    ModelService, show which endpoints receive requests. For a ModelReplica, show why the replica was placed
    on this cluster. The exit status is 2 if a replica is not placed or the object is not ready, and 1 if a
    file is invalid.
    """

    kind, called = _parse_target(name)
    if not fleet:
        namespace = target.choose_namespace(namespace)
    files = _files(fleet, target, kind)
    item = find_one(files.store.list_kind(kind.type), kind.name, called, namespace)
    explanation = _EXPLAIN[kind.name](files, item)
    explained = explanation.describe(None if everything else plan.MOST)
    if output == TEXT:
        _print(explained, explanation.conditions)
    else:
        print_document(explanation.document, output)
    if not explained.well:
        raise click.exceptions.Exit(UNMET)


class _Explanation(NamedTuple):
    """A document, and its text with at most so many rows of a table, or all."""

    document: "Report"
    describe: "Callable[[int | None], Explained]"
    conditions: "Sequence[Said]" = ()


def _deployment(files: "Files", item: "Object") -> _Explanation:
    from modelplane.offline.plan import placement_tables, placements

    result = placements.explain(files, item)
    return _Explanation(result, lambda most: placement_tables.report_deployment(result, most))


def _service(files: "Files", item: "Object") -> _Explanation:
    from modelplane.offline.explain.explanation_tables import report_service
    from modelplane.offline.explain.service_explanation import explain_service

    result = explain_service(files, item)
    return _Explanation(result, lambda most: report_service(result, most), result.conditions)


def _replica(files: "Files", item: "Object") -> _Explanation:
    from modelplane.offline.explain.explanation_tables import report_replica
    from modelplane.offline.explain.replica_explanation import explain_replica

    result = explain_replica(files, item)
    return _Explanation(result, lambda most: report_replica(result, most), result.conditions)


def _print(explained: "Explained", conditions: "Sequence[Said]") -> None:
    from modelplane.cli.output import print_table

    click.echo(explained.verdict)
    if conditions:
        from modelplane.offline.explain.explanation_tables import CONDITIONS

        print_table(CONDITIONS.tabulate("Conditions", conditions))
    for table in explained.tables:
        print_table(table)
    if explained.notes:
        click.echo()
    for note in explained.notes:
        click.echo(note)


_EXPLAIN: Final[dict[str, Callable[["Files", "Object"], _Explanation]]] = {
    "ModelDeployment": _deployment,
    "ModelService": _service,
    "ModelReplica": _replica,
}
"""The kinds that can be explained; the first is the default for a name without a kind."""


def _explained() -> "list[Kind]":
    from modelplane.api.kinds import KINDS

    return [kind for name in _EXPLAIN for kind in KINDS if kind.name == name]


def _parse_target(name: str) -> "tuple[Kind, str]":
    from modelplane.api.kinds import KINDS

    explained = _explained()
    shorts = ", ".join(list_forms(explained))
    meant = parse_object_name(name, explained)
    if meant is not None:
        return meant
    if "/" in name and (other := parse_object_name(name, KINDS)):
        kind, of = other
        raise UserError(
            f'explain supports {shorts}, not kind {kind.name}: to see the conditions of "{name}", run '
            f"`kubectl describe {kind.singular}/{of}`"
        )
    raise click.BadParameter(
        f'"{name}" doesn\'t begin with {shorts}', param_hint=f"{explained[0].short}/NAME"
    )


def _files(fleet: tuple[str, ...], target: Target, kind: "Kind") -> "Files":
    """Return the fleet of the files, or without files that of the API server."""
    from modelplane.offline.plan.fleet_of_files import assemble

    if fleet:
        (objects,) = load(fleet)
        return assemble(objects)
    from modelplane.controllers.fleet_resources import list_needed_to_explain

    return assemble(read_fleet(target, list_needed_to_explain(kind.name)), live=True)
