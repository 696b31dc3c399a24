"""Manifests as text, and what the offline commands make of a text."""

import io
from collections.abc import Sequence

from modelplane.offline.check.validation import Validation, validate
from modelplane.offline.files.sources import Source, read
from modelplane.offline.files.store import Loaded, load

API = "modelplane.ai/v1alpha1"

CLASS = """\
apiVersion: modelplane.ai/v1alpha1
kind: InferenceClass
metadata: {name: l4}
spec:
  devices:
    - name: gpu
      driver: gpu.nvidia.com
      deviceClassName: gpu.nvidia.com
      count: 1
      capacity: {memory: {value: 23034Mi}}
"""

DEPLOYMENT = """\
apiVersion: modelplane.ai/v1alpha1
kind: ModelDeployment
metadata:
  name: qwen
  namespace: ml-team
spec:
  replicas: 1
  engines:
    - name: qwen
      members:
        - nodeSelector:
            devices:
              - name: gpu
                selectors:
                  - cel: device.driver == "gpu.nvidia.com"
          template:
            spec:
              containers:
                - name: engine
                  image: vllm/vllm-openai:v0.23.0
"""


def cluster(name: str, *, nodes: int = 2, class_name: str = "l4", extra: str = "") -> str:
    """Return an InferenceCluster of one pool, as a platform team writes it."""
    return f"""\
apiVersion: modelplane.ai/v1alpha1
kind: InferenceCluster
metadata: {{name: {name}}}
spec:
  cluster: {{source: Existing, existing: {{secretRef: {{name: kubeconfig}}}}}}
  nodePools:
    - {{name: pool, className: {class_name}, nodeCount: {nodes}}}
{extra}"""


def joined(*documents: str) -> str:
    """Return one text of several documents."""
    return "---\n".join(documents)


def validated(text: str | bytes) -> Validation:
    """Return what ``modelplane validate -`` says of a text."""
    content = text if isinstance(text, bytes) else text.encode()
    return validate(read(["-"], lambda: io.BytesIO(content)))


def said(text: str | bytes) -> Sequence[str]:
    """Return the lines of problems that ``modelplane validate -`` prints."""
    return [str(problem) for problem in validated(text).problems]


def loaded(text: str) -> Loaded:
    """Return the objects of a text, and what is wrong with it."""
    return load([Source("stdin", text)])
