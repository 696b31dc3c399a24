import sys

import pytest

from modelplane.compose.added_containers import HYDRATION
from modelplane.compose.cache.staging_program import PROGRAM, REQUIREMENTS, SOURCES_PROGRAM
from modelplane.compose.cache.staging_sources import MARKER
from modelplane.kubelet.engines import launchers
from support.rejections import message_of

ENGINES = "start a container runtime (docker, podman or nerdctl), or allow commands on this machine itself"


def test_the_download_of_a_cache_runs_with_the_agents_own_python() -> None:
    arguments = ("/mnt/artifact", MARKER, REQUIREMENTS, "65")
    container = {
        "image": HYDRATION.reference,
        "command": ["python", "-c", PROGRAM, *arguments],
        "volumeMounts": [{"name": "artifact", "mountPath": "/mnt/artifact"}],
    }
    command = launchers.build_command_line(container, {}, "127.77.1.2", host_commands=False)
    assert command == (sys.executable, "-E", "-P", "-c", PROGRAM, *arguments)


def test_the_program_for_other_sources_runs_too_and_a_pod_cannot_lead_it_to_the_machine_itself() -> None:
    container = {
        "image": HYDRATION.reference,
        "command": ["python", "-c", SOURCES_PROGRAM, "/mnt/artifact", MARKER, "65"],
        "volumeMounts": [{"name": "artifact", "mountPath": "/mnt/artifact"}],
    }
    variables = {"SOURCE": '{"http": {}}', "ARTIFACT": "c0ffee", "LIMIT": "1", "TOKEN": "x"}
    command = launchers.build_command_line(container, variables, "127.77.1.2", host_commands=False)
    assert command == (sys.executable, "-E", "-P", "-c", SOURCES_PROGRAM, "/mnt/artifact", MARKER, "65")
    allowed = variables | {"MODELPLANE_CACHE_ALLOW_LOCAL": "1"}
    refused = launchers.build_command_line(container, allowed, "127.77.1.2", host_commands=False)
    assert 'does not accept the variable "MODELPLANE_CACHE_ALLOW_LOCAL"' in message_of(refused)


@pytest.mark.parametrize("image", [HYDRATION.reference, "python:3.12"])
def test_no_other_program_of_a_python_image_runs_unless_that_is_allowed(image: str) -> None:
    container = {"image": image, "command": ["python", "-c", "print(1)"]}
    refused = launchers.build_command_line(container, {}, "127.77.1.2", host_commands=False)
    assert message_of(refused) == (
        f'cannot run the command "python" of image "{image}" without a container runtime: {ENGINES} with '
        "--host-commands"
    )
    command = launchers.build_command_line(container, {}, "127.77.1.2", host_commands=True)
    assert command == ("python", "-c", "print(1)")
