"""Pages whose console blocks a test runs on a local fleet, in the order of the page.

To add a page, add one row to PAGES below:

    "docs/how-to/keys.md": Run(before=SERVED),

`before` are lines for a shell that do what the page's "Before you begin" asks for, and `after` are lines that
undo what the page leaves behind outside objects of Modelplane. After each page, its new objects of Modelplane
are deleted, and those that it changed get their former spec and labels.

What a page can rely on, as its reader has it after `modelplane up --clusters 3 --cpu-devices 4`:
- three InferenceClusters, local-1 to local-3, each with four devices, and the InferenceGateway `default`;
- kubectl and modelplane, an empty namespace ml-team, and a folder with `examples` in it;
- one shell for all blocks of the page, so that variables remain set;
- each file that the page tells its reader to save in the line above its block: "Save it as `service.yaml`:".

Write the outputs into the page, and then run it again to see that they are shown:

    MODELPLANE_RECORD=1 .venv/bin/python -m pytest -q -n0 tests/kubernetes/test_pages.py -k keys.md

Commands that only look (kubectl get, modelplane explain, curl) are repeated until they print what the page
shows. To be recorded, they must print the same three times. Replace lines that vary, or that
nobody needs, by a line of `...`, and text in a line by `...`. A command may fail if the page shows its error.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from support.transcripts import FENCE, Step, read_steps

SERVED = """
kubectl apply -f examples/01-first-answer
kubectl wait --for=condition=Ready ms/first-answer -n ml-team --timeout=3m
"""
"""The model of the first tutorial: deployment gemma, service first-answer, in namespace ml-team."""


DEPLOYED = """
kubectl apply -f examples/01-first-answer/2-model-deployment.yaml
kubectl wait --for=condition=Ready md/gemma -n ml-team --timeout=3m
"""
"""The same without the service."""


ASSEMBLED = """
python -c 'from modelplane.kubelet.engines import llama_cpp
llama_cpp.assemble_model(llama_cpp.get_models_folder())'
"""
"""The file of that model, where a fleet puts it."""


def serve(name: str, namespace: str = "ml-team") -> str:
    """Return lines that serve the model of the first tutorial with another name."""
    changes = (
        f"s/name: gemma$/name: {name}/; s/deployment: gemma$/deployment: {name}/; s/first-answer/{name}/;"
        f" s/ml-team/{namespace}/"
    )
    return (
        f"for file in examples/01-first-answer/*.yaml; do sed '{changes}' $file | kubectl apply -f -; done\n"
        f"kubectl wait --for=condition=Ready ms/{name} -n {namespace} --timeout=3m\n"
    )


UNREGISTERED = """
kubectl config view --minify --context local-3 --flatten --raw > gpu.kubeconfig
kubectl delete ic local-3
"""
"""A cluster that is not registered, local-3, and the kubeconfig of its administrator."""
INSTALLED = "modelplane install --image registry.example.org/modelplane:0.10.0 --apply"
GATEWAY = """kubectl apply -f - <<'END'
apiVersion: modelplane.ai/v1alpha1
kind: InferenceGateway
metadata: {name: default}
spec: {backend: Envoy, authentication: APIKey}
END"""
CHECKOUT = f"ln -s {Path(__file__).parents[2] / 'package'} package"
GPU_NODES = f"""
kubectl apply -f {Path(__file__).with_name("gpu_nodes.yaml")}
cp $KUBECONFIG gpu.kubeconfig
"""
"""Nodes of the cluster as a driver of GPUs publishes them, and the kubeconfig of the cluster."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a page is run."""

    before: str = ""
    after: str = ""
    own_fleet: bool = False
    """The page itself starts a fleet: it runs without the one that the others share."""
    bare: bool = False
    """The page is about a Kubernetes cluster without Modelplane: it runs on one with the kubeconfig of its
    administrator, whose nodes only report that the pods of an installation run. helm is there too."""


