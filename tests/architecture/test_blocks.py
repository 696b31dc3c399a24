"""Blocks of code on the pages: what a reader copies is accepted by the program that it is for."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from modelplane.api.kinds import KINDS, Kind
from modelplane.cli.main import main
from modelplane.offline.check import validation
from modelplane.offline.files.diagnostics import Severity
from modelplane.offline.files.sources import Source
from support import page_runs, shown_blocks
from support.shell_lines import commands
from support.shown_blocks import EXECUTED, MOST_WITHOUT_OUTPUT, ROOT, VALIDATED, Block, is_offline
from support.transcripts import check_outputs, read_page

SHELL = list(shown_blocks.blocks("bash"))
MANIFESTS = list(shown_blocks.blocks("yaml"))
RECIPES = sorted(ROOT.glob("examples/recipes/*/README.md"))


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ORDINARY = names(
    "aws cat cd claude cp crane crossplane curl docker eksctl export gcloud grep helm hf jq kind kubeconform "
    "ls make mkdir openssl pip python python3 read sed seq sh skopeo sleep source ssh tar true umask wait "
    "xargs"
)
"""Programs that pages use beside Modelplane's and kubectl."""

ELIDED = "# engines: ..."
"""Stands on a page for engines that matter not there."""

VERBS = names(
    "annotate apply auth config create delete describe edit events explain get label logs patch port-forward "
    "rollout scale set wait"
)
KUBERNETES = names(
    "all apiservice clusterrole clusterrolebinding compositeresourcedefinition configmap crd deployment "
    "deviceclasse endpointslice event gateway gatewayclass hpa httproute ingress job lease namespace node "
    "ns persistentvolumeclaim pod pvc resourceclaim resourceslice role rolebinding sa secret service "
    "serviceaccount storageclass svc xrd"
)
OTHERS = names(
    "composition configuration function functionrevision managedresourcedefinition modelplane object "
    "provider release usage volumeattributesclass"
)


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_every_command_of_a_block_would_be_accepted(block: Block) -> None:
    refused = [" ".join(words) for words in commands(block.text) if _refused(words)]
    assert refused == []


def _refused(words: list[str]) -> bool:
    name, *arguments = words
    name = name.rsplit("/", 1)[-1]
    if [name, *arguments[:1]] in (["modelplane", "kubectl"], ["kubectl", "modelplane"]):
        return _refused(arguments)
    if name == "modelplane":
        return not _parses(main, arguments)
    if name == "kubectl":
        return not _is_kubectl(arguments)
    return name not in ORDINARY


def _parses(command: click.Command, arguments: list[str]) -> bool:
    """Return true if the command and its options exist; values are not looked at."""
    context = click.Context(command)
    try:
        _, rest, _ = command.make_parser(context).parse_args(list(arguments))
        if isinstance(command, click.Group) and rest:
            found = command.get_command(context, rest[0])
            return found is not None and _parses(found, rest[1:])
    except click.UsageError:
        return False
    return True


def _is_kubectl(arguments: list[str]) -> bool:
    """Return true if kubectl knows the verb, and Kubernetes or Modelplane a kind among the words after it.

    Words of a shell's variables are not looked at, nor those that options take.
    """
    text = " ".join(arguments)
    verb, _, rest = _GLOBAL.sub("", text).strip().partition(" ")
    if verb in {"auth", "config", "events", "logs", "port-forward", "rollout", "create", "set"}:
        return True
    if files := re.findall(r"-f (\S+)", rest):
        return verb in VERBS and all(file.startswith("-") or _is_shown(file) for file in files)
    words = re.findall(r"(?<!\S)(?:[a-z.]+(?:,[a-z.]+)*(?:/\S+)?(?!\S)|\$\w+|SUBSTITUTED)", rest)
    return verb in VERBS and any(each[0] in "$S" or set(_kinds(each)) <= _known() for each in words)


_GLOBAL = re.compile(r"(?<!\S)(?:--context|-n|--namespace|--kubeconfig)[ =]\S+")


