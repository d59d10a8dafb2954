"""Creates an application of EMR Serverless for Spark jobs."""

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_emrserverless as emr
from constructs import Construct

from infra.cdk.config import Environment


def spark_application(
    scope: Construct,
    *,
    environment: Environment,
    name: str,
    vpc: ec2.IVpc,
    subnets: ec2.SubnetSelection,
    group: ec2.ISecurityGroup,
    workers: int,
    idle_minutes: int,
) -> emr.CfnApplication:
    """Return an application that starts with a job and stops itself when it is idle.

    Args:
        scope: The construct that the application belongs to, under the id `application`.
        environment: The environment, which determines the release and the size of a worker.
        name: The name of the application.
        vpc: The VPC of the workers.
        subnets: The subnets of the workers.
        group: The security group of the workers.
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
            subnet_ids=vpc.select_subnets(subnet_type=subnets.subnet_type).subnet_ids,
            security_group_ids=[group.security_group_id],
        ),
        maximum_capacity=emr.CfnApplication.MaximumAllowedResourcesProperty(
            cpu=f"{spark.worker_cpu * workers} vCPU", memory=f"{spark.worker_memory_gb * workers} GB"
        ),
        auto_start_configuration=emr.CfnApplication.AutoStartConfigurationProperty(enabled=True),
        auto_stop_configuration=emr.CfnApplication.AutoStopConfigurationProperty(
            enabled=True, idle_timeout_minutes=idle_minutes
        ),
    )
