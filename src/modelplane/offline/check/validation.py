"""Check of manifests as by the API server, with all errors at once.

One rule: the API server accepts every manifest that passes. Five mistakes are errors only here: a duplicate
key of a mapping, a duplicate object of a file, a device selector that does not compile or fails on every
device, a reserved namespace, for which nothing is composed, and pods that no cluster accepts.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from msgspec.structs import replace

from modelplane import cel
from modelplane.api.listing import count_noun
from modelplane.api.meta import Object
from modelplane.offline.check.object_check import find_selectors
from modelplane.offline.files import manifest_objects
from modelplane.offline.files.diagnostics import ObjectName, Problem, Severity, format_path, limit_text
from modelplane.offline.files.manifest_objects import Foreign, Repeats
from modelplane.offline.files.report_documents import Output, Report
from modelplane.offline.files.sources import Source, Unopened
from modelplane.offline.lint.advice import Configs, Lint

MOST_PROBLEMS: Final = 10_000
"""Maximum of problems reported in one run."""

IGNORED: Final = "# modelplane:ignore"
"""Comment at the end of a line whose warnings are not reported."""


class Counts(Output, frozen=True, kw_only=True):
    """Counts of checked objects and problems."""

    files: int
    objects: int
    """Objects of Modelplane's kinds."""
    skipped: int
    """Objects of other kinds."""
    ignored: int
    """Documents of folders that are not Kubernetes objects."""
    errors: int
    warnings: int


class Validation(Report, frozen=True, kw_only=True):
    """Document of ``modelplane validate -o json``."""

    kind: Literal["Validation"] = "Validation"
    valid: bool
    summary: Counts
    problems: tuple[Problem, ...]


def describe(report: Validation, *, live: bool = False) -> str:
    """Return the result as one line; ``live`` for a report with the selectors of a control plane."""
    counts = report.summary
    if report.valid:
        sentence = f"{count_noun(counts.objects, 'object')} valid"
        if counts.warnings:
            sentence += f" with {count_noun(counts.warnings, 'warning')}"
    else:
        sentence = count_noun(counts.errors, "error")
        if counts.warnings:
            sentence += f" and {count_noun(counts.warnings, 'warning')}"
        sentence += f" in {count_noun(counts.objects, 'object')}"
    others = (
        (counts.skipped, "object", "of other kinds"),
        (counts.ignored, "document", "without a Kubernetes object"),
    )
    skipped = ", ".join(f"{count_noun(count, noun)} {which}" for count, noun, which in others if count)
    if counts.files or not live:
        sentence += f", {count_noun(counts.files, 'file')}"
    if live:
        sentence += "; checked the device selectors on the control plane"
    return f"{sentence}; {skipped} skipped" if skipped else sentence


def validate(
    sources: Iterable[Source | Unopened], configs: Configs = lambda _repo, _revision: None
) -> Validation:
    """Check every object of every file.

    ``configs`` returns the ``config.json`` of a repository of the hub, if it is at hand.
    """
    files = objects = skipped = ignored = 0
    ignored_lines: set[tuple[str, int]] = set()

    def count_files() -> Iterator[Source | Unopened]:
        nonlocal files
        for source in sources:
            files += 1
            if isinstance(source, Source):
                ignored_lines.update((source.name, line) for line in _find_ignored(source.text))
            yield source

    problems: list[Problem] = []
    # Duplicates in a folder may be alternatives.
    repeats = Repeats(alternatives=True)
    lint = Lint()
    for document in manifest_objects.read(count_files()):
        if len(problems) >= MOST_PROBLEMS:
            problems.append(_too_many(problems[-1]))
            break
        if isinstance(document, Problem):
            problems.append(document)
        elif isinstance(document, Foreign):
            ignored += 1
        elif document.kind is None:
            skipped += 1
        else:
            objects += 1
            problems += [*repeats.find_problems(document), *manifest_objects.find_problems(document)]
            lint.read(document)
    problems += lint.find_problems(configs)
    problems = [
        problem
        for problem in problems
        if problem.severity is Severity.ERROR or (problem.path, problem.line) not in ignored_lines
    ]
    errors = sum(problem.severity is Severity.ERROR for problem in problems)
    counts = Counts(
        files=files,
        objects=objects,
        skipped=skipped,
        ignored=ignored,
        errors=errors,
        warnings=len(problems) - errors,
    )
    return Validation(valid=not errors, summary=counts, problems=tuple(problems))


def _find_ignored(text: str) -> Iterator[int]:
    """Yield the numbers of lines that end with the comment."""
    if IGNORED in text:
        lines = text.splitlines()
        yield from (number for number, line in enumerate(lines, 1) if line.rstrip().endswith(IGNORED))


def add_stored(report: Validation, errors: Iterable[Problem], objects: int) -> Validation:
    """Return a report with the errors of stored objects, and their number."""
    added = tuple(errors)
    counts = replace(
        report.summary,
        objects=report.summary.objects + objects,
        errors=report.summary.errors + len(added),
    )
    problems = (*report.problems, *added)
    return replace(report, valid=report.valid and not added, summary=counts, problems=problems)


def report_refused(problems: tuple[Problem, ...], *, files: int, accepted: int) -> Validation:
    """Return the report of commands other than ``validate`` about invalid objects."""
    errors = sum(problem.severity is Severity.ERROR for problem in problems)
    named = {(problem.path, problem.object) for problem in problems if problem.object is not None}
    counts = Counts(
        files=files,
        objects=accepted + len(named),
        skipped=0,
        ignored=0,
        errors=errors,
        warnings=len(problems) - errors,
    )
    return Validation(valid=False, summary=counts, problems=problems)


def _too_many(last: Problem) -> Problem:
    message = f"there are more than {MOST_PROBLEMS:,} problems, so the remaining objects were not checked"
    return replace(last, object=None, field="", message=f"{message}: correct these first", excerpt=())


def find_stored_problems(items: Iterable[Object]) -> Iterator[Problem]:
    """Yield an error for each device selector of a fleet that is no longer accepted."""
    for item in items:
        if item["metadata"].get("ownerReferences"):
            continue  # written by Modelplane, from an object that is listed itself
        for path, expression in find_selectors(item.get("spec", {}), ("spec",)):
            try:
                cel.compile(expression)
            except cel.SelectorError as error:
                yield Problem(
                    path="control plane",
                    line=0,
                    column=0,
                    severity=Severity.ERROR,
                    object=ObjectName.of(item),
                    field=format_path(path),
                    message=f"selector `{limit_text(expression)}` does not compile: {error.problem}",
                )
