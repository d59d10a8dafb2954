"""Only the environment on external servers has packages and a domain name of its own."""

import hashlib
import json
from pathlib import Path

import pytest

from functions.catalogue import read_catalogue
from infra.cdk.config import Environment
from infra.cdk.environments import environment_of
from infra.cdk.examples import ENVIRONMENTS, PROD
from masscomm.domain.channels import CHANNELS
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.kafka.topics import chain_topics, lane_of
from tests.support.cdk.synthesise import CERTIFICATE, DOMAIN, SERVERS
from tests.support.cdk.templates import OUTSIDE_THE_VPC, Resource, SynthesisedEnvironment, kafka_mappings

CATALOGUE = read_catalogue(generation="g1")


def functions(environment: SynthesisedEnvironment) -> dict[str, Resource]:
    prefix = f"masscomm-{environment.name}-"
    return {
        each.properties["FunctionName"].removeprefix(prefix): each
        for each in environment.resources("AWS::Lambda::Function")
        if each.stack == "functions" and "FunctionName" in each.properties
    }


# --- external servers ---


def test_local_environment_creates_no_servers(local: SynthesisedEnvironment) -> None:
    kinds = {each.type.split("::")[1] for each in local.resources()}
    assert not kinds & {"MSK", "KafkaConnect", "RDS", "OpenSearchService", "ECS", "EMRServerless", "AWS"}
    assert {"Lambda", "DynamoDB", "S3", "ApiGateway", "Events", "SQS", "SNS", "IAM", "KMS", "CloudWatch"} <= kinds


def test_local_functions_use_the_servers_without_signing(local: SynthesisedEnvironment) -> None:
    for name, function in functions(local).items():
        variables = function.properties["Environment"]["Variables"]
        if name in OUTSIDE_THE_VPC:
            servers = {key for key in variables if key.endswith(("_URL", "_SERVERS", "_AUTHENTICATION"))}
            assert servers == set(), name
            continue
        assert variables["KAFKA_BOOTSTRAP_SERVERS"] == SERVERS.kafka, name
        assert variables["SCHEMA_REGISTRY_URL"] == SERVERS.registry_url
        assert variables.get("OPENSEARCH_URL", SERVERS.directory_url) == SERVERS.directory_url
        assert variables.get("METRICS_DATABASE_URL", SERVERS.database_url) == SERVERS.database_url
        assert {value for key, value in variables.items() if key.endswith("_AUTHENTICATION")} == {"none"}


def test_mappings_read_the_brokers_that_are_given(local: SynthesisedEnvironment) -> None:
    mappings = list(kafka_mappings(local))
    assert len(mappings) == sum(len(entry.event_source.topics) for entry in CATALOGUE if entry.event_source)
    for mapping in mappings:
        endpoints = mapping.properties["SelfManagedEventSource"]["Endpoints"]
        assert endpoints == {"KafkaBootstrapServers": SERVERS.kafka.split(",")}
        assert "EventSourceArn" not in mapping.properties
        assert mapping.properties["SelfManagedKafkaEventSourceConfig"]["ConsumerGroupId"].startswith("masscomm.")


