"""OpenSearch: one node, started as a library, because its own launcher refuses to run as root."""

from local.devstack.config import StackConfig
from local.devstack.service import Service, answers, class_archive, java, log4j
from local.devstack.setup import JARS, LAUNCHERS
from local.emulators.local import LOOPBACK

YML = """\
cluster.name: masscomm
node.name: masscomm
network.host: {host}
http.port: {port}
transport.port: {transport}
discovery.type: single-node
path.data: {data}
path.logs: {logs}
cluster.routing.allocation.disk.threshold_enabled: false
# An index that nobody created must be an error: a misspelt name would look like an empty directory.
action.auto_create_index: false
"""


def service(config: StackConfig) -> Service:
    """Return the specification of OpenSearch: HTTP on `ports.opensearch`; the transport protocol, unused but not
    optional, on `ports.opensearch_transport`.
    """
    home = config.config_dir("opensearch")
    logging = home / "log4j2.properties"
    return Service(
        name="opensearch",
        command=[
            *java(
                "-Xms256m",
                f"-Dlog4j2.configurationFile={logging}",
                "-Dlog4j2.disable.jmx=true",
                "-Dio.netty.noUnsafe=true",
                "-cp",
                f"{LAUNCHERS}:{JARS}/opensearch/*",
                heap_mb=512,
            ),
            "OpenSearchNode",
            str(home),
        ],
        ports=("opensearch", "opensearch_transport"),
        address=config.opensearch_url,
        files={
            home / "config" / "opensearch.yml": YML.format(
                host=LOOPBACK,
                port=config.ports.opensearch,
                transport=config.ports.opensearch_transport,
                data=config.data("opensearch"),
                logs=config.state_dir / "logs" / "opensearch",
            ),
            logging: log4j(),
        },
        class_archive=class_archive("opensearch"),
        ready=answers(f"{config.opensearch_url}/_cluster/health?wait_for_status=yellow&timeout=1s"),
    )
