"""Creates the OpenSearch domain of the directory (the copy of the monolith's tables), and IAM permissions for its
paths.

_bulk and _mget requests name their indices in the body, which IAM does not inspect. Therefore roles inside the domain
limit the indices that a client may read and write; ops/provisioning/directory.py creates them.
"""

from collections.abc import Iterable

from aws_cdk import CfnUpdatePolicy, Stack, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_opensearchservice as opensearch
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.findings import explain
from infra.cdk.resources.logs import log_group, removal
from infra.cdk.resources.network import Place

_LOGS = ("ES_APPLICATION_LOGS", "SEARCH_SLOW_LOGS", "INDEX_SLOW_LOGS", "AUDIT_LOGS")
_VERBS = ("Delete", "Get", "Head", "Post", "Put")


class Directory(Construct):
    """A domain in the VPC, own or existing, that accepts requests with IAM signatures only.

    Args:
        administrator: The role that may change the domain's roles and indices. The administrator of an existing domain
            has mapped it there.

    Attributes:
        name, arn, url: The name, the ARN and the URL of the domain.
    """

    authentication = "aws_sigv4"

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        key: kms.IKey,
        place: Place,
        administrator: iam.IRole,
    ) -> None:
        super().__init__(scope, "directory")
        existing = environment.existing.opensearch
        if existing is None:
            self.name = f"{environment.prefix}-directory"
            # The ARN is composed here, because the access policy of the domain itself contains it.
            self.arn = Stack.of(self).format_arn(service="es", resource="domain", resource_name=self.name)
            endpoint = self._domain(environment, key, place, administrator)
        else:
            self.name, self.arn, endpoint = existing.name, existing.domain_arn, existing.endpoint
        self.url = f"https://{endpoint}"
        administrator.add_to_principal_policy(_http(_VERBS, [f"{self.arn}/*"]))

    def _domain(self, environment: Environment, key: kms.IKey, place: Place, administrator: iam.IRole) -> str:
        """Create the domain, and return the host of its endpoint."""
        config = environment.opensearch
        groups = {kind: log_group(self, kind, environment=environment, key=key) for kind in _LOGS}
        allowed = self._let_write(groups.values())
        # One node is in one zone, and a domain without zone awareness in one subnet.
        # https://docs.aws.amazon.com/opensearch-service/latest/APIReference/API_VPCOptions.html
        zones = min(config.data_nodes, len(environment.zones))
        domain = opensearch.CfnDomain(
            self,
            "domain",
            domain_name=self.name,
            engine_version=config.version,
            cluster_config=opensearch.CfnDomain.ClusterConfigProperty(
                instance_type=config.instance_type,
                instance_count=config.data_nodes,
                dedicated_master_enabled=config.dedicated_masters > 0,
                dedicated_master_count=config.dedicated_masters or None,
                dedicated_master_type=config.master_type if config.dedicated_masters else None,
                zone_awareness_enabled=zones > 1,
                zone_awareness_config=opensearch.CfnDomain.ZoneAwarenessConfigProperty(availability_zone_count=zones)
                if zones > 1
                else None,
            ),
            ebs_options=opensearch.CfnDomain.EBSOptionsProperty(
                ebs_enabled=True, volume_type="gp3", volume_size=config.volume_gb
            ),
            vpc_options=opensearch.CfnDomain.VPCOptionsProperty(
                subnet_ids=place.subnet_ids[:zones],
                security_group_ids=[place.group.security_group_id],
            ),
            encryption_at_rest_options=opensearch.CfnDomain.EncryptionAtRestOptionsProperty(
                enabled=True, kms_key_id=key.key_id
            ),
            node_to_node_encryption_options=opensearch.CfnDomain.NodeToNodeEncryptionOptionsProperty(enabled=True),
            domain_endpoint_options=opensearch.CfnDomain.DomainEndpointOptionsProperty(
                enforce_https=True, tls_security_policy="Policy-Min-TLS-1-2-PFS-2023-10"
            ),
            advanced_security_options=opensearch.CfnDomain.AdvancedSecurityOptionsInputProperty(
                enabled=True,
                internal_user_database_enabled=False,
                master_user_options=opensearch.CfnDomain.MasterUserOptionsProperty(
                    master_user_arn=administrator.role_arn
                ),
            ),
            access_policies=self._policy(),
            log_publishing_options={
                kind: opensearch.CfnDomain.LogPublishingOptionProperty(
                    enabled=True, cloud_watch_logs_log_group_arn=each.log_group_arn
                )
                for kind, each in groups.items()
            },
            off_peak_window_options=opensearch.CfnDomain.OffPeakWindowOptionsProperty(enabled=True),
            software_update_options=opensearch.CfnDomain.SoftwareUpdateOptionsProperty(
                auto_software_update_enabled=True
            ),
        )
        domain.add_resource_dependency(allowed)
        domain.apply_removal_policy(removal(environment))
        # Without it, CloudFormation would replace the domain for another version.
        domain.cfn_options.update_policy = CfnUpdatePolicy(enable_version_upgrade=True)
        explain(domain, "the domain is in the VPC, where addresses change: it admits roles", "OS3")
        if zones == 1:
            explain(domain, "the directory is small and can be captured again from the monolith", "OS7")
        if not config.dedicated_masters:
            explain(domain, "the directory is small and can be captured again from the monolith", "OS4")
        return domain.attr_domain_endpoint

    def statements(self, requests: Iterable[str]) -> list[iam.PolicyStatement]:
        """Return the policy statements that permit these requests, each written as `VERB path`."""
        paths: dict[str, list[str]] = {}
        for request in requests:
            verb, _, path = request.partition(" ")
            paths.setdefault(verb.capitalize(), []).append(f"{self.arn}/{path}")
        return [_http([verb], found) for verb, found in paths.items()]

    def as_reported(self, path: str) -> str:
        """Return the ARN of a path in the format of AwsSolutions findings."""
        if not Token.is_unresolved(self.arn):
            return f"{self.arn}/{path}"
        return f"arn:aws:es:{Stack.of(self).region}:<AWS::AccountId>:domain/{self.name}/{path}"

    def _policy(self) -> iam.PolicyDocument:
        """Return an access policy that admits only roles of this account; each role's own policy has its
        permissions.
        """
        return iam.PolicyDocument(
            statements=[
                iam.PolicyStatement(
                    principals=[iam.AccountRootPrincipal()],
                    actions=[f"es:ESHttp{verb}" for verb in _VERBS],
                    resources=[f"{self.arn}/*"],
                )
            ]
        )

    def _let_write(self, groups: Iterable[logs.LogGroup]) -> logs.CfnResourcePolicy:
        stack = Stack.of(self)
        document = iam.PolicyDocument(
            statements=[
                iam.PolicyStatement(
                    principals=[iam.ServicePrincipal("es.amazonaws.com")],
                    actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                    resources=[group.log_group_arn for group in groups],
                    conditions={"StringEquals": {"aws:SourceAccount": stack.account}},
                )
            ]
        )
        return logs.CfnResourcePolicy(
            self,
            "log-policy",
            policy_name=f"{stack.stack_name}-directory",
            policy_document=stack.to_json_string(document.to_json()),
        )


def _http(verbs: Iterable[str], paths: list[str]) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=[f"es:ESHttp{verb}" for verb in verbs], resources=paths)
