"""Attacks on a container runtime's program by the variables of a pod."""

import pytest

from modelplane.kubelet.runtime.container_arguments import (
    ContainerIdentity,
    ContainerInputs,
    CreateArguments,
    create_arguments,
)
from modelplane.kubelet.runtime.container_cli import RUNTIME_KINDS, Choice
from support.rejections import message_of

POD = {"metadata": {"name": "engine"}, "spec": {"containers": [{"name": "engine"}]}}
READ = (
    "LD_PRELOAD GLIBC_TUNABLES GCONV_PATH DOCKER_HOST DOCKER_CONFIG CONTAINERS_CONF CONTAINER_HOST PATH HOME "
    "HTTPS_PROXY https_proxy SSL_CERT_FILE GODEBUG XDG_RUNTIME_DIR OTEL_EXPORTER_OTLP_ENDPOINT SSH_ASKPASS "
    "SSH_AUTH_SOCK REGISTRY_AUTH_FILE STORAGE_DRIVER NOTIFY_SOCKET LISTEN_FDS BASH_ENV TMPDIR HOSTALIASES"
)


def created(variables: dict[str, str]) -> CreateArguments:
    kind = RUNTIME_KINDS[Choice.DOCKER]
    inputs = ContainerInputs(address="198.18.1.2", environment=variables)
    made = create_arguments(kind, ContainerIdentity("name", {}), "image", POD, inputs, "/file")
    assert isinstance(made, CreateArguments), message_of(made)
    return made


@pytest.mark.parametrize("variable", [*READ.split(), "UNHEARD_OF", "TOKEN"])
def test_no_plain_value_is_in_the_programs_environment(variable: str) -> None:
    made = created({variable: "attack"})
    assert made.variables == {}
    assert "attack" not in "".join(made.arguments)
    assert made.environment_file == f"{variable}=attack\n"


@pytest.mark.parametrize("variable", READ.split())
@pytest.mark.parametrize("value", ["'a'", '"a"', "a#b", "$a", "a\\b", " a", "a" * 40_000])
def test_no_other_value_is_there_under_a_name_that_the_program_reads(variable: str, value: str) -> None:
    assert created({variable: value}).variables == {}


@pytest.mark.parametrize("variable", READ.split())
def test_a_value_of_several_lines_is_refused_under_such_a_name(variable: str) -> None:
    with pytest.raises(AssertionError, match=f'cannot set variable "{variable}"'):
        created({variable: "a\nb"})


def test_a_value_that_no_file_holds_is_passed_unchanged() -> None:
    variables = {"CERTIFICATE": "a\nb", "TEMPLATE": "{'a': \"b\"} # $c"}
    assert created(variables).variables == variables
