from dataclasses import replace

from modelplane.api.kinds import KINDS
from modelplane.crossplane.package.clouds import CLOUDS
from modelplane.crossplane.package.package_contents import cloud_configuration

AWS = next(cloud for cloud in CLOUDS if cloud.name == "aws")


def test_every_cloud_has_a_kind_and_every_kind_of_a_cloud_is_here():
    ours = {kind.name for kind in KINDS if kind.group.startswith("infrastructure.")}
    assert {cloud.kind for cloud in CLOUDS} == ours - {"ServingStack"}


def test_the_package_of_a_cloud_is_its_providers_and_their_kinds():
    composed = replace(AWS, activates=("clusters.eks.aws.m.upbound.io",))
    about, policy = cloud_configuration(composed).documents
    assert (about["kind"], about["metadata"]["name"]) == ("Configuration", "modelplane-aws")
    assert about["spec"]["dependsOn"] == [
        {
            "apiVersion": "pkg.crossplane.io/v1",
            "kind": "Provider",
            "package": f"xpkg.crossplane.io/crossplane-contrib/provider-aws-{name}",
            "version": ">=v2.6.0, <v3.0.0",
        }
        for name in ("ec2", "efs", "eks", "iam")
    ]
    assert (policy["metadata"]["name"], policy["spec"]["activate"]) == (
        "modelplane-aws",
        ["clusters.eks.aws.m.upbound.io"],
    )