@pytest.mark.parametrize(
    ("servers", "message"),
    [(None, "KeyError"), ("[]", "TypeError"), ('{"kafka": "k"}', "TypeError"), ("{", "JSONDecode")],
)
def test_local_environment_without_servers_is_refused(
    servers: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MASSCOMM_SERVERS", raising=False)
    if servers is not None:
        monkeypatch.setenv("MASSCOMM_SERVERS", servers)
    with pytest.raises(ValueError, match=f"MASSCOMM_SERVERS must be a JSON object of kafka, registry_url.*{message}"):
        environment_of("local")


def test_unknown_environment_is_refused_with_the_known_names() -> None:
    with pytest.raises(ValueError, match=r"no environment 'production': dev, prod, small, staging, local"):
        environment_of("production")


# --- packages ---


def test_each_function_is_deployed_from_its_own_package(local: SynthesisedEnvironment) -> None:
    assets = json.loads((local.folder / "masscomm-local-functions.assets.json").read_text())["files"]
    for entry in CATALOGUE:
        key = functions(local)[entry.name].properties["Code"]["S3Key"]
        asset = assets[key.removesuffix(".zip")]["source"]
        assert asset["packaging"] == "file"
        packaged = Path(local.folder.parent, "packages", f"{entry.package}.zip")
        staged = local.folder / asset["path"]
        assert hashlib.sha256(staged.read_bytes()).digest() == hashlib.sha256(packaged.read_bytes()).digest()


def test_without_packages_the_sources_are_staged(synthesised: dict[str, SynthesisedEnvironment]) -> None:
    small = synthesised["small"]
    assets = json.loads((small.folder / "masscomm-small-functions.assets.json").read_text())["files"]
    keys = {each.properties["Code"]["S3Key"].removesuffix(".zip") for each in functions(small).values()}
    assert {assets[key]["source"]["packaging"] for key in keys} == {"zip"}


# --- a domain of its own ---


def test_api_with_a_domain_answers_only_there(local: SynthesisedEnvironment) -> None:
    (domain,) = local.resources("AWS::ApiGateway::DomainName")
    assert domain.properties["DomainName"] == DOMAIN
    assert domain.properties["RegionalCertificateArn"] == CERTIFICATE
    assert domain.properties["SecurityPolicy"] == "TLS_1_2"
    (api,) = (each for each in local.resources("AWS::ApiGateway::RestApi") if each.stack == "api")
    assert api.properties["DisableExecuteApiEndpoint"] is True
    (path,) = local.resources("AWS::ApiGateway::BasePathMapping")
    assert path.properties["RestApiId"] == {"Ref": api.id}


def test_an_api_without_a_domain_answers_under_its_own(synthesised: dict[str, SynthesisedEnvironment]) -> None:
    small = synthesised["small"]
    assert not list(small.resources("AWS::ApiGateway::DomainName"))
    (api,) = (each for each in small.resources("AWS::ApiGateway::RestApi") if each.stack == "api")
    assert api.properties["DisableExecuteApiEndpoint"] is False


# --- the providers' quotas ---


@pytest.mark.parametrize("name", ["small", "prod"])
def test_initial_rates_of_both_lanes_add_up_to_the_quotas(
    name: str, synthesised: dict[str, SynthesisedEnvironment]
) -> None:
    environment = ENVIRONMENTS[name]
    deployed = functions(synthesised[name])
    for channel, quota in environment.providers.per_s.items():
        shares = {
            entry.lane: float(
                deployed[entry.name].properties["Environment"]["Variables"][CHANNELS[channel].rate_setting]
            )
            * sum(_environments(topic, environment) for topic in entry.event_source.topics if not _further(topic))
            for entry in CATALOGUE
            if entry.package == "delivery" and entry.event_source is not None
        }
        assert sum(shares.values()) == pytest.approx(quota, rel=0.01)
        assert shares[Lane.CRITICAL] == pytest.approx(quota * environment.providers.critical_percent / 100, rel=0.01)


def _variables(function: Resource) -> dict[str, str]:
    variables: dict[str, str] = function.properties["Environment"]["Variables"]
    return variables


def _further(topic: str) -> bool:
    """Return whether the topic is a broadcast queue that is empty while only one tenant broadcasts."""
    return lane_of(topic) in BROADCASTS[1:]


def _environments(topic: str, environment: Environment) -> int:
    """Return the topic's maximum of concurrent invocations: one a partition, and five a poller, if any."""
    (partitions,) = (each.partitions for each in chain_topics() if each.name == topic)
    partitions *= environment.kafka.partitions_factor
    return partitions if environment.pollers is None else min(partitions, environment.pollers * 5)


def test_only_delivery_functions_have_a_rate(synthesised: dict[str, SynthesisedEnvironment]) -> None:
    with_rate = {
        name
        for name, function in functions(synthesised["prod"]).items()
        if "PUSH_RATE_PER_S" in function.properties["Environment"]["Variables"]
    }
    assert with_rate == {"delivery", "delivery-critical"}


def test_bulk_and_the_critical_lane_share_no_poller(synthesised: dict[str, SynthesisedEnvironment]) -> None:
    groups: dict[str, set[str]] = {}
    for mapping in kafka_mappings(synthesised[PROD.name]):
        topic = mapping.properties["Topics"][0]
        groups.setdefault(mapping.properties["ProvisionedPollerConfig"]["PollerGroupName"], set()).add(topic)
    assert groups.keys() == {"masscomm-prod-bulk", "masscomm-prod-critical"}
    assert all(topic.endswith(".critical") for topic in groups["masscomm-prod-critical"])
    assert not [topic for topic in groups["masscomm-prod-bulk"] if topic.endswith(".critical")]
