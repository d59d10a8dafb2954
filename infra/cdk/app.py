"""The CDK app: every stack of one environment.

    make synth ENVIRONMENTS="dev prod"

Synthesis needs no AWS account. It checks the AwsSolutions rules, and fails if a finding is not acknowledged with
resources/findings.py.

The environment `local` uses external servers: MASSCOMM_SERVERS has their addresses as a JSON object with the fields of
ExternalServers.
"""

import argparse
import os
import sys

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from infra.cdk.code import packages_required
from infra.cdk.config import LOCAL, Environment, placeholders
from infra.cdk.environments import add_folder_option, environment_of
from infra.cdk.resources.platform import follow_rules
from infra.cdk.resources.registry_access import RegistryAccess
from infra.cdk.stacks.api import ApiStack
from infra.cdk.stacks.cdc import CdcStack
from infra.cdk.stacks.console import ConsoleStack
from infra.cdk.stacks.data import DataStack
from infra.cdk.stacks.directory_state import DirectoryStateStack
from infra.cdk.stacks.door import DoorStack
from infra.cdk.stacks.events import EventsStack
from infra.cdk.stacks.external_data import ExternalDataStack
from infra.cdk.stacks.functions import FunctionsStack
from infra.cdk.stacks.metrics import MetricsStack
from infra.cdk.stacks.network import NetworkStack
from infra.cdk.stacks.observability import ObservabilityStack, ServerStacks
from infra.cdk.stacks.provisioning import ProvisioningStack
from infra.cdk.stacks.registry import RegistryStack

# The feature flags that the CDK CLI sets for new apps. Without them, a template depends on the machine that synthesises
# it.
_FLAGS = {
    "@aws-cdk/aws-iam:minimizePolicies": True,
    "@aws-cdk/core:checkSecretUsage": True,
    "@aws-cdk/core:enablePartitionLiterals": True,
    "@aws-cdk/aws-apigateway:disableCloudWatchRole": True,
    "@aws-cdk/aws-lambda:recognizeLayerVersion": True,
    "@aws-cdk/aws-rds:databaseProxyUniqueResourceName": True,
    "@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy": True,
    "@aws-cdk/customresources:installLatestAwsSdkDefault": False,
    "@aws-cdk/aws-ec2:restrictDefaultSecurityGroup": False,
    # The flag makes references between stacks strong: a stack cannot delete a resource that another stack uses.
    "@aws-cdk/core:defaultCrossStackReferences": "strong",
}


def build(environment: Environment, *, outdir: str | None = None) -> cdk.App:
    """Build the stacks of an environment.

    Args:
        environment: The configuration of the environment.
        outdir: The folder to which app.synth() writes the templates; None: the one that the CDK CLI chooses.
    """
    app = cdk.App(
        outdir=outdir,
        analytics_reporting=False,
        context=_FLAGS,
        default_stack_synthesizer=cdk.DefaultStackSynthesizer(qualifier=environment.platform.bootstrap_qualifier),
    )
    base = NetworkStack(app, environment=environment)
    if environment.servers is None:
        servers = _servers(app, environment, base)
        _services(app, environment, base, servers.data, _registry(environment), servers)
        _provision_first(app, environment, base, servers)
    else:
        data = ExternalDataStack(app, environment=environment, base=base, servers=environment.servers)
        _services(app, environment, base, data, RegistryAccess(url=environment.servers.registry_url), None)
    follow_rules(app, environment)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app, write_suppressions_to_cloud_formation=True))
    return app


