"""The programs of Kubernetes' control plane, trimmed for one machine, and the files of their certificates.

kube-apiserver, kube-controller-manager and kube-scheduler are one process, beside etcd.

Everything is on loopback, and etcd only on a Unix socket inside the private home, because a port of etcd
would show every Secret to any user of the machine. None of them elects a leader: the supervisor's locks allow
one of each process, and an election would make a restart wait for the old lease to run out.

Further clusters of a fleet have a control plane of their own each, with its own certificates; they share the
one etcd, each under a prefix of its own.

``pki`` makes the certificates. The supervisor, which only names them, does without a library of cryptography.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from modelplane.local.home import Home
from modelplane.local.ports import Ports
from modelplane.local.settings import LocalSettings

AUTHORITY = "ca"
SERVICE_ACCOUNTS = "service-accounts"


@dataclass(frozen=True, slots=True)
class Pki:
    """The files of one directory of certificates."""

    directory: Path

    def find_certificate(self, name: str) -> Path:
        """Return the certificate of an identity."""
        return self.directory / f"{name}.crt"

    def find_key(self, name: str) -> Path:
        """Return the private key of an identity."""
        return self.directory / f"{name}.key"

    @property
    def authority(self) -> Path:
        """The certificate that vouches for all others."""
        return self.find_certificate(AUTHORITY)

    @property
    def service_accounts(self) -> Path:
        """The key that signs the tokens of service accounts."""
        return self.find_key(SERVICE_ACCOUNTS)


NODE = "local"
"""The name of this machine's Node, where the control plane is its own one cluster."""

CONTEXT = "modelplane"
"""Name of the fleet's own control plane in the user's kubeconfig."""

_GOGC = "30"
"""Collect garbage early: half the memory, for more processor time, mainly at the start."""

# etcd wants host:port even of a Unix socket; the socket is a file of that name in the working directory.
_CLIENT_SOCKET = "localhost:1"
_PEER_SOCKET = "localhost:2"

HEALTH_PATHS = ("/livez", "/readyz")
"""Health paths of the API server, which need no authentication."""

_CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourceclaim-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)


def build_environment() -> dict[str, str]:
    """Return the variables of each process, besides those that it inherits."""
    return {"GOGC": os.environ.get("GOGC", _GOGC)}


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The command lines of one local control plane."""

    fleet: Home
    ports: Ports
    binary: Path
    cluster: str = ""
    """The name of a further cluster; empty for the fleet's own control plane."""
    place: int = 0
    """Its index among the fleet's clusters; the fleet's own control plane is 0."""

    @property
    def home(self) -> Home:
        """The directory of its certificates."""
        return self.fleet.get_cluster(self.cluster) if self.cluster else self.fleet

    @property
    def node(self) -> str:
        """The name of its one Node."""
        return self.cluster or NODE

    @property
    def context(self) -> str:
        """Its name in the user's kubeconfig."""
        return self.cluster or CONTEXT

    def name_process(self, program: str) -> str:
        """Return the name of one of its processes."""
        return f"{self.cluster}-{program}" if self.cluster else program

    @property
    def directory(self) -> Path:
        """The working directory of its programs: etcd's socket is found relative to it."""
        return self.fleet.etcd

    @property
    def socket(self) -> Path:
        """The socket on which etcd serves."""
        return self.fleet.etcd / _CLIENT_SOCKET

    @property
    def pki(self) -> Pki:
        """The certificates."""
        return Pki(self.home.pki)

    def find_kubeconfig(self, identity: str) -> Path:
        """Return the kubeconfig of a program of the control plane itself."""
        return self.home.pki / f"{identity}.kubeconfig"

    def build_etcd_argv(self) -> tuple[str, ...]:
        """Return the command line of etcd."""
        client, peer = f"unix://{_CLIENT_SOCKET}", f"unix://{_PEER_SOCKET}"
        return (
            str(self.binary),
            "etcd",
            "--name=local",
            f"--data-dir={self.fleet.etcd / 'data'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=local={peer}",
            "--snapshot-count=2000",
            # Entries kept in memory for lagging members, of which there are none.
            "--snapshot-catchup-entries=100",
            # The API servers do not compact (see kubernetes/etcd_connection.go).
            "--auto-compaction-retention=5m",
            # A single member needs no other vote: short timeouts only shorten its start.
            "--heartbeat-interval=50",
            "--election-timeout=250",
            "--log-level=warn",
        )

    def build_argv(self, *, runs_pods: bool) -> tuple[str, ...]:
        """Return the command line of the one process of everything but etcd; a scheduler is for pods."""
        return (
            *(str(self.binary), "control-plane"),
            *("kube-apiserver", *self._api_server()),
            *("kube-controller-manager", *self._controller_manager()),
            *(("kube-scheduler", *self._client("kube-scheduler")) if runs_pods else ()),
        )

    def _api_server(self) -> tuple[str, ...]:
        pki = self.pki
        return (
            f"--etcd-servers=unix://{_CLIENT_SOCKET}",
            *((f"--etcd-prefix=/clusters/{self.cluster}",) if self.cluster else ()),
            "--etcd-count-metric-poll-period=0",
            "--etcd-compaction-interval=0",
            "--bind-address=127.0.0.1",
            # Without a default route there is no address to find, and none is needed.
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self.ports.api_server}",
            f"--tls-cert-file={pki.find_certificate('kube-apiserver')}",
            f"--tls-private-key-file={pki.find_key('kube-apiserver')}",
            f"--client-ca-file={pki.authority}",
            f"--authentication-config={self.home.authentication}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--kubelet-client-certificate={pki.find_certificate('kubelet-client')}",
            f"--kubelet-client-key={pki.find_key('kubelet-client')}",
            f"--kubelet-certificate-authority={pki.authority}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={pki.service_accounts}",
            f"--service-account-signing-key-file={pki.service_accounts}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--enable-priority-and-fairness=false",
            "--runtime-config=flowcontrol.apiserver.k8s.io/v1=false",
            "--profiling=false",
        )

    def _controller_manager(self) -> tuple[str, ...]:
        return (
            *self._client("kube-controller-manager"),
            f"--controllers={','.join(_CONTROLLERS)}",
            "--use-service-account-credentials=true",
            f"--root-ca-file={self.pki.authority}",
            "--concurrent-gc-syncs=4",
            # A quota that is created before its kinds are known is counted at the next of these times.
            "--resource-quota-sync-period=10s",
            "--kube-api-qps=100",
            "--kube-api-burst=200",
        )

    def _client(self, identity: str) -> tuple[str, ...]:
        return (
            f"--kubeconfig={self.find_kubeconfig(identity)}",
            "--leader-elect=false",
            # The API server serves the metrics of the whole process.
            "--secure-port=0",
        )


def list_control_planes(
    home: Home, settings: LocalSettings, binary: Path = Path()
) -> tuple[ControlPlane, ...]:
    """Return every control plane of a fleet, its own first."""
    further = enumerate(settings.clusters.items(), 1)
    return (
        ControlPlane(home, settings.ports, binary),
        *(ControlPlane(home, chosen, binary, name, place) for place, (name, chosen) in further),
    )


def list_clusters(planes: tuple[ControlPlane, ...]) -> tuple[ControlPlane, ...]:
    """Return those of a fleet's control planes that run models."""
    return planes[1:] or planes
