"""The function in the process of the test, telling the time by the fleet's clock."""

from collections.abc import Callable
from datetime import datetime

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.crossplane.function.runner import Runner
from modelplane.crossplane.function.structs import RunFunctionRequest
from support.crossplane.composite import Run
from support.crossplane.fleet import Fleet


def answering(now: Callable[[], datetime]) -> Run:
    """Return a function that tells the time by a clock."""
    runner = Runner(now=now)
    return lambda request: runner.run(RunFunctionRequest.FromString(request.SerializeToString()))


def by_its_own_clock() -> Fleet:
    """Return a fleet whose function takes its time to be the function's as well."""
    made: list[Run] = []

    def run(request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
        return made[0](request)

    fleet = Fleet(run)
    made.append(answering(fleet.clock.time))
    return fleet
