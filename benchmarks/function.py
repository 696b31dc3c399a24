"""Time the composition function as Crossplane sees it, over real gRPC.

    python benchmarks/function.py --clusters 1000 --pools 3 --replicas 10 --json

Prints one JSON line. The function runs as a process of its own and is asked about one ModelDeployment on a
made-up fleet, whose objects carry what Crossplane and the API server write into them. `start_seconds` is from
starting the process until it answers a health check. `first_seconds` is the request that places the replicas,
when no object has been seen; its answer creates the first five. `repeated_seconds` is the median of the same
deployment with its replicas in place, which is what Crossplane asks most of the time. Both are one
`RunFunction` from the request's bytes to the parsed answer. `request_mb` is the size of one request,
`memory_mb` the resident memory of the process at the end, `asking_seconds` the median of the first of the two
requests of a reconcile, without required resources.
"""

import argparse
import json
import socket
import statistics
import subprocess
import sys
import time
from typing import Any

import grpc
import psutil
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf.json_format import MessageToDict
from grpc_health.v1 import health_pb2, health_pb2_grpc
from schedule import cluster, deployment

ROUNDS = 30
OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 10),
    ("grpc.max_reconnect_backoff_ms", 10),
    ("grpc.min_reconnect_backoff_ms", 10),
]
METHOD = "/apiextensions.fn.proto.v1.FunctionRunnerService/RunFunction"


def server_side(item: dict[str, Any], crossplane: bool = True) -> dict[str, Any]:
    """Return an object with what the API server and Crossplane add to it."""
    metadata = item["metadata"]
    fields = {"f:spec": {f"f:{field}": {} for field in item["spec"]}, "f:metadata": {"f:labels": {}}}
    managed = [
        {"manager": manager, "operation": "Apply", "apiVersion": item["apiVersion"], "fieldsV1": fields}
        for manager in ("kubectl", "apiextensions.crossplane.io/composite")
    ]
    metadata |= {"generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": managed}
    if crossplane:
        references = [
            {"apiVersion": "kubernetes.m.crossplane.io/v1alpha1", "kind": "Object", "name": f"{number:012x}"}
            for number in range(5)
        ]
        name = f"{item['kind'].lower()}s.modelplane.ai"
        item["spec"]["crossplane"] = {
            "compositionRef": {"name": name},
            "compositionRevisionRef": {"name": f"{name}-0123456"},
            "compositionUpdatePolicy": "Automatic",
            "resourceRefs": references,
        }
    return item


def definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition of deployments, controlled by Crossplane."""
    from modelplane.api.kinds import KINDS
    from modelplane.api.schema.crd import crd

    found = crd(next(kind for kind in KINDS if kind.name == "ModelDeployment"))
    owner = {
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "name": found["metadata"]["name"],
        "uid": "xrd",
        "controller": True,
    }
    found["metadata"] |= {"uid": "crd", "resourceVersion": "1", "ownerReferences": [owner]}
    return found


def request(
    owner: dict[str, Any], required: dict[str, list[Any]], observed: dict[str, Any]
) -> fnv1.RunFunctionRequest:
    asked = fnv1.RunFunctionRequest()
    asked.observed.composite.resource.update(owner)
    for key, item in observed.items():
        asked.observed.resources[key].resource.update(item)
    for key, items in required.items():
        asked.required_resources[key].SetInParent()
        for item in items:
            asked.required_resources[key].items.add().resource.update(item)
    return asked


def placed(owner: dict[str, Any], answer: fnv1.RunFunctionResponse) -> dict[str, Any]:
    """Return the replicas of an answer as Crossplane would show them once they serve."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    shown = {}
    for key, child in answer.desired.resources.items():
        item = MessageToDict(child.resource)
        item["metadata"] |= {
            "uid": f"replica-{key}",
            "resourceVersion": "1",
            "ownerReferences": [reference],
        }
        conditions = [
            {
                "type": type_,
                "status": "True",
                "reason": "Serving",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for type_ in ("Ready", "Synced", "ModelAccepted", "ModelReady")
        ]
        item["status"] = {"conditions": conditions, "endpoint": item["metadata"]["name"]}
        shown[key] = server_side(item)
    return shown


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--pools", type=int, default=3, help="of each cluster")
    parser.add_argument("--replicas", type=int, default=10, help="how many the deployment wants")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true", help="print one JSON line; the default")
    options = parser.parse_args()
    made = argparse.Namespace(**vars(options), case="fits", engines=1, quotas=0, policy="")

    clusters = [server_side(cluster(0, number, made)) for number in range(options.clusters)]
    owner = server_side(deployment(0, made), crossplane=False)
    owner["metadata"]["resourceVersion"] = "1"
    stored = {"InferenceCluster": clusters, "CustomResourceDefinition": [definition()]}
    asking = request(owner, {}, {}).SerializeToString()

    address = f"127.0.0.1:{free_port()}"
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "modelplane.cli.main", "function", "--insecure", "--address", address],
        stderr=subprocess.DEVNULL,
    )
    try:
        with grpc.insecure_channel(address, options=OPTIONS) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            health.Check(health_pb2.HealthCheckRequest(), wait_for_ready=True, timeout=60)
            start_s = time.perf_counter() - begun
            run = channel.unary_unary(METHOD, response_deserializer=fnv1.RunFunctionResponse.FromString)

            def timed(body: bytes) -> tuple[float, fnv1.RunFunctionResponse]:
                before = time.perf_counter()
                answer = run(body)
                return time.perf_counter() - before, answer

            wanted = timed(asking)[1].requirements.resources

            def required() -> dict[str, list[Any]]:
                return {key: stored.get(each.kind, []) for key, each in wanted.items()}

            first_s, answer = timed(request(owner, required(), {}).SerializeToString())
            replicas = placed(owner, answer)
            while len(replicas) < options.replicas:  # later waves
                stored["ModelReplica"] = list(replicas.values())
                answer = timed(request(owner, required(), replicas).SerializeToString())[1]
                if len(answer.desired.resources) <= len(replicas):
                    raise SystemExit(f"the function placed {len(replicas)} replicas: {answer.results}")
                replicas = placed(owner, answer)
            stored["ModelReplica"] = list(replicas.values())
            steady = request(owner, required(), replicas)
            body = steady.SerializeToString()
            timed(body)
            repeated = [timed(body) for _ in range(options.rounds)]
            asked = [timed(asking)[0] for _ in range(options.rounds)]
            if repeated[-1][1].desired.composite.ready != fnv1.READY_TRUE:
                raise SystemExit(f"the function did not place the replicas: {answer.results}")
            result = {
                "first_seconds": round(first_s, 4),
                "repeated_seconds": round(statistics.median(seconds for seconds, _ in repeated), 4),
                "asking_seconds": round(statistics.median(asked), 4),
                "memory_mb": round(psutil.Process(process.pid).memory_info().rss / 1e6),
                "start_seconds": round(start_s, 3),
                "request_mb": round(len(body) / 1e6, 2),
                "clusters": options.clusters,
                "pools": options.pools,
                "replicas": len(replicas),
            }
    finally:
        process.terminate()
        process.wait(10)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
