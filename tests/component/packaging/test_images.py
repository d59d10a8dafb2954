"""masscomm's own image, copied by crane to a registry on the loopback address, and the commands in it."""

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from infra.cdk.config import Environment
from infra.cdk.examples import SMALL
from infra.cdk.images import APPLICATION, CONNECT_HOME, REGISTRY, Image, images, pinned
from infra.images import ImageError, copy_images, write_code
from local.devstack.config import ROOT
from local.devstack.deployed.cloud import HERE

CRANE = ROOT / ".devstack" / "go" / "bin"
VARIABLES = {**os.environ, "PATH": f"{CRANE}:{os.environ['PATH']}"}


def crane(*arguments: str) -> str:
    return subprocess.run(
        [str(shutil.which("crane", path=VARIABLES["PATH"])), *arguments], check=True, capture_output=True, text=True
    ).stdout


def pinning(environment: Environment, digests: Mapping[str, str]) -> Environment:
    return replace(environment, platform=replace(environment.platform, image_digests=digests))


@pytest.fixture
def registry() -> Iterator[str]:
    """A registry in memory; its address without a path."""
    program = str(shutil.which("crane", path=VARIABLES["PATH"]))
    command = [program, "registry", "serve", "--address", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        found = re.search(r"port (\d+)", server.stderr.readline())
        assert found
        yield f"127.0.0.1:{found[1]}"
        server.kill()


@pytest.mark.nightly
def test_images_are_copied_once_and_contain_our_code(registry: str, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "base.tar", "w") as layer:
        layer.addfile(tarfile.TarInfo("usr/bin/python"), io.BytesIO())
    wanted = images(SMALL)
    for name in ("assets", *(each.name for each in wanted)):
        crane("append", "--new_layer", str(tmp_path / "base.tar"), "--new_tag", f"{registry}/{name}:1")
    sources = {each.source: f"{registry}/{each.name}:1" for each in wanted}
    lines: list[str] = []
    for _ in range(2):
        copy_images(wanted, f"{registry}/assets", VARIABLES, lines.append, sources=sources)
    assert [line.partition(",")[0] for line in lines if not line.startswith("image_digests")] == [
        f"{each.tag}: {state}" for state in ("copied", "is there") for each in wanted
    ]

    def files(kind: str) -> set[str]:
        (image,) = [each for each in wanted if each.name == kind]
        crane("export", f"{registry}/assets:{image.tag}", str(tmp_path / "image.tar"))
        with tarfile.open(tmp_path / "image.tar") as archive:
            return set(archive.getnames())

    for part in ("kafka", "msk-iam", "task", "plugins"):
        assert any(name.startswith(f"{CONNECT_HOME.lstrip('/')}/{part}/") for name in files("connect")), part
    names = files("masscomm")
    inside = APPLICATION.lstrip("/")
    assert {"usr/bin/python", f"{inside}/cli/main.py", f"{inside}/schemas/topics.yaml"} <= names
    # The architecture of tasks is in the names of compiled modules.
    assert any(name.endswith("aarch64-linux-gnu.so") for name in names)
    assert not any("x86_64" in name for name in names)


@pytest.mark.nightly
def test_a_pinned_image_is_copied_after_its_tag_has_moved(registry: str, tmp_path: Path) -> None:
    address = f"{registry}/registry:1"

    def publish(name: str, to: str = address) -> None:
        with tarfile.open(tmp_path / "layer.tar", "w") as layer:
            layer.addfile(tarfile.TarInfo(name), io.BytesIO())
        crane("append", "--new_layer", str(tmp_path / "layer.tar"), "--new_tag", to)

    def copy(image: Image) -> tuple[str, str]:
        """Return the line that pins the image, or else nothing, and the digest of the copy."""
        lines: list[str] = []
        copy_images([image], f"{registry}/assets", VARIABLES, lines.append, sources={REGISTRY.source: address})
        return "".join(lines[:-1]), lines[-1].rpartition(" ")[2]

    publish("other", f"{registry}/assets:1")
    publish("first")
    line, first = copy(replace(REGISTRY, version="moves"))
    assert line == f"image_digests: {REGISTRY.source}: {first}"
    publish("second")
    assert copy(pinned(REGISTRY, pinning(SMALL, {REGISTRY.source: first}))) == ("", first)
    with pytest.raises(ImageError, match="crane copy"):
        copy(pinned(REGISTRY, pinning(SMALL, {REGISTRY.source: f"sha256:{'0' * 64}"})))


@pytest.mark.nightly
def test_commands_run_with_the_files_of_the_layer_alone(tmp_path: Path) -> None:
    """The entry point of a task, on this machine's processor: no module of the checkout is missing."""
    write_code(tmp_path / "layer.tar", platform=HERE)
    with tarfile.open(tmp_path / "layer.tar") as layer:
        layer.extractall(tmp_path, filter="data")
    application = tmp_path / APPLICATION.lstrip("/")

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        variables = {"MASSCOMM_TASK": "dev", "MASSCOMM_STATE": str(tmp_path / "state"), "PYTHONPATH": str(application)}
        # Without -S, the packages of this environment would hide missing ones.
        return subprocess.run(
            [sys.executable, "-S", "-m", "cli.main", *command],
            cwd=application,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )

    refused = run("dead-letters", "list", "--deployed", "dev")
    assert (refused.returncode, "KAFKA_BOOTSTRAP_SERVERS is not set" in refused.stderr) == (1, True), refused.stderr
    refused = run("trace", "an-id", "--deployed", "dev")
    assert "KAFKA_BOOTSTRAP_SERVERS is not set" in refused.stderr
