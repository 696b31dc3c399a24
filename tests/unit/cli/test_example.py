"""``modelplane example``: lists, prints, writes, and overwrites nothing unasked."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from modelplane.cli.main import main
from modelplane.local import examples
from modelplane.local.examples import Example

EXAMPLES = Path(__file__).parents[3] / "examples"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["example", *arguments])


def test_without_a_name_every_example_is_listed_with_its_title() -> None:
    lines = run().output.splitlines()
    assert lines[0].split() == ["NAME", "TITLE"]
    assert [tuple(line.split(maxsplit=1)) for line in lines[1:]] == [
        (each.name, each.title) for each in examples.list_examples()
    ]


@pytest.mark.parametrize("each", examples.list_examples(), ids=lambda each: each.name)
def test_what_is_printed_is_what_kubectl_finds_in_the_folder(each: Example) -> None:
    found = [
        document
        for path in sorted(each.folder.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]
    printed = run(each.name)
    assert (printed.exit_code, list(yaml.safe_load_all(printed.output))) == (0, found)


def test_several_are_printed_in_the_order_given() -> None:
    kinds = [each["kind"] for each in yaml.safe_load_all(run("deploying-a-model", "overview").output)]
    assert kinds == ["Namespace", "ModelDeployment", "ModelService"] * 2


def test_a_name_that_is_not_known_is_one_sentence() -> None:
    done = run("../overview")
    said = 'unknown example "../overview": did you mean "overview"? `modelplane example` lists the examples'
    assert (done.exit_code, done.output) == (1, f"Error: {said}\n")


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_all_are_written_with_their_pages(tmp_path: Path) -> None:
    target = tmp_path / "new" / "examples"
    done = run("--dir", str(target))
    assert _files(target) == _files(EXAMPLES)
    assert (done.exit_code, done.output) == (0, f"{len(_files(EXAMPLES))} files written to {target}\n")


def test_one_is_written_to_its_own_place(tmp_path: Path) -> None:
    run("kimi-k2", "--dir", str(tmp_path))
    assert _files(tmp_path) == {
        f"recipes/kimi-k2/{name}": content
        for name, content in _files(EXAMPLES / "recipes" / "kimi-k2").items()
    }


def test_writing_again_changes_nothing(tmp_path: Path) -> None:
    run("overview", "--dir", str(tmp_path))
    done = run("overview", "--dir", str(tmp_path))
    assert (done.exit_code, done.output) == (0, f"4 files written to {tmp_path}\n")


def test_a_file_that_differs_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    mine = tmp_path / "overview" / "model-service.yaml"
    mine.parent.mkdir()
    mine.write_text("mine")
    done = run("overview", "--dir", str(tmp_path))
    said = (
        f"Error: nothing was written, because {mine} differs from the example: choose another directory, "
        "or replace it with --overwrite\n"
    )
    assert (done.exit_code, done.output) == (1, said)
    assert _files(tmp_path) == {"overview/model-service.yaml": b"mine"}


def test_many_files_that_differ_are_counted(tmp_path: Path) -> None:
    for path in _files(EXAMPLES / "01-first-answer"):
        (tmp_path / "01-first-answer").mkdir(exist_ok=True)
        (tmp_path / "01-first-answer" / path).touch()
    said = run("first-answer", "--dir", str(tmp_path)).output
    assert "3-model-service.yaml and 1 more differ from the examples: " in said


def test_asked_to_it_overwrites_and_says_how_many(tmp_path: Path) -> None:
    (tmp_path / "overview").mkdir()
    (tmp_path / "overview" / "model-service.yaml").write_text("mine")
    done = run("overview", "--dir", str(tmp_path), "--overwrite")
    assert done.output == f"4 files written to {tmp_path}, 1 replaced\n"
    assert _files(tmp_path / "overview") == _files(EXAMPLES / "overview")


def test_overwriting_needs_a_directory() -> None:
    done = run("overview", "--overwrite")
    assert (done.exit_code, "--overwrite requires --dir" in done.output) == (2, True)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "overview").write_text("a file")
    done = run("overview", "--dir", str(tmp_path))
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: cannot write the examples: {tmp_path}/overview")
