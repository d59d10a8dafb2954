"""The container images of an environment: what each is made of. `masscomm images` copies them to the repository that
`cdk bootstrap` makes, from which tasks start them.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from infra.cdk.code import ROOT, image_files
from infra.cdk.config import Environment

_BUILT = ROOT / ".devstack"
# The folder of the code in masscomm's own image, and that of Kafka Connect in its image.
APPLICATION = "/opt/masscomm"
CONNECT_HOME = "/opt/connect"
_LOCK = ROOT / "requirements" / "main.txt"


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image for arm64."""

    # The beginning of the tag.
    name: str
    # The public image that is copied.
    source: str
    # The end of the tag.
    version: str
    # The folders of the checkout that are added to the public image, by their paths in the image. `make setup` builds
    # them.
    files: Mapping[str, Path] = field(default_factory=dict)
    # Whether masscomm's code and its locked dependencies are added to the public image.
    has_code: bool = False

    @property
    def tag(self) -> str:
        """Return the tag in the repository, which all images share."""
        return f"{self.name}-{self.version}"


# The version of the local registry in local/devstack/jars/registry/pom.xml.
_REGISTRY = "2.6.13.Final"
REGISTRY = Image(name="registry", source=f"docker.io/apicurio/apicurio-registry-sql:{_REGISTRY}", version=_REGISTRY)


def own_image() -> Image:
    """Return masscomm's own image, which tasks of provisioning and operators run. Its tag changes with its files."""
    # Amazon's public registry has the official images, without Docker Hub's rate limit.
    # https://docs.aws.amazon.com/AmazonECR/latest/public/docker-official-images.html
    source = "public.ecr.aws/docker/library/python:3.13-slim-bookworm"
    contents = {**image_files(), _LOCK.name: _LOCK.read_bytes()}
    return Image(name="masscomm", source=source, version=_digest(source, contents), has_code=True)


def connect_image() -> Image:
    """Return the image of Kafka Connect: the jars of the local stack, MSK's sign-in by IAM, and the plug-in of MSK
    Connect. Its tag changes with its files.
    """
    source = "public.ecr.aws/amazoncorretto/amazoncorretto:17-al2023-headless"
    files = {
        f"{CONNECT_HOME}/kafka": _BUILT / "jars" / "kafka",
        f"{CONNECT_HOME}/msk-iam": _BUILT / "jars" / "msk_iam",
        f"{CONNECT_HOME}/task": _BUILT / "connect-task",
        f"{CONNECT_HOME}/plugins": _BUILT / "connect-plugin",
    }
    contents = {
        f"{folder}/{path.name}": path.read_bytes()
        for folder, built in files.items()
        for path in sorted(built.rglob("*.jar"))
    }
    return Image(name="connect", source=source, version=_digest(source, contents), files=files)


def pinned(image: Image, environment: Environment) -> Image:
    """Return an image with the public image that the environment pins. The tag contains the digest, since an image of
    the same tag is not copied again.
    """
    digest = environment.platform.image_digests.get(image.source)
    if digest is None:
        return image
    short = digest.removeprefix("sha256:")[:16]
    return replace(image, source=f"{image.source}@{digest}", version=f"{image.version}-{short}")


def repository(environment: Environment, account: str, region: str) -> str:
    """Return the name of the repository that `cdk bootstrap` makes in an account and region."""
    return f"cdk-{environment.platform.bootstrap_qualifier}-container-assets-{account}-{region}"


def images(environment: Environment) -> list[Image]:
    """Return the images of an environment.

    Raises:
        ValueError: The environment pins a public image that is not one of theirs.
    """
    used = [REGISTRY, own_image(), *([] if environment.connect_task is None else [connect_image()])]
    unknown = environment.platform.image_digests.keys() - {image.source for image in used}
    if unknown:
        raise ValueError(f"image_digests: {', '.join(sorted(unknown))} is the source of no image of {environment.name}")
    return [pinned(image, environment) for image in used]


def _digest(source: str, contents: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(source.encode())
    for name, content in contents.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]
