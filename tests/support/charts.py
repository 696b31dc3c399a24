"""Charts of the tests' own, packed by the linked helm, and servers of charts on the loopback interface."""

import hashlib
import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from support.patience import PATIENCE_S

CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.charts.example.com}
spec:
  group: charts.example.com
  names: {kind: Gadget, plural: gadgets}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object}}
"""

TEMPLATES = {
    "settings.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-settings}
data: {message: {{ .Values.message | quote }}}
""",
    "refused.yaml": """\
{{- if .Values.refused }}
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}-refused}
spec: {ports: [{port: 80}], clusterIP: "not an address {{ .Values.refused }}"}
{{- end }}
""",
    "hook.yaml": """\
{{- if .Values.hook }}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-hook
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-delete-policy: before-hook-creation
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: hook, image: "none.example.com/none"}]}
{{- end }}
""",
    "agent.yaml": """\
{{- if .Values.agent }}
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: {{ .Release.Name }}-agent}
spec:
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: agent, image: "none.example.com/none"}]}
{{- end }}
""",
    "webhook.yaml": """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: {{ .Release.Namespace }}-{{ .Release.Name }}}
webhooks:
  - name: gadgets.charts.example.com
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Ignore
    rules: [{apiGroups: [charts.example.com], apiVersions: [v1], operations: [CREATE], resources: [gadgets]}]
    clientConfig: {service: {name: none, namespace: {{ .Release.Namespace }}}}
""",
}


def package(binary: Path, folder: Path, version: str = "1.0.0") -> Path:
    """Pack the chart: a CRD, a DaemonSet, a webhook, settings, and failures on demand; return the archive."""
    files = {
        "values.yaml": 'message: ""\nrefused: ""\nhook: false\nagent: true\n',
        "crds/gadgets.yaml": CRD,
        **{f"templates/{name}": text for name, text in TEMPLATES.items()},
    }
    return pack(binary, folder, "demo", version, files)


def pack(binary: Path, folder: Path, name: str, version: str, files: Mapping[str, str]) -> Path:
    """Pack a chart of the files by their paths in it; return the archive."""
    chart = folder / name
    for path, text in {"Chart.yaml": f"apiVersion: v2\nname: {name}\nversion: {version}\n", **files}.items():
        (chart / path).parent.mkdir(parents=True, exist_ok=True)
        (chart / path).write_text(text)
    packed = folder / "packed"
    subprocess.run(
        [binary, "helm", "package", chart, "--destination", packed],
        check=True,
        capture_output=True,
        env={"HOME": str(folder)},
    )
    return packed / f"{name}-{version}.tgz"


class Repository:
    """Charts over HTTP, as a repository with an index and as an OCI registry."""

    def __init__(self, archive: Path, *others: Path) -> None:
        """The OCI registry has the first chart only."""
        self._archives = {each.name: each.read_bytes() for each in (archive, *others)}
        self._archive = self._archives[archive.name]
        self.let_go = threading.Event()
        """Ends the requests below ``/slow``."""
        self.let_go.set()
        self.held = threading.Event()
        """Set once a request below ``/slow`` waits."""
        repository = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = repository.answer(self.path)
                self.send_response(200 if found else 404)
                kind, body = found or ("text/plain", b"no such thing")
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815 - the library's name

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_port}"

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """Return the content type and the body for a path; None if there is nothing."""
        folder, _, name = path.strip("/").partition("/")
        if path.startswith("/v2"):
            return self._registry(path)
        if folder not in {"charts", "corrupt", "slow"}:
            return None
        if folder == "slow":
            self.held.set()
            self.let_go.wait(PATIENCE_S)
        if name == "index.yaml":
            return "text/yaml", self._index()
        body = self._archives.get(name)
        if body is None:
            return None
        return "application/gzip", body if folder != "corrupt" else body[: len(body) // 2]

    def _index(self) -> bytes:
        entries = {}
        for archive in self._archives:
            name, _, version = archive.removesuffix(".tgz").rpartition("-")
            entries[name] = [{"apiVersion": "v2", "name": name, "version": version, "urls": [archive]}]
        return json.dumps({"apiVersion": "v1", "entries": entries}).encode()

    def _registry(self, path: str) -> tuple[str, bytes] | None:
        config = json.dumps({"apiVersion": "v2", "name": "demo", "version": "1.0.0"}).encode()
        blobs = {_digest(each): each for each in (config, self._archive)}
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": _described("application/vnd.cncf.helm.config.v1+json", config),
                "layers": [_described("application/vnd.cncf.helm.chart.content.v1.tar+gzip", self._archive)],
            }
        ).encode()
        last = path.rsplit("/", 1)[-1]
        if path == "/v2/":
            return "application/json", b"{}"
        if path.startswith("/v2/charts/demo/manifests/") and last in {"1.0.0", _digest(manifest)}:
            return "application/vnd.oci.image.manifest.v1+json", manifest
        return ("application/octet-stream", blobs[last]) if last in blobs else None

    @contextmanager
    def serving(self) -> Iterator["Repository"]:
        """Serve until the end."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.let_go.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _described(kind: str, content: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}
