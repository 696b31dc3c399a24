"""Managed resources of a cluster on Amazon Elastic Kubernetes Service.

Source: provider-upjet-aws v2.6.0, ``package/crds``.
"""

from modelplane.compose.clouds.provider import CONTRIB, Account, ManagedKind, Provider

TITLE = "Amazon Web Services"
"""Name of the cloud in sentences."""

_EC2 = "ec2.aws.m.upbound.io"
_EFS = "efs.aws.m.upbound.io"
_EKS = "eks.aws.m.upbound.io"
_IAM = "iam.aws.m.upbound.io"

INTERNET_GATEWAY = ManagedKind(_EC2, "InternetGateway", "internetgateways")
VPC = ManagedKind(_EC2, "VPC", "vpcs")
SUBNET = ManagedKind(_EC2, "Subnet", "subnets")
EIP = ManagedKind(_EC2, "EIP", "eips")
NAT_GATEWAY = ManagedKind(_EC2, "NATGateway", "natgateways")
ROUTE_TABLE = ManagedKind(_EC2, "RouteTable", "routetables")
ROUTE = ManagedKind(_EC2, "Route", "routes")
ROUTE_TABLE_ASSOCIATION = ManagedKind(_EC2, "RouteTableAssociation", "routetableassociations")
SECURITY_GROUP = ManagedKind(_EC2, "SecurityGroup", "securitygroups")
INGRESS_RULE = ManagedKind(_EC2, "SecurityGroupIngressRule", "securitygroupingressrules")
EGRESS_RULE = ManagedKind(_EC2, "SecurityGroupEgressRule", "securitygroupegressrules")
LAUNCH_TEMPLATE = ManagedKind(_EC2, "LaunchTemplate", "launchtemplates")
FILE_SYSTEM = ManagedKind(_EFS, "FileSystem", "filesystems")
MOUNT_TARGET = ManagedKind(_EFS, "MountTarget", "mounttargets")
CLUSTER_AUTH = ManagedKind(_EKS, "ClusterAuth", "clusterauths")
CLUSTER = ManagedKind(_EKS, "Cluster", "clusters")
NODE_GROUP = ManagedKind(_EKS, "NodeGroup", "nodegroups")
ADDON = ManagedKind(_EKS, "Addon", "addons")
POD_IDENTITY = ManagedKind(_EKS, "PodIdentityAssociation", "podidentityassociations")
POLICY = ManagedKind(_IAM, "Policy", "policies")
ROLE = ManagedKind(_IAM, "Role", "roles")
ATTACHMENT = ManagedKind(_IAM, "RolePolicyAttachment", "rolepolicyattachments")

_VERSION = "2.6.0"

PROVIDERS = (
    Provider(
        f"{CONTRIB}/provider-aws-ec2",
        _VERSION,
        (
            INTERNET_GATEWAY,
            VPC,
            SUBNET,
            EIP,
            NAT_GATEWAY,
            ROUTE_TABLE,
            ROUTE,
            ROUTE_TABLE_ASSOCIATION,
            SECURITY_GROUP,
            INGRESS_RULE,
            EGRESS_RULE,
            LAUNCH_TEMPLATE,
        ),
    ),
    Provider(f"{CONTRIB}/provider-aws-efs", _VERSION, (FILE_SYSTEM, MOUNT_TARGET)),
    Provider(
        f"{CONTRIB}/provider-aws-eks", _VERSION, (CLUSTER_AUTH, CLUSTER, NODE_GROUP, ADDON, POD_IDENTITY)
    ),
    Provider(f"{CONTRIB}/provider-aws-iam", _VERSION, (POLICY, ROLE, ATTACHMENT)),
)

ACCOUNT = Account("aws.m.upbound.io")