def _servers(app: cdk.App, environment: Environment, base: NetworkStack) -> ServerStacks:
    """Add the stacks of the servers: Kafka, databases, the directory in OpenSearch, the schema registry, change data
    capture and the Spark jobs.
    """
    data = DataStack(app, environment=environment, base=base)
    registry = RegistryStack(app, environment=environment, base=base, metrics=data.metrics)
    access, sources = _registry(environment), environment.own_topics
    events = None
    if sources is not None:
        events = EventsStack(app, environment=environment, base=base, data=data, registry=access, sources=sources)
    return ServerStacks(
        data=data,
        registry=registry,
        cdc=CdcStack(app, environment=environment, base=base, data=data) if environment.has("cdc") else None,
        metrics=MetricsStack(app, environment=environment, base=base, data=data, registry=access),
        events=events,
    )


def _registry(environment: Environment) -> RegistryAccess:
    return RegistryAccess(url=environment.registry_url, existing=environment.existing.registry)


def _provision_first(app: cdk.App, environment: Environment, base: NetworkStack, servers: ServerStacks) -> None:
    """Add the stack that provisions the servers. The other stacks are deployed after it."""
    before = {base, servers.data, servers.registry}
    others = [stack for stack in app.node.children if isinstance(stack, cdk.Stack) and stack not in before]
    provisioning = ProvisioningStack(
        app, environment=environment, base=base, data=servers.data, registry=servers.registry
    )
    for stack in others:
        stack.add_stack_dependency(provisioning, "records need schemas, indices, tables and users")


def _services(
    app: cdk.App,
    environment: Environment,
    base: NetworkStack,
    data: DataStack | ExternalDataStack,
    registry: RegistryAccess,
    servers: ServerStacks | None,
) -> None:
    """Add the stacks of the door, the functions, the REST API in front of them, the console, alarms and dashboard."""
    door = DoorStack(app, environment=environment, base=base).door if environment.has("incoming_webhooks") else None
    functions = FunctionsStack(app, environment=environment, base=base, data=data, door=door, registry=registry)
    state = None if servers is None else _directory_state(app, environment, base, servers, functions)
    api = ApiStack(app, environment=environment, base=base, data=data, functions=functions)
    if environment.console is not None and environment.api.people is not None:
        ConsoleStack(
            app, environment=environment, base=base, console=environment.console, people=environment.api.people, api=api
        )
    ObservabilityStack(
        app, environment=environment, base=base, data=data, functions=functions, api=api, servers=servers, state=state
    )


def _directory_state(
    app: cdk.App, environment: Environment, base: NetworkStack, servers: ServerStacks, functions: FunctionsStack
) -> DirectoryStateStack | None:
    """Add the stack of directory_state, if the environment has it."""
    config, registry, token = environment.directory_state, servers.registry.service, functions.state_token
    if config is None or registry is None or token is None or servers.cdc is None:
        return None
    state = DirectoryStateStack(
        app, environment=environment, config=config, base=base, data=servers.data, registry=registry, token=token
    )
    for before in (functions, servers.cdc):
        state.add_stack_dependency(before, "tasks catch up with the records of both")
    return state


def main() -> int:
    """Synthesise the named environments, or the one that the CDK context or MASSCOMM_ENVIRONMENT names."""
    parser = argparse.ArgumentParser(description="synthesise environments")
    parser.add_argument(
        "--out", help="write each environment to a folder of its name in here; default: the CDK CLI's folder"
    )
    parser.add_argument("environments", nargs="*", metavar="ENVIRONMENT")
    add_folder_option(parser)
    arguments = parser.parse_args()
    asked = cdk.App().node.try_get_context("environment") or os.environ.get("MASSCOMM_ENVIRONMENT") or "dev"
    for name in arguments.environments or [asked]:
        try:
            environment = environment_of(name, arguments.folder)
        except ValueError as error:
            parser.error(str(error))
        # Without packages, the templates of an unprotected example can be read, and its functions do not run.
        is_deployable = environment.protected or (packages_required() and name != LOCAL)
        if is_deployable and (unset := placeholders(environment)):
            parser.error(f"{name} has placeholders: {', '.join(unset)}")
        build(environment, outdir=os.path.join(arguments.out, name) if arguments.out else None).synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