PAGES: Mapping[str, Run] = {
    "docs/how-to/ai-tools.md": Run(),
    "docs/how-to/backup.md": Run(before=SERVED),
    "docs/how-to/drain.md": Run(before=SERVED),
    "docs/how-to/editors.md": Run(),
    "docs/how-to/failover.md": Run(before=SERVED),
    "docs/how-to/gateway.md": Run(before=SERVED),
    "docs/how-to/gitops.md": Run(),
    "docs/how-to/hardware.md": Run(),
    "docs/how-to/local-fleet.md": Run(before=SERVED),
    "docs/how-to/observe.md": Run(before=SERVED),
    "docs/how-to/keys.md": Run(before=SERVED),
    "docs/how-to/pod-keys.md": Run(
        before=SERVED,
        after="kubectl --context local-1 annotate ns modelplane-system allow.modelplane.ai/keys-",
    ),
    "docs/how-to/quotas.md": Run(before=SERVED),
    "docs/how-to/register.md": Run(before=UNREGISTERED, after="kubectl delete ic gpu-1\nmodelplane up"),
    "docs/how-to/spot.md": Run(
        before=SERVED, after="kubectl --context local-3 annotate node local-3 modelplane.ai/eviction-notice-"
    ),
    "docs/how-to/tls.md": Run(before=SERVED, after="kubectl delete secret models-tls -n modelplane-system"),
    "docs/how-to/autoscaling.md": Run(before=SERVED),
    "docs/how-to/autoscaling-latency.md": Run(before=SERVED),
    "docs/how-to/autoscaling-schedules.md": Run(before=SERVED),
    "docs/how-to/canary.md": Run(before="kubectl apply -f examples/01-first-answer/3-model-service.yaml"),
    "docs/how-to/deploy.md": Run(),
    "docs/how-to/expose.md": Run(before=DEPLOYED),
    "docs/how-to/external-providers.md": Run(before=SERVED, after="kubectl delete secret openai -n ml-team"),
    "docs/how-to/hugging-face.md": Run(after="kubectl delete secret hf-token -n ml-team"),
    "docs/how-to/own-model.md": Run(before=ASSEMBLED),
    "docs/how-to/prefill-decode-on-a-laptop.md": Run(own_fleet=True),
    "docs/how-to/regions.md": Run(),
    "docs/how-to/rollouts.md": Run(),
    "docs/how-to/scale-to-zero.md": Run(before=SERVED),
    "docs/how-to/size.md": Run(),
    "docs/how-to/variants.md": Run(),
    "docs/how-to/charts.md": Run(before=CHECKOUT, bare=True),
    "docs/how-to/choose-gateway.md": Run(
        before=f"{INSTALLED}\n{GATEWAY}\necho any > installer.kubeconfig", bare=True
    ),
    "docs/how-to/cluster-components.md": Run(bare=True),
    "docs/how-to/cluster-credentials.md": Run(
        before="modelplane install --inference-cluster | kubectl apply -f -", bare=True
    ),
    "docs/how-to/cost.md": Run(before=f"{SERVED}\nmodelplane chat first-answer -n ml-team Hello"),
    "docs/how-to/crossplane.md": Run(bare=True),
    "docs/how-to/images.md": Run(
        before="for name in controller gateway; do\n"
        "  kubectl create serviceaccount modelplane-$name -n modelplane-system\n"
        "done",
        after="kubectl delete sa/modelplane-controller sa/modelplane-gateway secret/registry"
        " -n modelplane-system",
    ),
    "docs/how-to/install.md": Run(before=GPU_NODES, bare=True),
    "docs/how-to/permissions.md": Run(
        before="modelplane install --image any:1 > all.yaml\n"
        "kubectl apply -f all.yaml -l rbac.authorization.k8s.io/aggregate-to-edit=true\n",
        after="kubectl delete rolebinding ml-team -n ml-team; kubectl delete clusterrolebinding platform"
        " gateway; kubectl delete role,rolebinding kubeconfigs -n modelplane-system",
    ),
    "docs/how-to/remove.md": Run(before=INSTALLED, bare=True),
    "docs/how-to/troubleshoot.md": Run(
        before="kubectl apply -f examples/topologies/spot/model-deployment.yaml\n"
        "kubectl wait md/qwen3-8b -n ml-team --for=condition=ReplicasScheduled=False"
    ),
    "docs/how-to/upgrade.md": Run(
        before=f"{INSTALLED}\n{GATEWAY}\n"
        "kubectl label deploy modelplane-controller -n modelplane-system --overwrite"
        " app.kubernetes.io/version=0.10.0",
        bare=True,
    ),
    "examples/08-prefill-and-decode/README.md": Run(own_fleet=True),
}

_SAVED = re.compile(
    r"\b[Ss]ave\b[^\n`]*(?:\n[^\n`]+)?`([\w.-]+)`[^\n]*\n\s*(?:<!-- include: [^\n]* -->)?\s*\Z"
)


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file that a page tells its reader to save."""

    name: str
    text: str


def read_parts(page: Path) -> Iterator[SavedFile | tuple[Step, ...]]:
    """Yield what a reader does with each block of a page that isn't offline: save it, or run its steps."""
    text = page.read_text()
    for match in FENCE.finditer(text):
        content = textwrap.dedent(match["text"])
        if match["language"] == "console":
            yield read_steps(content)
        elif match["language"] != "bash" and (saved := _SAVED.search(text[: match.start()])):
            yield SavedFile(saved[1], content)
