import json
from typing import Any

import pytest
import yaml

from modelplane.kube import kubeconfig_secret
from modelplane.kube.kubeconfig_secret import rewrite_token

OLD, NEW = "old.e30.c2ln", "new.e30.c2ln"
TEXT = """\
# The platform team's.
apiVersion: v1
kind: Config
current-context: "1e3"   # not a number
contexts:
- {name: "1e3", context: {cluster: c, user: ü, namespace: "0o17"}}
- {name: other, context: {cluster: c, user: other}}
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users:
- user: {exec: {command: never}}
- name: other
  user: {token: old.e30.c2ln, exec: {command: /bin/sh}}
- name: ü
  user:
    token: TOKEN
preferences: {colors: on}
"""


def _text(token: str) -> bytes:
    return TEXT.replace("TOKEN", token).encode()


def _json() -> bytes:
    return json.dumps(yaml.safe_load(_text(OLD)), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(_text(OLD), _text(f'"{NEW}"'), id="plain"),
        pytest.param(_text(f'"{OLD}"'), _text(f'"{NEW}"'), id="quoted"),
        pytest.param(_text(f"'{OLD}' # secret"), _text(f'"{NEW}" # secret'), id="with a comment"),
        pytest.param(_text(f"|-\n      {OLD}\n"), _text(f'"{NEW}"\n'), id="a block"),
        pytest.param(_text(f">-\n      {OLD}\n\n"), _text(f'"{NEW}"\n\n'), id="a folded block"),
        pytest.param(_text(f"a\n    token: {OLD}"), _text(f'a\n    token: "{NEW}"'), id="a repeated field"),
        pytest.param(_text(OLD).replace(b"\n", b"\r\n"), None, id="line ends of Windows"),
        pytest.param(_json(), None, id="JSON"),
    ],
)
def test_only_the_token_of_the_current_user_is_replaced(before: bytes, after: bytes | None) -> None:
    written = rewrite_token(before, NEW, "kubeconfig", "the Secret")
    assert after is None or written == after
    expected: Any = yaml.safe_load(before)
    expected["users"][2]["user"]["token"] = NEW
    assert yaml.safe_load(written) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TEXT.replace("    token: TOKEN", "    <<: {token: t}").encode(), id="merged"),
        pytest.param(TEXT.replace("    token: TOKEN", "    username: u").encode(), id="no token"),
        pytest.param(_text(OLD).decode().encode("utf-16"), id="another encoding"),
    ],
)
def test_a_text_in_which_the_token_cannot_be_replaced_is_an_error_that_quotes_nothing(text: bytes) -> None:
    with pytest.raises(ValueError, match=r'^cannot replace the token in key "k" of the Secret') as refused:
        rewrite_token(text, NEW, "k", "the Secret")
    assert OLD not in str(refused.value)


@pytest.mark.parametrize("token", ['a"\n    exec: {}', "a\\x41", 'a" # ', "a\nb", ""])
def test_a_token_that_would_change_more_is_not_written(token: str) -> None:
    with pytest.raises(ValueError, match="cannot replace the token"):
        rewrite_token(_text(OLD), token, "k", "the Secret")


def test_a_token_can_be_read_and_replaced_in_what_was_parsed() -> None:
    kubeconfig = kubeconfig_secret.parse_kubeconfig(_text(OLD), "k", "the Secret")
    changed = kubeconfig_secret.replace_token(kubeconfig, NEW)
    assert [kubeconfig_secret.find_token(each) for each in (kubeconfig, changed)] == [OLD, NEW]
    assert kubeconfig_secret.replace_token(changed, OLD) == kubeconfig