def _is_shown(file: str) -> bool:
    """Return true if a file that a page names is of the repository, or one that the reader makes."""
    return not file.startswith("examples/") or (ROOT / file).exists()


def _kinds(word: str) -> Iterator[str]:
    for each in word.partition("/")[0].split(","):
        name = each.partition(".")[0]
        yield name if name in _known() else name.removesuffix("s")


def _known() -> set[str]:
    ours = {
        name
        for kind in KINDS
        for name in (kind.plural, kind.plural.removesuffix("s"), kind.singular, kind.short)
    }
    return ours | KUBERNETES | OTHERS


@pytest.mark.parametrize("block", [block for block in SHELL if is_offline(block)], ids=str)
def test_every_block_of_commands_over_files_of_the_repository_runs(
    block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    outputs = []
    for _, *arguments in commands(block.text):
        done = CliRunner().invoke(main, arguments)
        # 2 says that a replica has no place, which some pages show.
        assert done.exit_code in {0, 2}, f"{arguments}: {done.output}"
        assert not isinstance(done.exception, Exception), done.exception
        outputs.append(done.output)
    if block.steps:
        check_outputs(ROOT / block.page, block.steps, tuple(outputs))


@pytest.mark.parametrize("block", MANIFESTS, ids=str)
def test_every_whole_manifest_is_one_that_an_api_server_would_accept(block: Block) -> None:
    whole = [
        document
        for document in yaml.safe_load_all(block.text)
        if isinstance(document, dict) and {"apiVersion", "kind", "metadata"} <= document.keys()
    ]
    found = validation.validate([Source(str(block), yaml.safe_dump_all(whole))])
    errors = [str(each) for each in found.problems if each.severity is Severity.ERROR]
    assert [each for each in errors if not (ELIDED in block.text and "engines are required" in each)] == []


def test_every_block_with_an_output_is_run_and_any_other_has_a_reason() -> None:
    unproven = [block for block in SHELL if not shown_blocks.is_run(block)]
    assert [str(block) for block in unproven if block.steps or not shown_blocks.reason(block.page)] == []
    pages = {block.page for block in unproven}
    assert [row for row in VALIDATED if not any(page.startswith(row) for page in pages)] == []
    assert sorted((EXECUTED.keys() | page_runs.PAGES.keys()) - {block.page for block in SHELL}) == []


def test_every_block_of_the_tutorials_shows_an_output() -> None:
    silent = [str(b) for b in SHELL if re.match(r"examples/\d", b.page) and not b.steps]
    assert silent == []


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.parent.name)
def test_a_recipe_shows_its_manifests_and_its_plan(page: Path) -> None:
    folder = page.parent.relative_to(ROOT).as_posix()
    shown = re.findall(rf"^<!-- include: {folder}/([\w-]+\.yaml) -->$", page.read_text(), re.MULTILINE)
    deployments = {path.name for path in page.parent.glob("model-deployment*.yaml")}
    assert shown, "a recipe without a manifest"
    assert deployments <= set(shown)
    steps = [step for steps in read_page(page) for step in steps]
    assert not deployments or any(step.command.startswith("modelplane plan ") for step in steps)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_page_of_a_kind_shows_a_manifest_of_it(kind: Kind) -> None:
    page = (ROOT / "docs" / "reference" / f"{kind.module}.md").read_text()
    assert re.search(rf"^<!-- include: \S+\.yaml#{kind.name} -->$", page, re.MULTILINE)


def test_few_blocks_of_the_how_tos_show_no_output() -> None:
    silent = [str(block) for block in SHELL if block.page.startswith("docs/how-to/") and not block.steps]
    assert len(silent) <= MOST_WITHOUT_OUTPUT, silent


@pytest.mark.parametrize(("page", "test"), EXECUTED.items(), ids=EXECUTED)
def test_the_test_that_executes_a_page_names_it(page: str, test: str) -> None:
    folder = page.removesuffix("/README.md").rpartition("/")[2]
    assert folder in (ROOT / test).read_text()
