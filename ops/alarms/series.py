"""The metrics of AWS that alarms read. The local stack takes samples of the same ones."""

from collections.abc import Mapping

from ops.alarms.rules import Series


def of_function(function: str, name: str, statistic: str) -> Series:
    """Return a metric of a Lambda function."""
    return Series(namespace="AWS/Lambda", name=name, statistic=statistic, dimensions={"FunctionName": function})


def dropped_records(mapping: str) -> Series:
    """Return the number of records that an event source mapping dropped."""
    dimensions = {"EventSourceMappingUUID": mapping}
    return Series(namespace="AWS/Lambda", name="DroppedEventCount", statistic="Sum", dimensions=dimensions)


def of_cluster(cluster: str, name: str, statistic: str, further: Mapping[str, str] | None = None) -> Series:
    """Return a metric of a Kafka cluster, or of the part of it with the further dimensions."""
    dimensions = {"Cluster Name": cluster, **(further or {})}
    return Series(namespace="AWS/Kafka", name=name, statistic=statistic, dimensions=dimensions)


def lag(cluster: str, *, group: str, topic: str) -> Series:
    """Return the seconds that the oldest record of a topic has waited for a consumer group."""
    return of_cluster(cluster, "EstimatedMaxTimeLag", "Maximum", {"Consumer Group": group, "Topic": topic})


def controllers(cluster: str) -> Series:
    """Return the number of controllers, 1 or 0."""
    return of_cluster(cluster, "ActiveControllerCount", "Maximum")


def offline_partitions(cluster: str) -> Series:
    """Return the number of partitions without a leader."""
    return of_cluster(cluster, "OfflinePartitionsCount", "Maximum")


def of_directory(dimensions: Mapping[str, str], name: str, statistic: str = "Maximum") -> Series:
    """Return a metric of the OpenSearch domain."""
    return Series(namespace="AWS/ES", name=name, statistic=statistic, dimensions=dimensions)


def connector_tasks(connector: str) -> Series:
    """Return the number of running tasks of a connector."""
    dimensions = {"ConnectorName": connector}
    return Series(namespace="AWS/KafkaConnect", name="RunningTaskCount", statistic="Minimum", dimensions=dimensions)


def registry_tasks(dimensions: Mapping[str, str]) -> Series:
    """Return the number of running tasks of the schema registry."""
    name = "RunningTaskCount"
    return Series(namespace="ECS/ContainerInsights", name=name, statistic="Minimum", dimensions=dimensions)


def service_tasks(dimensions: Mapping[str, str]) -> Series:
    """Return the number of running tasks of a service, which each report their CPU once a minute.

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/available-metrics.html
    """
    return Series(namespace="AWS/ECS", name="CPUUtilization", statistic="SampleCount", dimensions=dimensions)


def api_errors(api: str) -> Series:
    """Return the share of the API's requests that end in a 5xx."""
    return Series(namespace="AWS/ApiGateway", name="5XXError", statistic="Average", dimensions={"ApiName": api})


def api_latency(api: str, stage: str, method: str, route: str) -> Series:
    """Return the latency of a route in ms that one request in a hundred exceeds."""
    dimensions = {"ApiName": api, "Stage": stage, "Method": method, "Resource": route}
    return Series(namespace="AWS/ApiGateway", name="Latency", statistic="p99", dimensions=dimensions)
