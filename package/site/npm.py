"""Files of npm packages, for pages that carry what they load."""

import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path


def extract(package: str, pattern: str, folder: Path) -> None:
    """Put files of a package, such as ``name@1.2.3``, into a folder.

    ``pattern`` matches paths in the package; its first group is the path below the folder. Raises SystemExit
    if npm is absent, cannot get the package, or the package has no such file.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit(f"cannot get {package}: npm is not installed. Install it, such as with Node.js")
    with tempfile.TemporaryDirectory() as packed:
        command = [npm, "pack", "--silent", "--pack-destination", packed, package]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            raise SystemExit(f"cannot get {package}: npm says: {done.stderr.strip()}")
        with tarfile.open(next(Path(packed).glob("*.tgz"))) as archive:
            found = 0
            for member in archive.getmembers():
                match = re.fullmatch(pattern, member.name.removeprefix("package/"))
                content = archive.extractfile(member) if match and member.isfile() else None
                if match and content:
                    target = folder / match[1]
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content.read())
                    found += 1
    if not found:
        raise SystemExit(f"{package} has no file that matches {pattern}")
