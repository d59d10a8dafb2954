"""An application of EMR Serverless for Spark jobs."""

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
    """Return an application that starts with a job and stops by itself.

    Args:
        scope: the construct that it belongs to, under the id `application`.
        environment: gives the release and the size of a worker.
        name: the application's name.
        vpc: the workers' VPC.
        subnets: the workers' subnets.
        group: the workers' security group.
        workers: capacity, counted in workers of the environment's size, drivers included.
        idle_minutes: the application stops after this time without a run.
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
