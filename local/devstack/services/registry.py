"""The schema registry: Apicurio, used through its Confluent-compatible API."""

from local.devstack.config import StackConfig
from local.devstack.service import Service, answers, class_archive, java
from local.devstack.setup import JARS
from local.emulators.local import LOOPBACK


def service(config: StackConfig) -> Service:
    """Return the specification of the registry: its Confluent-compatible API is under /apis/ccompat/v7 of
    `ports.registry`.
    """
    port = config.ports.registry
    # Without WRITE_DELAY=0, a kill can lose schemas whose registration was acknowledged.
    database = f"jdbc:h2:file:{config.data('registry')}/registry;WRITE_DELAY=0"
    return Service(
        name="registry",
        command=[
            *java(
                f"-Dquarkus.http.host={LOOPBACK}",
                f"-Dquarkus.http.port={port}",
                "-Dquarkus.log.console.color=false",
                "-Dquarkus.banner.enabled=false",
                "-Djava.util.logging.manager=org.jboss.logmanager.LogManager",
                "-jar",
                heap_mb=192,
            ),
            f"{JARS}/registry/apicurio-registry-app-2.6.13.Final-runner.jar",
        ],
        environment={"REGISTRY_DATASOURCE_URL": database, "REGISTRY_LOG_LEVEL": "WARN"},
        ports=("registry",),
        address=config.registry_url,
        class_archive=class_archive("registry"),
        ready=answers(f"{config.registry_url}/subjects"),
    )
