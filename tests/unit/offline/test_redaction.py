"""What Secrets hold is not printed."""

import base64

from modelplane.offline.files.report_documents import collect_hidden_values, redact

TOKEN = "hf_abcdefgh"
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "token"},
    "data": {"HF_TOKEN": base64.b64encode(TOKEN.encode()).decode(), "binary": "/w=="},
    "stringData": {"short": "true", "plain": "swordfish"},
}


def test_every_value_that_is_long_enough_to_be_known_again_is_hidden():
    assert collect_hidden_values([SECRET, {"kind": "ConfigMap", "data": {"a": "visible-text"}}]) == {
        TOKEN,
        SECRET["data"]["HF_TOKEN"],
        "swordfish",
    }


def test_the_data_of_a_secret_is_never_printed():
    assert redact({"items": [SECRET]}) == {
        "items": [
            {
                **SECRET,
                "data": {"HF_TOKEN": "(hidden)", "binary": "(hidden)"},
                "stringData": {"short": "(hidden)", "plain": "(hidden)"},
            }
        ]
    }


def test_a_text_that_contains_a_hidden_value_is_not_printed_wherever_it_is():
    assert redact({"args": [f"--token={TOKEN}", "--x"]}, frozenset({TOKEN})) == {"args": ["(hidden)", "--x"]}
