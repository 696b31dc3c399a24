"""``modelplane images``: the images, packages and charts that an installation pulls.

They are read from the objects and tables that name them.
"""

from collections.abc import Iterator
from typing import NamedTuple

import click

from modelplane.api.report_tables import Columns
from modelplane.cli.options import format_example
from modelplane.cli.output import TEXT, add_output_option, print_document, print_table


class Pulled(NamedTuple):
    """An image, a package or a chart that a cluster pulls."""

    type: str
    reference: str
    where: str
    purpose: str


@click.command(epilog=format_example("modelplane images -o json"))
@add_output_option
def images(output: str) -> None:
    """List the images, packages, and charts that an installation of this version pulls.

    Engine images are not listed, because each ModelDeployment sets its own.
    """
    listed = dict.fromkeys(_list_pulled())
    if output != TEXT:
        print_document({"items": [image._asdict() for image in listed]}, output)
    else:
        columns = Columns[Pulled](
            ("TYPE", lambda pulled: pulled.type),
            ("REFERENCE", lambda pulled: pulled.reference),
            ("WHERE", lambda pulled: pulled.where),
            ("PURPOSE", lambda pulled: pulled.purpose),
        )
        print_table(columns.tabulate("", listed))


def _list_pulled() -> Iterator[Pulled]:
    from modelplane.api.clouds.serving_stack import Versions
    from modelplane.compose.added_containers import IMAGES
    from modelplane.compose.clouds.table import RECIPES
    from modelplane.compose.serving_stack.table import COMPONENTS
    from modelplane.crossplane.package.package_installation import build_installation
    from modelplane.install.installation_options import Options
    from modelplane.install.manifests import build_manifests
    from modelplane.install.pod_parts import list_containers

    for item in build_manifests(Options()):
        for container in list_containers(item):
            yield Pulled("Image", container["image"], "control plane", "controllers and gateway")
    for item in build_installation():
        if package := item["spec"].get("package"):
            yield Pulled("Package", package, "Crossplane", f"{item['kind']}")
    for recipe in RECIPES.values():
        for provider in recipe.providers:
            reference = f"{provider.package}:v{provider.version}"
            purpose = f"clusters on {recipe.title}, if you provision any"
            yield Pulled("Package", reference, "Crossplane", purpose)
    for image in IMAGES:
        yield Pulled("Image", image.reference, "inference clusters", image.purpose)
    versions = Versions()
    for row in COMPONENTS:
        if row.chart and row.version:
            purpose = "serving stack" if row.in_standard else f"serving stack, with {row.name} enabled"
            reference = f"{row.chart.address}:{row.version(versions)}"
            yield Pulled("Chart", reference, "inference clusters", purpose)
