"""The container images of an environment: what each is made of. They are in repositories of the environment, from which
its tasks start; docs/deploying.md has how they get there.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.cdk.code import ROOT
from infra.cdk.config import Environment

_BUILT = ROOT / ".devstack"
# The version of the local registry in local/devstack/jars/registry/pom.xml.
REGISTRY_VERSION = "2.6.13.Final"
# The folder of Kafka Connect in its image.
CONNECT_HOME = "/opt/connect"


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image for arm64."""

    # The last part of the repository's name.
    name: str
    # The public image that is copied.
    source: str
    # The tag in the repository, which is immutable.
    tag: str
    # The folders of the checkout that are added to the public image, by their paths in the image. `make setup` builds
    # them.
    files: Mapping[str, Path] = field(default_factory=dict)

    def repository(self, environment: Environment) -> str:
        """Return the name of the repository."""
        return f"{environment.prefix}/{self.name}"


REGISTRY = Image(
    name="registry",
    source=f"apicurio/apicurio-registry-sql:{REGISTRY_VERSION}",
    tag=REGISTRY_VERSION,
)


def connect_image() -> Image:
    """Return the image of Kafka Connect: the jars of the local stack, MSK's sign-in by IAM, and the plug-in of MSK
    Connect. Its tag changes with its files.
    """
    files = {
        f"{CONNECT_HOME}/kafka": _BUILT / "jars" / "kafka",
        f"{CONNECT_HOME}/msk-iam": _BUILT / "jars" / "msk_iam",
        f"{CONNECT_HOME}/task": _BUILT / "connect-task",
        f"{CONNECT_HOME}/plugins": _BUILT / "connect-plugin",
    }
    digest = hashlib.sha256()
    for folder in files.values():
        for path in sorted(folder.rglob("*.jar")):
            digest.update(path.name.encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return Image(
        name="connect",
        source="public.ecr.aws/amazoncorretto/amazoncorretto:17-al2023-headless",
        tag=digest.hexdigest()[:12],
        files=files,
    )


def images(environment: Environment) -> list[Image]:
    """Return the images of an environment."""
    return [REGISTRY, *([] if environment.connect_task is None else [connect_image()])]
