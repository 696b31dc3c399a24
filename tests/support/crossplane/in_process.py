"""The function in the process of the test, telling the time by the fleet's clock."""

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.crossplane.function.messages import RunFunctionRequest
from modelplane.crossplane.function.runner import Runner
from support.crossplane.fleet import Fleet


def by_its_own_clock() -> Fleet:
    """Return a fleet whose function takes its time to be the function's as well."""

    def run(request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
        return runner.run(RunFunctionRequest.FromString(request.SerializeToString()))

    fleet = Fleet(run)
    runner = Runner(now=fleet.clock.time)
    return fleet
