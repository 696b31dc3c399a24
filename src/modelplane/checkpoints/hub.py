"""A checkpoint on the Hugging Face hub, by the hub's own library.

Headers are read by range requests. The token is that of the library: ``HF_TOKEN``, or of ``hf auth login``.
A file is asked for again after a failure without a verdict, because a model may have hundreds.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import httpx2

from modelplane.sizing.loaded_weights import Tensor, parse_tensor
from modelplane.user_error import UserError

DELAYS_S: Final = (0.5, 1.0, 2.0)
"""Pauses before another try to read a file or a header."""
_TIMEOUT_S: Final = 30.0
_RETRIED_STATUSES: Final = frozenset({429, 500, 502, 503, 504})

Result = TypeVar("Result")


class Hub:
    """A repository of the hub."""

    def __init__(self, repo: str, revision: str = "") -> None:
        from huggingface_hub import HfApi  # noqa: PLC0415 - optional, and slow to import
        from huggingface_hub.utils.tqdm import disable_progress_bars  # noqa: PLC0415 - as above

        disable_progress_bars()
        self.name = repo
        self._api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
        try:
            about: Any = self._api.model_info(repo, revision=revision or None, files_metadata=True)
        except Exception as error:
            raise _convert_error(repo, error) from error
        # One commit for all files, whatever is pushed meanwhile.
        self._revision: str = about.sha
        self.needs_token = bool(about.gated or about.private)
        self._sizes: dict[str, int] = {
            sibling.rfilename: sibling.size or 0 for sibling in about.siblings or ()
        }

    def list_files(self) -> Collection[str]:
        """Return the names of the files."""
        return sorted(self._sizes)

    def read_content(self, file: str, limit: int) -> bytes:
        """Return a file of at most ``limit`` bytes."""
        if self._sizes[file] > limit:
            raise UserError(f'"{file}" of {self.name} has more than {limit:,} bytes: it is none of a model')
        return self._retry(lambda: self._download(file))

    def _download(self, file: str) -> bytes:
        with TemporaryDirectory() as folder:
            path = self._api.hf_hub_download(
                self.name, file, revision=self._revision, local_dir=folder, etag_timeout=10
            )
            return Path(path).read_bytes()

    def read_header(self, file: str) -> Iterator[Tensor]:
        """Yield the tensors of a safetensors file."""
        metadata: Any = self._retry(
            lambda: self._api.parse_safetensors_file_metadata(
                self.name, file, revision=self._revision, timeout=_TIMEOUT_S
            )
        )
        for name, read in metadata.tensors.items():
            yield parse_tensor(name, read.dtype, read.shape, file)

    def _retry(self, attempt: Callable[[], Result]) -> Result:
        for delay in (*DELAYS_S, None):
            try:
                return attempt()
            except Exception as error:
                if delay is None or not _is_transient(error):
                    raise _convert_error(self.name, error) from error
                time.sleep(delay)
        raise AssertionError  # pragma: no cover - the last try returns or raises


def _is_transient(error: Exception) -> bool:
    from huggingface_hub import errors  # noqa: PLC0415 - optional, and slow to import

    if isinstance(error, errors.HfHubHTTPError):
        return error.response.status_code in _RETRIED_STATUSES
    return isinstance(error, httpx2.TransportError)


def _convert_error(repo: str, error: Exception) -> Exception:
    """Return an error of the library as one of sizing; a bug unchanged."""
    from huggingface_hub import errors  # noqa: PLC0415 - optional, and slow to import

    for type_, remedy in (
        (errors.GatedRepoError, "ask for access on its page, then set HF_TOKEN or run `hf auth login`"),
        (errors.RepositoryNotFoundError, "correct OWNER/NAME, or set HF_TOKEN if it is private"),
        (errors.RevisionNotFoundError, "name a branch, tag or commit that exists"),
        (errors.HFValidationError, "write OWNER/NAME, or ./FOLDER for a folder"),
        (errors.SafetensorsParsingError, "convert the checkpoint again"),
        (errors.HfHubHTTPError, "try again later"),
        (httpx2.HTTPError, "connect to the hub, set HF_ENDPOINT to a mirror, or size a folder"),
        (OSError, "connect to the hub, set HF_ENDPOINT to a mirror, or size a folder"),
    ):
        if isinstance(error, type_):
            text = str(error).strip().splitlines() or [type(error).__name__]
            shown = "".join(letter for letter in text[0].rstrip(".")[:300] if letter.isprintable())
            return UserError(f'cannot read "{repo}" on the hub: {shown}: {remedy}')
    return error
