import resource

from modelplane.controllers.process_settings import allow_many


def test_the_limit_that_a_process_starts_with_is_raised() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[0]), before[1]))
    try:
        allow_many()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert (soft > 256, hard) == (True, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
