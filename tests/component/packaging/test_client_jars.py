"""The jars of the Java client: its classes, its sources, and its documentation."""

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from infra.packaging.contents import ROOT

CLIENT = ROOT / "sdk" / "java"


@pytest.mark.nightly
def test_the_jars_of_the_java_client_compile_each_example(tmp_path: Path) -> None:
    """The build reads the registry of Maven. A warning of the compiler or of Javadoc ends it."""
    project = tmp_path / "java"
    shutil.copytree(CLIENT, project, ignore=shutil.ignore_patterns("target"))
    subprocess.run(["mvn", "-B", "-ntp", "-q", "--strict-checksums", "package", "-DskipTests"], cwd=project, check=True)
    jar, documentation, sources = (
        project / "target" / f"masscomm-client-0.1.0{kind}.jar" for kind in ("", "-javadoc", "-sources")
    )
    classes = {name for name in names(jar) if name.endswith(".class")}
    assert {str(Path(name).parent) for name in classes} == {"masscomm/client"}
    assert "masscomm/client/Client.java" in names(sources)
    assert [name for name in names(documentation) if name.endswith("/Client.html")]
    examples = sorted((CLIENT / "examples").glob("*.java"))
    # The client's signatures need no class of its library.
    subprocess.run(["javac", "-Xlint:all", "-Werror", "-d", tmp_path / "out", "-cp", jar, *examples], check=True)


def names(archive: Path) -> list[str]:
    with zipfile.ZipFile(archive) as opened:
        return opened.namelist()
