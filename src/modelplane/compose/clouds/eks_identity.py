"""The roles of an EKS cluster: of its control plane, its nodes, its storage driver and its autoscaler."""

import json
from typing import Any

from modelplane.api.clouds.eks_cluster import EKSCluster
from modelplane.compose.clouds.kinds import EKS_ATTACHMENT, EKS_POD_IDENTITY, EKS_POLICY, EKS_ROLE
from modelplane.compose.clouds.site import Parts, Site

CLUSTER_ROLE = "role-cluster"
"""Key of the role of the control plane. Source: Modelplane."""

NODE_ROLE = "role-node"
"""Key of the role of nodes. Source: Modelplane."""

POLICIES = {
    CLUSTER_ROLE: ("AmazonEKSClusterPolicy",),
    NODE_ROLE: ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly"),
    "role-efs-csi": ("service-role/AmazonEFSCSIDriverPolicy",),
}
"""AWS's own policies of each role. Source: Amazon EKS, "Cluster IAM role", "Node IAM role", "EFS driver"."""

SERVICES = {CLUSTER_ROLE: "eks.amazonaws.com", NODE_ROLE: "ec2.amazonaws.com"}
"""The services that assume a role. Source: Amazon EKS, "Cluster IAM role", "Node IAM role"."""

PODS = "pods.eks.amazonaws.com"
"""The service that gives pods a role. Source: Amazon EKS, "EKS Pod Identity"."""

POD_ROLES = {"role-efs-csi": "efs-csi-controller-sa", "role-cluster-autoscaler": "cluster-autoscaler"}
"""ServiceAccounts that get a role. Source: Amazon EKS, "EFS CSI driver"; chart cluster-autoscaler."""

NAMESPACE = "kube-system"
"""Namespace of these. Source: Amazon EKS, "EFS CSI driver"."""

VERSION = "2012-10-17"
"""Version of the language of policies. Source: AWS IAM, "Policy elements", ``Version``."""

ALLOW = "Allow"
"""Effect of a statement. Source: AWS IAM, "Policy elements", ``Effect``."""

EVERYTHING = "*"
"""Every resource: actions that only describe do not know any other. Source: AWS IAM, "Policy elements"."""

AUTOSCALER = "role-cluster-autoscaler"
"""Key of the autoscaler's role. Source: Modelplane."""

DESCRIBES = [
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeAutoScalingInstances",
    "autoscaling:DescribeLaunchConfigurations",
    "autoscaling:DescribeScalingActivities",
    "autoscaling:DescribeTags",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeLaunchTemplateVersions",
    "ec2:GetInstanceTypesFromInstanceRequirements",
    "eks:DescribeNodegroup",
]
"""Source: cluster-autoscaler, "CA on AWS", full feature policy."""

SCALES = ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
"""Source: cluster-autoscaler, "CA on AWS", full feature policy."""

OWNED = "aws:ResourceTag/k8s.io/cluster-autoscaler/"
"""Begin of the tag that EKS gives the groups of a cluster. Source: cluster-autoscaler, "CA on AWS"."""

OWNED_VALUE = "owned"
"""Value of that tag. Source: cluster-autoscaler, "CA on AWS"."""


def compose_identity(site: Site[EKSCluster]) -> Parts:
    """Compose the roles with their policies, and give pods theirs."""
    for key in (*SERVICES, *POD_ROLES):
        service = SERVICES.get(key, PODS)
        actions = ["sts:AssumeRole", "sts:TagSession"] if service == PODS else ["sts:AssumeRole"]
        trust = _policy([{"Effect": ALLOW, "Principal": {"Service": service}, "Action": actions}])
        yield site.managed(key, EKS_ROLE, {"assumeRolePolicy": trust})
        for policy in POLICIES.get(key, ()):
            arn = f"arn:{_partition(site.owner.spec.region)}:iam::aws:policy/{policy}"
            yield site.managed(
                f"{key}-{policy.rpartition('/')[2].lower().replace('_', '-')}",
                EKS_ATTACHMENT,
                {"roleRef": {"name": site.name(key)}, "policyArn": arn},
            )
    owned = {OWNED + cluster_name(site): OWNED_VALUE}
    policy = _policy(
        [
            {"Effect": ALLOW, "Action": DESCRIBES, "Resource": EVERYTHING},
            {"Effect": ALLOW, "Action": SCALES, "Resource": EVERYTHING, "Condition": {"StringEquals": owned}},
        ]
    )
    yield site.managed("policy-cluster-autoscaler", EKS_POLICY, {"policy": policy})
    yield site.managed(
        "role-cluster-autoscaler-policy",
        EKS_ATTACHMENT,
        {
            "roleRef": {"name": site.name(AUTOSCALER)},
            "policyArnRef": {"name": site.name("policy-cluster-autoscaler")},
        },
    )
    for key, account in POD_ROLES.items():
        yield site.managed(
            f"pod-identity-{key.removeprefix('role-')}",
            EKS_POD_IDENTITY,
            {
                "region": site.owner.spec.region,
                "clusterNameRef": {"name": cluster_name(site)},
                "namespace": NAMESPACE,
                "serviceAccount": account,
                "roleArnRef": {"name": site.name(key)},
            },
        )


def cluster_name(site: Site[EKSCluster]) -> str:
    """Return the name of the cluster, which is unique in the account and not only in the namespace."""
    return site.unique_name("eks")


def _partition(region: str) -> str:
    """Return the partition of a region (Source: AWS, "Amazon Resource Names")."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def _policy(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": VERSION, "Statement": statements}, sort_keys=True)
