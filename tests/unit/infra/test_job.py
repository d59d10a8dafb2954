import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from infra.cdk.code import NotPackaged, function_code, staged_sources
from infra.cdk.config import SparkConfig
from infra.job_archive import write_archive
from local.devstack.config import ROOT

ROOMS = ("masscomm", "schemas", "spark_events", "spark_metrics", "ops/erasure")
# Module → distribution in requirements/job.in, where the names differ.
NAMES = {"confluent_kafka": "confluent-kafka", "yaml": "pyyaml"}

LOADED = """
import sys
before = set(sys.modules)
import spark_events.job, spark_metrics.job, ops.erasure.__main__
origin = sys.prefix
for name in sorted({name.partition(".")[0] for name in set(sys.modules) - before}):
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    if "site-packages" in file:
        print(name)
"""


def test_job_imports_only_its_archive_and_emrs_packages() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {NAMES.get(name, name) for name in done.stdout.split()}
    listed = {
        line.partition("[")[0].strip()
        for line in (ROOT / "requirements" / "job.in").read_text().splitlines()
        if line and not line.startswith("#")
    }
    parts = {"psycopg_binary", "_yaml", "typing_extensions"}
    assert "fastavro" in loaded
    # PySpark imports psutil if it is installed.
    assert loaded - listed - parts - {"pyspark", "py4j", "psutil"} == set()


def test_the_jobs_sources_are_read_by_emrs_python() -> None:
    version = tuple(int(part) for part in SparkConfig().python.removeprefix("python").split("."))
    assert len(version) == 2
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            ast.parse(path.read_text(), filename=str(path), feature_version=(version[0], version[1]))


def test_functions_have_the_source_that_the_variable_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "my-source.yaml"
    own.write_text("tables: {}")
    monkeypatch.setenv("MASSCOMM_SOURCE", str(own))
    assert (staged_sources(("schemas",)) / "schemas" / "source.yaml").read_text() == "tables: {}"


def test_job_has_the_file_of_the_organisations_topics() -> None:
    name = "examples/event_sources.yaml"
    sources = staged_sources(("schemas",), name)
    assert (sources / "event_sources.yaml").read_text() == (ROOT / name).read_text()
    assert not (staged_sources(("schemas",)) / "event_sources.yaml").exists()


def test_package_with_another_source_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "builder.zip", "w") as archive:
        archive.writestr("schemas/source.yaml", "tables: {}")
    monkeypatch.setenv("MASSCOMM_PACKAGES", str(tmp_path))
    with pytest.raises(NotPackaged, match=r"builder\.zip was built with another file than schemas/source\.yaml"):
        function_code("builder")


def test_the_jobs_sources_hold_each_statement_that_it_reads() -> None:
    sources = staged_sources(ROOMS) / "spark_metrics"
    texts = [path.read_text() for path in sources.rglob("*.py")]
    read = {name for text in texts for name in re.findall(r'(?:read_sql|_run)\(\s*"(\w+)"', text)}
    assert {path.stem for path in (sources / "sql").glob("*.sql")} == read


def test_the_same_files_make_the_same_archive(tmp_path: Path) -> None:
    made = []
    for number, names in enumerate((("a", "b"), ("b", "a"))):
        folder = tmp_path / str(number)
        (folder / "package" / "__pycache__").mkdir(parents=True)
        for name in names:
            (folder / "package" / f"{name}.py").write_text(name)
        (folder / "package" / "__pycache__" / "a.pyc").write_text(str(number))
        write_archive(folder, tmp_path / f"{number}.zip")
        made.append((tmp_path / f"{number}.zip").read_bytes())
    assert made[0] == made[1]
