"""What unquoted words mean, as kubectl 1.35 answers; ``tests/kubernetes`` asks it again."""

import pytest

from modelplane.offline.files.yaml_text import NotFinite, resolve
from support.kubectl_scalars import ANSWERS, NOT_FINITE


@pytest.mark.parametrize(("text", "value"), ANSWERS.items(), ids=repr)
def test_a_word_means_what_kubectl_takes_it_for(text, value):
    found = resolve(text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("text", NOT_FINITE)
def test_what_json_cannot_carry_is_refused(text):
    with pytest.raises(NotFinite):
        resolve(text)


def test_a_number_of_a_million_digits_is_a_text_at_once():
    digits = "9" * 1_000_000
    assert resolve(digits) == digits
