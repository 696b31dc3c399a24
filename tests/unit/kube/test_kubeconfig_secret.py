import pytest

from modelplane.kube.kubeconfig_secret import parse_kubeconfig


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"a: [", id="no YAML"),
        pytest.param(b"a", id="no mapping"),
        pytest.param(b'a: !!int ""', id="a number without digits"),
        pytest.param(b"token: !!bool s3cr3t", id="a truth value that is none"),
        pytest.param(b"a: !!timestamp x", id="a time that is none"),
        pytest.param(b"a: !!python/object:os.system {}", id="an object of Python"),
        pytest.param(b"a: " + b"[" * 100_000, id="nested without end"),
    ],
)
def test_a_text_that_is_no_kubeconfig_is_refused_without_quoting_it(text: bytes) -> None:
    with pytest.raises(ValueError, match=r'^key "k" of the Secret is not a kubeconfig$') as refused:
        parse_kubeconfig(text, "k", "the Secret")
    assert refused.value.__suppress_context__
