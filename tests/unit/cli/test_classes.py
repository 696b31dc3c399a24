"""``modelplane classes``: what is listed, printed and applied, and what is said of an unknown name."""

import json
import subprocess
import sys

import pytest
import yaml
from click.testing import CliRunner, Result

from modelplane.catalogue.catalogue_files import load_catalogue
from modelplane.cli.main import main
from support.manifests import said


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["classes", *arguments])


def names(*arguments: str) -> list[str]:
    done = run("list", "-o", "name", *arguments)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_every_class_is_a_row_with_its_source() -> None:
    header, *rows = run("list").output.splitlines()
    assert header.split("  ")[0] == "NAME"
    assert header.split() == ["NAME", "CLOUD", "MACHINE", "DEVICES", "MEMORY", "EACH", "FABRIC", "SOURCE"]
    assert [row.split()[0] for row in rows] == list(load_catalogue().machines) == names()


def test_a_figure_that_is_unverified_is_marked_in_its_row() -> None:
    [row] = [each for each in run("list").output.splitlines() if each.startswith("h100-pcie-8x ")]
    assert row.endswith("U: memory, productName")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        pytest.param(("--cloud", "gke", "--card", "h200"), ["gke-h200-8x-a3-ib"], id="cloud and card"),
        pytest.param(("p5en.48xlarge",), ["eks-h200-8x-p5en"], id="a machine type"),
        pytest.param(("EFA", "b200"), ["eks-b200-8x-p6"], id="every word"),
        pytest.param(
            ("--cloud", "own", "--card", "mi3"),
            ["mi300x-8x", "mi325x-8x", "mi350x-8x", "mi355x-8x"],
            id="nodes that exist already",
        ),
        pytest.param(("no-such",), [], id="nothing"),
    ],
)
def test_rows_are_chosen_by_cloud_card_and_text(arguments: tuple[str, ...], found: list[str]) -> None:
    assert names(*arguments) == found


def test_no_row_is_said_beside_the_output() -> None:
    done = run("list", "no-such")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "No class in the catalogue matches\n")


def test_an_unknown_cloud_is_wrong_usage() -> None:
    done = run("list", "--cloud", "oracle")
    assert (done.exit_code, '"oracle" is not one of GKE, EKS, AKS, Nebius, Vultr, own' in done.output) == (
        2,
        True,
    )


def test_the_documents_say_the_same_as_the_table() -> None:
    item = {
        "name": "eks-h200-8x-p5en",
        "cloud": "EKS",
        "machine": "p5en.48xlarge",
        "card": "NVIDIA H200 SXM",
        "devices": "8 NVIDIA H200 SXM",
        "memoryEach": "143771Mi",
        "fabric": "NVLink 8, EFA 16",
        "taints": ["nvidia.com/gpu=true:NoSchedule"],
        "sources": ["K", "O", "X"],
        "unverified": [],
    }
    assert json.loads(run("list", "p5en", "-o", "json").output) == {"items": [item]}
    assert yaml.safe_load(run("list", "p5en", "-o", "yaml").output) == {"items": [item]}


def test_what_is_shown_is_for_kubectl_and_has_its_sources() -> None:
    done = run("show", "l4-1x", "gke-l4-1x-g2", "l4-1x")
    shown = list(yaml.safe_load_all(done.output))
    assert [each["metadata"]["name"] for each in shown] == ["l4-1x", "gke-l4-1x-g2"]
    assert said(done.output) == []
    assert done.output.startswith(
        "# Memory: the driver publishes 23034Mi, so selectors ask for at most 22Gi.\n"
    )


@pytest.mark.parametrize("command", ["show", "apply"])
def test_an_unknown_name_is_told_with_those_that_are_near(command: str) -> None:
    done = run(command, "l4-1x", "gke-h200-8x")
    near = "gke-h200-8x-a3-ib, aks-h200-8x or gke-h100-8x-a3"
    message = f'unknown class "gke-h200-8x": did you mean {near}?'
    assert (done.exit_code, done.output) == (
        1,
        f"Error: {message} `modelplane classes list` lists the classes\n",
    )


def test_a_name_that_resembles_none_is_told_without_a_guess() -> None:
    assert run("show", "?").output == (
        'Error: unknown class "?": `modelplane classes list` lists the classes\n'
    )


@pytest.mark.parametrize("arguments", [["--help"], ["classes", "--help"], ["validate", "examples"]])
def test_other_commands_do_not_read_the_catalogue(arguments: list[str]) -> None:
    script = (
        "import sys\nfrom modelplane.cli.main import main\n"
        f"main({arguments!r}, standalone_mode=False)\n"
        "print('modelplane.catalogue.catalogue_files' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True).splitlines()[-1] == "False"
