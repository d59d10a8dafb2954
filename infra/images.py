"""Copies the images of an environment to its account: `python -m infra.images ENVIRONMENT`.

The images are in the repository that `cdk bootstrap` makes. `crane` (github.com/google/go-containerregistry) copies
public images, and adds a layer to some of them, such as our code with its locked dependencies; no Docker is needed. The
tags contain a version or a digest: an image that is there is not copied again.
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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from infra.cdk.code import image_files
from infra.cdk.environments import add_folder_option, environment_of
from infra.cdk.images import APPLICATION, Image, images, repository
from infra.packaging.build import TARGET, install
from infra.packaging.contents import image_distributions

# The platform of tasks on Fargate.
_PLATFORM = "linux/arm64"


class ImageError(Exception):
    """An image could not be copied; the message says why."""


def copy_images(
    wanted: Iterable[Image],
    repository: str,
    variables: Mapping[str, str],
    report: Callable[[str], object],
    *,
    sources: Mapping[str, str] = {},
) -> None:
    """Copy the images that the repository lacks.

    Args:
        wanted: The images.
        repository: The repository's name with its host.
        variables: Environment variables of crane, which name its credentials.
        report: Receives a line of text for each image, and for a public image without a digest the line that pins it.
        sources: Other addresses of public images, such as those of a mirror.

    Raises:
        ImageError: An image could not be copied.
    """
    known = _crane(variables, "ls", repository).split()
    for image in wanted:
        address = f"{repository}:{image.tag}"
        public, at, digest = image.source.partition("@")
        source = sources.get(public, public) + at + digest
        if image.tag not in known:
            if not digest:
                # The tag may change between two calls, so everything is copied by the digest that it has now.
                digest = _crane(variables, "digest", source).strip()
                report(f"image_digests: {public}: {digest}")
                source = f"{source}@{digest}"
            _copy(image, source, address, variables)
        state = "is there" if image.tag in known else "copied"
        report(f"{image.tag}: {state}, {_crane(variables, 'digest', address).strip()}")


def _copy(image: Image, source: str, address: str, variables: Mapping[str, str]) -> None:
    if not image.has_code and not image.files:
        _crane(variables, "copy", "--platform", _PLATFORM, source, address)
        return
    with tempfile.TemporaryDirectory() as folder:
        layer = Path(folder) / "layer.tar"
        if image.has_code:
            write_code(layer)
        else:
            _write_layer(layer, _built(image))
        options = ["--platform", _PLATFORM, "--base", source, "--new_layer", str(layer)]
        _crane(variables, "append", *options, "--new_tag", address)


def _built(image: Image) -> dict[str, bytes]:
    """Return the files of an image by their paths. Raises ImageError if a folder of them is not built."""
    files: dict[str, bytes] = {}
    for target, folder in image.files.items():
        found = {f"{target}/{each.relative_to(folder)}": each for each in folder.rglob("*") if each.is_file()}
        if not found:
            raise ImageError(f"{folder} has no files: run `make setup`")
        files |= {name: each.read_bytes() for name, each in found.items()}
    return files


def write_code(path: Path, *, platform: str = TARGET) -> None:
    """Write the layer with our code and its dependencies. The same input results in the same bytes.

    Raises:
        CalledProcessError: A wheel is not available, or differs from the locked one.
    """
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        install(image_distributions(), site, platform=platform)
        files = {each.relative_to(site).as_posix(): each.read_bytes() for each in site.rglob("*") if each.is_file()}
    files |= image_files()
    _write_layer(path, {f"{APPLICATION}/{name}": content for name, content in files.items()})


def _write_layer(path: Path, files: Mapping[str, bytes]) -> None:
    with tarfile.open(path, "w") as layer:
        for name in sorted(files):
            entry = tarfile.TarInfo(name.lstrip("/"))
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
    add_folder_option(parser)
    chosen = parser.parse_args()
    session: Any = boto3.Session()
    try:
        environment = environment_of(chosen.environment, chosen.folder)
        region = environment.region
        account = session.client("sts", region_name=region).get_caller_identity()["Account"]
        ecr = session.client("ecr", region_name=region)
        name = repository(environment, account, region)
        address = ecr.describe_repositories(repositoryNames=[name])["repositories"][0]["repositoryUri"]
        with signed_in(ecr, address.partition("/")[0]) as variables:
            copy_images(images(environment), address, variables, print)
    except (ImageError, BotoCoreError, ClientError, ValueError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
