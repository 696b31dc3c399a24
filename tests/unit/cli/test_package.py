import re
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from modelplane import __version__
from modelplane.cli.main import main
from modelplane.cli.operate.package import package
from modelplane.crossplane.package.oci_layout import open_image
from support.packages import small_runtime

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "commands" / "package.md").read_text()


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a command of the group, with a small runtime in place of this Python."""
    monkeypatch.setattr("modelplane.crossplane.package.runtime.from_this_python", small_runtime)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(main, ["package", *arguments])


def test_build_writes_all_packages_and_says_where_they_belong(run, tmp_path):
    result = run("build", "--version", "v1.2.3", "--registry", "example.org/ai", "--dir", "out")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "modelplane-aws-1.2.3.xpkg",
        "modelplane-azure-1.2.3.xpkg",
        "modelplane-configuration-1.2.3.xpkg",
        "modelplane-function-1.2.3.xpkg",
        "modelplane-gcp-1.2.3.xpkg",
        "modelplane-nebius-1.2.3.xpkg",
        "modelplane-vultr-1.2.3.xpkg",
    ]
    assert "example.org/ai/configuration:v1.2.3" in result.output
    assert len(re.findall(r"^  sha256:[0-9a-f]{64}$", result.output, re.MULTILINE)) == 7


def test_build_writes_one_if_one_is_named(run, tmp_path):
    assert run("build", "configuration").exit_code == 0
    [made] = tmp_path.iterdir()
    assert made.name == f"modelplane-configuration-{__version__}.xpkg"


def test_build_takes_a_runtime_that_was_made_elsewhere(run, tmp_path):
    assert run("build", "function").exit_code == 0
    [made] = tmp_path.iterdir()
    result = run("build", "function", "--runtime-image", str(made), "--dir", "again")
    assert result.exit_code == 0, result.output
    with open_image(tmp_path / "again" / made.name) as stored:
        assert len(stored.image.layers) == 3


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        pytest.param(["build", "--version", "1"], 1, '"1" is not a version of a package', id="no version"),
        pytest.param(["build", "--registry", "here"], 1, 'below "here"', id="no registry"),
        pytest.param(
            ["build", "nothing"],
            2,
            "Invalid value for '[all | configuration | function | gcp | aws | azure | nebius | vultr]': ",
            id="no such package",
        ),
        pytest.param(["build", "--dir", "/dev/null/x"], 1, "/dev/null/x: Not a directory", id="no folder"),
        pytest.param(["build", "--runtime-image", "."], 1, "is not an image", id="no image"),
        pytest.param(["build", "--runtime-image", "gone"], 2, "does not exist", id="no file"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(run, arguments, status, sentence):
    result = run(*arguments)
    assert isinstance(result.exception, SystemExit)
    *usage, error = result.output.splitlines()
    assert [line.split()[0] for line in usage if line.strip() and line[0] != " "] in ([], ["Usage:", "Try"])
    assert error.startswith("Error: ")
    assert (result.exit_code, sentence in error) == (status, True)


def test_nothing_is_written_if_the_runtime_image_is_refused(run, tmp_path):
    (tmp_path / "image").write_text("no image")
    result = run("build", "--runtime-image", "image", "--dir", "out")
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert result.output.startswith("Error: ")
    assert not (tmp_path / "out").exists()


def test_help_lists_the_packages(run):
    usage = " ".join(run("build", "--help").output.partition("\n\n")[0].split())
    packages = "all | configuration | function | gcp | aws | azure | nebius | vultr"
    assert usage == f"Usage: main package build [OPTIONS] [{packages}]"


def test_prerequisites_are_printed_for_kubectl(run):
    documents = list(yaml.safe_load_all(run("prerequisites").output))
    assert [each["kind"] for each in documents] == [
        "Namespace",
        "ClusterRole",
        "Namespace",
        *("ClusterRole", "ClusterRoleBinding") * 2,
        *("Role", "RoleBinding") * 4,
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]


@pytest.mark.parametrize("name", sorted(package.commands))
def test_the_page_of_commands_has_every_option_and_no_other(name):
    _, _, rest = PAGE.partition(f"\n## modelplane package {name}\n")
    rows = [line.split("|")[1] for line in rest.partition("\n## ")[0].splitlines() if line.startswith("| `-")]
    documented = {found for row in rows for found in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", row)}
    options = [each for each in package.commands[name].params if isinstance(each, click.Option)]
    assert documented == {opt for each in options for opt in each.opts}
