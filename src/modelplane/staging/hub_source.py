"""The size of a repository of the Hugging Face hub; its files are downloaded by the hub's own library."""

import json
from typing import Any
from urllib.parse import quote

from modelplane.staging.web import ask, described, patiently

HUB = "https://huggingface.co"
WITHOUT_CODE = (".safetensors", ".json", ".txt", ".md", ".model", ".jinja", ".tiktoken")
"""Endings of the files that are staged if ``files`` is Safetensors; the library's patterns are the same."""


def sizes_of_hub(source: dict[str, Any], environment: dict[str, str]) -> list[int]:
    """Return the size of each file that would be staged."""
    endpoint = source["endpoint"] or environment.get("HF_ENDPOINT") or HUB
    revision = f"/revision/{quote(source['revision'], safe='')}" if source["revision"] else ""
    url = f"{endpoint.rstrip('/')}/api/models/{source['repo']}{revision}?blobs=true"
    token = {"Authorization": f"Bearer {environment['TOKEN']}"} if environment.get("TOKEN") else {}

    def asked() -> Any:
        with ask(url, {}, token) as answer:
            return json.loads(described(answer))

    files = patiently(asked)["siblings"]
    if source["files"] == "Safetensors":
        files = [file for file in files if file["rfilename"].endswith(WITHOUT_CODE)]
    return [int(file["size"]) for file in files]
