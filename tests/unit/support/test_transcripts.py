"""Console blocks: what a page shows is what its commands print."""

import subprocess
from pathlib import Path

import pytest

from support.transcripts import (
    RECORD,
    Step,
    check_outputs,
    is_shown,
    read_steps,
    split_output,
    write_script,
)

BLOCK = """\
$ kubectl apply -f - <<END
> kind: Namespace
>
> END
namespace/ml-team created
$ true
$ kubectl get md
NAME    READY   AGE
gemma   1/1     12s
"""


def test_a_block_is_commands_with_their_outputs() -> None:
    steps = read_steps(BLOCK)
    assert steps == (
        Step("kubectl apply -f - <<END\nkind: Namespace\n\nEND", "namespace/ml-team created\n"),
        Step("true", ""),
        Step("kubectl get md", "NAME    READY   AGE\ngemma   1/1     12s\n"),
    )
    assert "".join(map(str, steps)) == BLOCK


def test_a_command_goes_on_after_a_backslash() -> None:
    assert read_steps("$ one \\\n    --two\nprinted\n") == (Step("one \\\n    --two", "printed\n"),)


def test_a_block_begins_with_a_command() -> None:
    with pytest.raises(ValueError, match="begins with"):
        read_steps("gemma   1/1\n")


def test_a_script_marks_the_output_of_each_command() -> None:
    steps = (Step("echo one", ""), Step("true", ""), Step("echo two >&2", ""))
    assert split_output(steps, run(steps)) == ("one\n", "", "two\n")


def test_a_command_that_fails_is_seen_and_those_after_it_run() -> None:
    steps = (Step("false", ""), Step("echo two", ""))
    with pytest.raises(AssertionError, match=r"\['false'\] failed:(?s:.)*two"):
        split_output(steps, run(steps))


def test_a_command_that_fails_is_seen_although_the_same_one_works_later() -> None:
    counted = Step('[ -n "${seen:-}" ]', "")
    steps = (counted, Step("seen=1", ""), counted)
    with pytest.raises(AssertionError, match="seen"):
        split_output(steps, run(steps))


def test_commands_of_modelplane_may_report_that_something_does_not_fit() -> None:
    steps = (Step("modelplane () { return $1; }", ""), Step("modelplane 2", ""), Step("modelplane 1", ""))
    assert split_output(steps[:2], run(steps[:2])) == ("", "")
    with pytest.raises(AssertionError, match="'modelplane 1'"):
        split_output(steps, run(steps))


def run(steps: tuple[Step, ...]) -> str:
    return subprocess.run(
        ["bash", "-euc", write_script(steps)], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        pytest.param("gemma   1/1   12s\n", "gemma 1/1   4m5s\n", True, id="ages and columns vary"),
        pytest.param(
            "at http://a.localhost:8080/v1\n", "at http://a.localhost:9123/v1\n", True, id="ports vary"
        ),
        pytest.param("gemma-6f7d8c9b54-x2x4z\n", "gemma-5f7d8c9b50-aaaaa\n", True, id="names of pods vary"),
        pytest.param("198.18.0.4\n", "198.18.3.77\n", True, id="addresses vary"),
        pytest.param("gemma   1/1\n", "gemma   0/1\n", False, id="numbers of replicas do not vary"),
        pytest.param("a\n...\nc\n", "a\nb\nb\nc\n", True, id="lines that the page omits"),
        pytest.param("a\n...\nc\n", "a\nc\n", True, id="no line that the page omits"),
        pytest.param("a\n...\nc\n", "a\nb\n", False, id="the line after those that the page omits"),
        pytest.param('{"a": 1, ...}\n', '{"a": 1, "id": "x"}\n', True, id="a part of a line"),
        pytest.param('{"a": 1, ...}\n', '{"a": 2, "id": "x"}\n', False, id="the rest of a line"),
        pytest.param("a\n", "a\nb\n", False, id="a line that the page does not show"),
        pytest.param("", "", True, id="nothing printed"),
    ],
)
def test_an_output_is_compared_but_for_what_varies(expected: str, printed: str, same: bool) -> None:
    assert is_shown(expected, printed) is same


PAGE = "# A page\n\n1. Apply:\n\n   ```console\n   $ one\n   old\n   $ two\n   ```\n\nMore text.\n"


def test_another_output_fails_with_what_was_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RECORD, raising=False)
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    with pytest.raises(AssertionError, match=r"`one` printed, run this test with MODELPLANE_RECORD=1.*\nnew"):
        check_outputs(page, (Step("one", "old\n"), Step("two", "")), ("new\n", ""))
    assert page.read_text() == PAGE


def test_another_output_is_written_into_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RECORD, "1")
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    check_outputs(page, (Step("one", "old\n"), Step("two", "")), ("new\n", "now something\n"))
    assert page.read_text() == PAGE.replace("old", "new").replace("$ two\n", "$ two\n   now something\n")


def test_the_same_command_twice_has_an_output_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RECORD, "1")
    page = tmp_path / "page.md"
    page.write_text("```console\n$ one\n```\n\n```console\n$ one\n```\n")
    check_outputs(page, (Step("one", ""), Step("one", "")), ("a\n", "b\n"))
    assert page.read_text() == "```console\n$ one\na\n```\n\n```console\n$ one\nb\n```\n"
