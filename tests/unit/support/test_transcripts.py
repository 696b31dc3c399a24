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
        Step("kubectl apply -f - <<END\nkind: Namespace\nEND", "namespace/ml-team created\n"),
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
    script = write_script((Step("echo one", ""), Step("true", ""), Step("echo two >&2", "")))
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=True)
    assert split_output(done.stdout) == ("one\n", "", "two\n")


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        pytest.param("gemma   1/1   12s\n", "gemma 1/1   4m5s\n", True, id="ages and columns vary"),
        pytest.param(
            "at http://a.localhost:8080/v1\n", "at http://a.localhost:9123/v1\n", True, id="ports vary"
        ),
        pytest.param("gemma-6f7d8c9b54-x2x4z\n", "gemma-5f7d8c9b50-aaaaa\n", True, id="names of pods vary"),
        pytest.param("198.18.0.4\n", "198.18.3.77\n", True, id="addresses vary"),
        pytest.param("gemma   1/1\n", "gemma   0/1\n", False, id="numbers do not"),
        pytest.param("a\n...\nc\n", "a\nb\nb\nc\n", True, id="lines that the page omits"),
        pytest.param("a\n...\nc\n", "a\nc\n", True, id="or none"),
        pytest.param("a\n...\nc\n", "a\nb\n", False, id="and not the last"),
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
