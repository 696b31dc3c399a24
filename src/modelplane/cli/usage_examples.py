"""An example of each command, which its help ends with."""

from typing import Final

EXAMPLES: Final = {
    "up": "modelplane up --clusters 3",
    "down": "modelplane down --purge",
    "status": "modelplane status -o json",
    "dashboard": "modelplane dashboard --port 8790",
    "mcp": "modelplane mcp --http 127.0.0.1:8791",
    "top": "modelplane top --once",
    "logs": "modelplane logs md/gemma -n ml-team --follow",
    "chat": 'modelplane chat first-answer -n ml-team "What is the capital of France?"',
    "example": "modelplane example first-answer | modelplane kubectl apply -f -",
    "kubeconfig": "export KUBECONFIG=$(modelplane kubeconfig)",
    "validate": "modelplane validate examples/01-first-answer",
    "schema": "modelplane schema ModelDeployment",
    "render": "modelplane render deployment.yaml --required fleet/",
    "plan": "modelplane plan deployments/ --fleet fleet/",
    "size": "modelplane size Qwen/Qwen3-8B --context-length 16384 --concurrency 32",
    "deploy": "modelplane deploy Qwen/Qwen3-8B --context-length 16384 -n ml-team",
    "explain": "modelplane explain md/gemma -n ml-team",
    "classes list": "modelplane classes list --card h200",
    "classes show": "modelplane classes show gke-h200-8x-a3-ib",
    "classes apply": "modelplane classes apply gke-h200-8x-a3-ib l4-1x",
    "cluster register": "modelplane cluster register gpu-1 --cluster-kubeconfig gpu.kubeconfig --apply",
    "cluster cordon": "modelplane cluster cordon gpu-1 --pool h100",
    "cluster drain": "modelplane cluster drain gpu-1 --timeout 1h",
    "cluster uncordon": "modelplane cluster uncordon gpu-1",
    "rollout status": "modelplane rollout status md/qwen -n ml-team",
    "rollout history": "modelplane rollout history md/qwen -n ml-team",
    "rollout pause": "modelplane rollout pause md/qwen -n ml-team",
    "rollout resume": "modelplane rollout resume md/qwen -n ml-team",
    "rollout promote": "modelplane rollout promote md/qwen -n ml-team",
    "rollout undo": "modelplane rollout undo md/qwen -n ml-team --to-revision 3",
    "key create": "modelplane key create ci -n ml-team --requests-per-minute 60 --expires 90d",
    "key list": "modelplane key list -A",
    "key rotate": "modelplane key rotate ci -n ml-team --overlap 7d",
    "key revoke": "modelplane key revoke ci -n ml-team",
    "usage": "modelplane usage --by key --since 1h",
    "install": "modelplane install --image registry.example.org/modelplane:1 | kubectl apply -f -",
    "images": "modelplane images -o json",
    "uninstall": "modelplane uninstall --context staging",
    "backup": "modelplane backup fleet.backup --passphrase-file passphrase",
    "restore": "modelplane restore fleet.backup --dry-run",
    "cleanup": "modelplane cleanup ml-team --dry-run",
    "controller": "modelplane controller --kubeconfig fleet.kubeconfig",
    "heartbeat": "modelplane heartbeat gpu-1 --kubeconfig fleet.kubeconfig",
    "gateway": "modelplane gateway --dir /var/run/envoy",
    "metrics": "modelplane metrics --address 0.0.0.0:6443 --tls-cert tls.crt --tls-key tls.key "
    "--client-ca front-proxy-ca.crt --gateway-service modelplane-gateway",
    "function": "modelplane function --insecure",
    "package build": "modelplane package build --dir packages/",
    "package prerequisites": "modelplane package prerequisites | kubectl apply -f -",
    "completion": "source <(modelplane completion bash)",
}
"""The examples, by the names of commands."""


def write_epilog(path: str) -> str | None:
    """Return the end of a command's help; None without an example."""
    example = EXAMPLES.get(path)
    # The first line keeps click from wrapping the example.
    return f"\b\nExample:\n  {example}" if example else None
