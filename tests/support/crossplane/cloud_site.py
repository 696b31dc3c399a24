"""A fleet under Crossplane whose one cluster a cloud makes."""

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.meta import SYSTEM_NAMESPACE
from support.cloud_clusters import class_of, cluster_of
from support.crossplane.cloud_providers import MANAGED, RELEASES, CloudProviders, ProviderHelm
from support.crossplane.composite import Run
from support.crossplane.fleet import Fleet
from support.crossplane.in_process import answering
from support.crossplane.manifests import DEPLOYMENT, SERVICE, model_deployment, model_service
from support.crossplane.objects import Key, Object
from support.crossplane.provider_kubernetes import OBJECT
from support.crossplane.remote import RemoteCluster
from support.crossplane.scenarios import far, prepared

LONG_S = 1800.0
"""Enough simulated time for anything here."""


class Site:
    """A fleet whose one cluster a cloud makes."""

    def __init__(self, run: Run | None, cloud: Cloud, **stack: str) -> None:
        """``stack`` has settings of the serving stack. Without ``run``, the clock is the fleet's."""
        self.cloud = cloud
        self.has_lost_the_class = False
        self.fleet = prepared(Fleet(self._run))
        self._answer = run or answering(self.fleet.clock.time)
        self.name = cloud.lower()
        self.cluster: RemoteCluster = self.fleet.cluster(self.name, is_empty=True)
        self.providers = CloudProviders(self.fleet.api, self._details)
        helm = ProviderHelm(self.fleet.api, lambda _release: self.cluster)
        for controller in (self.providers, helm):
            self.fleet.simulation.add(self.fleet.api, controller)
        self.fleet.simulation.shuffle(seed=7, longest=2.0)
        if cloud is Cloud.NEBIUS:
            self.fleet.apply(_account())
        cluster = cluster_of(cloud)
        cluster["spec"] |= {"servingStack": stack} if stack else {}
        self.fleet.apply(class_of(cloud), cluster)

    def _run(self, request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
        if self.has_lost_the_class:
            for key in [each for each in request.required_resources if each.startswith("class-")]:
                request.required_resources[key].Clear()
        return self._answer(request)

    def _details(self, item: Object) -> dict[str, str]:
        if item["kind"] == "ServiceAccountKey":
            return {"private_key": "e30="}
        secret = self.fleet.api.get(Key("", "Secret", SYSTEM_NAMESPACE, f"{self.name}-kubeconfig"))
        assert secret is not None
        return dict(secret["data"])

    def serve(self) -> None:
        """Let a model be served on the cluster, from nothing."""
        self.fleet.apply(model_deployment(), model_service())
        self.fleet.run_until_ready("InferenceCluster", self.name, within=LONG_S)
        self.fleet.run_until_ready("ModelDeployment", DEPLOYMENT, within=LONG_S)
        self.fleet.run_until_ready("ModelService", SERVICE, within=LONG_S)

    def precious(self) -> dict[str, str]:
        """Return what holds data, runs models or pays for them, by name with its uid."""
        ours = ("InferenceCluster", f"{self.cloud}Cluster", "ServingStack", "ModelReplica", "ModelEndpoint")
        there = [
            item
            for item in self.fleet.api.all()
            if item["kind"] in ours or _kind(item) in {(each.group, each.name) for each in PRECIOUS}
        ]
        found = {"/".join((item["kind"], item["metadata"]["name"])): item for item in there}
        remote = {f"there/{item['kind']}": item for item in far(self.fleet, "Deployment", self.name)}
        return {name: str(item["metadata"]["uid"]) for name, item in (found | remote).items()}

    def edit_pool(self, **fields: object) -> None:
        """Change the one pool of the cluster."""
        [pool] = self.fleet.get("InferenceCluster", self.name)["spec"]["nodePools"]
        edited = {key: value for key, value in {**pool, **fields}.items() if value is not None}
        self.fleet.edit("InferenceCluster", self.name, nodePools=[edited])


PRECIOUS = (*MANAGED, RELEASES, OBJECT)


def _kind(item: Object) -> tuple[str, str]:
    return item["apiVersion"].rpartition("/")[0], item["kind"]


def _account() -> Object:
    """Return the provider configuration of Nebius, whose Secret is used with the kubeconfig."""
    secret = {"namespace": "crossplane-system", "name": "nebius-credentials", "key": "credentials"}
    return {
        "apiVersion": "nebius.m.upbound.io/v1beta1",
        "kind": "ClusterProviderConfig",
        "metadata": {"name": "default"},
        "spec": {"credentials": {"source": "Secret", "secretRef": secret}},
    }
