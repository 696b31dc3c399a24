"""Text of a kubeconfig with another token: everything else stays, comments and other contexts included."""

from typing import Any

import yaml

from modelplane.kube import kubeconfig_secret


def rewritten(text: bytes, token: str, key: str, where: str) -> bytes:
    """Return the text with another token of the current context's user. Raises ``ValueError``."""
    before = kubeconfig_secret.parsed(text, key, where)
    try:
        whole = text.decode()
        node = _token(yaml.compose(whole, kubeconfig_secret.LOADER), before["users"][0]["name"])
        start, end = node.start_mark.index, node.end_mark.index
        # A block scalar includes the line breaks after it.
        replaced = whole[start:end]
        breaks = replaced[len(replaced.rstrip()) :]
        after = f'{whole[:start]}"{token}"{breaks}{whole[end:]}'.encode()
        if kubeconfig_secret.parsed(after, key, where) == kubeconfig_secret.with_token(before, token):
            return after
    except (LookupError, ValueError):
        pass  # the cause would quote the text, which has credentials
    raise ValueError(f'cannot replace the token in key "{key}" of {where}: write it there in one line')


def _token(root: Any, user: str) -> Any:
    """Return the node of a user's token."""
    users = map(_fields, _fields(root)["users"].value)
    [found] = [each for each in users if "name" in each and each["name"].value == user]
    return _fields(found["user"])["token"]


def _fields(node: Any) -> dict[str, Any]:
    """Return the fields of a mapping; of a repeated one the last counts, as where the text is loaded."""
    return {key.value: value for key, value in node.value}
