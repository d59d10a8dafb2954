"""Copies the images of an environment to its account: `python -m infra.images ENVIRONMENT`.

The images are in the repository that `cdk bootstrap` makes. `crane` (github.com/google/go-containerregistry) copies the
schema registry's image, and adds a layer with our code and its locked dependencies to a public image of Python; no
Docker is needed. The tags contain a version or a digest: an image that is there is not copied again.
`masscomm images ENVIRONMENT` is the same command.
"""

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from infra.cdk.code import APPLICATION, BASE_IMAGE, IMAGE_PREFIX, REGISTRY_IMAGE, REGISTRY_TAG, image_files, image_tag
from infra.cdk.config import environment_of
from infra.packaging.build import TARGET, install
from infra.packaging.contents import image_distributions

# The platform of tasks on Fargate.
_PLATFORM = "linux/arm64"


class ImageError(Exception):
    """An image could not be copied; the message says why."""


def copy_images(
    repository: str, variables: Mapping[str, str], report: Callable[[str], object], *, sources: Mapping[str, str] = {}
) -> None:
    """Copy the images that the repository lacks.

    Args:
        repository: The repository's name with its host.
        variables: Environment variables of crane, which name its credentials.
        report: Receives a line of text for each image.
        sources: Other addresses of the two public images, such as those of a mirror.

    Raises:
        ImageError: An image could not be copied.
    """
    registry, base = (sources.get(each, each) for each in (REGISTRY_IMAGE, BASE_IMAGE))
    known = _crane(variables, "ls", repository).split()
    own = f"{IMAGE_PREFIX}{image_tag()}"
    if REGISTRY_TAG not in known:
        _crane(variables, "copy", "--platform", _PLATFORM, registry, f"{repository}:{REGISTRY_TAG}")
    if own not in known:
        with tempfile.TemporaryDirectory() as folder:
            layer = Path(folder) / "layer.tar"
            write_layer(layer)
            options = ["--platform", _PLATFORM, "--base", base, "--new_layer", str(layer)]
            _crane(variables, "append", *options, "--new_tag", f"{repository}:{own}")
    for tag in (REGISTRY_TAG, own):
        state = "is there" if tag in known else "copied"
        report(f"{tag}: {state}, {_crane(variables, 'digest', f'{repository}:{tag}').strip()}")


def write_layer(path: Path, *, platform: str = TARGET) -> None:
    """Write the layer with our code and its dependencies. The same input results in the same bytes.

    Raises:
        CalledProcessError: A wheel is not available, or differs from the locked one.
    """
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        install(image_distributions(), site, platform=platform)
        files = {each.relative_to(site).as_posix(): each.read_bytes() for each in site.rglob("*") if each.is_file()}
    files |= image_files()
    with tarfile.open(path, "w") as layer:
        for name in sorted(files):
            entry = tarfile.TarInfo(f"{APPLICATION.lstrip('/')}/{name}")
            entry.size, entry.mode = len(files[name]), 0o644
            layer.addfile(entry, io.BytesIO(files[name]))


def _crane(variables: Mapping[str, str], *arguments: str) -> str:
    program = shutil.which("crane", path=variables.get("PATH"))
    if program is None:
        raise ImageError(
            "crane is not on PATH. Install it: go install github.com/google/go-containerregistry/cmd/crane@v0.20.6"
        )
    done = subprocess.run([program, *arguments], env=dict(variables), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageError(f"crane {arguments[0]}: {done.stderr.strip()[-2000:]}")
    return done.stdout


@contextmanager
def signed_in(ecr: Any, host: str) -> Iterator[dict[str, str]]:
    """Yield environment variables of crane with a token for the registry, which no other process can read.

    https://docs.aws.amazon.com/AmazonECR/latest/userguide/registry_auth.html: the token is the encoded user and
    password of basic authentication, and is valid for 12 hours.
    """
    token = ecr.get_authorization_token()["authorizationData"][0]["authorizationToken"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps({"auths": {host: {"auth": token}}}))
        yield {**os.environ, "DOCKER_CONFIG": folder}


def main() -> int:
    """Run the command and return its exit status: 1 if an image could not be copied."""
    parser = argparse.ArgumentParser(prog="python -m infra.images", description=__doc__)
    parser.add_argument("environment")
    parser.add_argument("--qualifier", default="hnb659fds", help="that of `cdk bootstrap` (default: %(default)s)")
    chosen = parser.parse_args()
    session: Any = boto3.Session()
    try:
        region = environment_of(chosen.environment).region
        account = session.client("sts", region_name=region).get_caller_identity()["Account"]
        ecr = session.client("ecr", region_name=region)
        name = f"cdk-{chosen.qualifier}-container-assets-{account}-{region}"
        address = ecr.describe_repositories(repositoryNames=[name])["repositories"][0]["repositoryUri"]
        with signed_in(ecr, address.partition("/")[0]) as variables:
            copy_images(address, variables, print)
    except (ImageError, BotoCoreError, ClientError, ValueError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
