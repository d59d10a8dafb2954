"""Creates an application of EMR Serverless for Spark jobs."""

from aws_cdk import aws_emrserverless as emr
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.network import Place


def spark_application(
    scope: Construct,
    *,
    environment: Environment,
    name: str,
    place: Place,
    workers: int,
    idle_minutes: int,
) -> emr.CfnApplication:
    """Return an application that starts with a job and stops itself when it is idle.

    Args:
        scope: The construct that the application belongs to, under the id `application`.
        environment: The environment, which determines the release and the size of a worker.
        name: The name of the application.
        place: The place of the workers.
        workers: The maximum capacity as a number of workers of the environment's size, drivers included.
        idle_minutes: The time without a run after which the application stops, in minutes.
    """
    spark = environment.spark
    return emr.CfnApplication(
        scope,
        "application",
        name=name,
        release_label=spark.release,
        type="SPARK",
        architecture="ARM64",
        network_configuration=emr.CfnApplication.NetworkConfigurationProperty(
            subnet_ids=place.subnet_ids, security_group_ids=[place.group.security_group_id]
        ),
        maximum_capacity=emr.CfnApplication.MaximumAllowedResourcesProperty(
            cpu=f"{spark.worker_cpu * workers} vCPU", memory=f"{spark.worker_memory_gb * workers} GB"
        ),
        auto_start_configuration=emr.CfnApplication.AutoStartConfigurationProperty(enabled=True),
        auto_stop_configuration=emr.CfnApplication.AutoStopConfigurationProperty(
            enabled=True, idle_timeout_minutes=idle_minutes
        ),
    )
