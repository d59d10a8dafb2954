"""Fixtures of servers: one stack a session, on free ports, each service started at its first use.

Every fixture returns the stack's configuration (addresses, ports). The servers are shared by all tests and all
worker processes: a test makes its own topics, subjects, indices, databases and connectors, under unique names, and
kills no service. A test that must kill one starts its own stack.
"""

import fcntl
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from local.devstack import testing
from local.devstack.config import StackConfig
from tests.support.categories import stored_categories
from tests.support.spark.session import kafka_frame, spark
from tests.support.whole_files import SPARK, STACKS, TEMPLATES, WholeFiles, group

# The Spark fixtures are imported only here: with two imports a process would end its one Spark session twice.
__all__ = ["kafka_frame", "spark", "stored_categories"]

# No deadline and no check of generation time, because both fail good tests on a loaded machine.
settings.register_profile(
    "masscomm", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("masscomm")

_SHARED = pytest.StashKey[testing.SharedStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    # Defined here, because pytest reads options before it has collected the folder of the cells.
    parser.addoption(
        "--cells",
        choices=("few", "others", "all"),
        default="few",
        help="of the fault matrix: a few cells that stand for all, the others, or all",
    )
    parser.addoption(
        "--deployment",
        choices=("part", "whole"),
        default="part",
        help="of the deployment on LocalStack: functions run there, or everything from bootstrap to destroy",
    )
    parser.addoption(
        "--flood",
        choices=("part", "full"),
        default="part",
        help="of hostile records: some hundred a topic, or 20,000",
    )
    parser.addoption("--guarantee", help="only the tests that carry this id of docs/internals/guarantees.md")
    parser.addoption("--headline", action="store_true", help="and the broadcast to 100,000")
    parser.addoption("--nightly", action="store_true", help="and what takes too long for each change: tests/upgrade")
    parser.addoption("--upgrade-from", help="the tag or commit that the upgrade begins with; by default 0.1.0")
    parser.addoption("--part", default="1/1", help="of those cells: the second of five parts is 2/5")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # xdist's workers use the stack of the process that started the workers
        config.stash[_SHARED] = testing.SharedStack()


def pytest_unconfigure(config: pytest.Config) -> None:
    if shared := config.stash.get(_SHARED, None):
        shared.close()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> WholeFiles:
    return WholeFiles(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests: first the slowest of each worker, then the fast ones.

    A test of several minutes that began last would prolong the whole run.
    """
    if id := config.getoption("--guarantee"):
        others = [item for item in items if not any(id in marker.args for marker in item.iter_markers("guarantee"))]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]
    if not config.getoption("--nightly"):
        nightly = [item for item in items if item.get_closest_marker("nightly")]
        config.hook.pytest_deselected(items=nightly)
        items[:] = [item for item in items if item not in set(nightly)]
    if hasattr(config, "workerinput"):
        order = (
            STACKS,
            SPARK,
            "tests/component/spark_metrics/test_exactness",
            "tests/component/spark_metrics/test_job",
            "tests/component/packaging/test_packages",
            TEMPLATES,
            "tests/unit/",
            "tests/component/spark_metrics/",
            "",
        )
        items.sort(key=lambda item: next(n for n, start in enumerate(order) if group(item.nodeid).startswith(start)))


@pytest.fixture(scope="session")
def kafka() -> StackConfig:
    """The address of a broker: `kafka_bootstrap`."""
    return testing.ensure("kafka")


@pytest.fixture(scope="session")
def registry() -> StackConfig:
    """The address of a schema registry: `registry_url`."""
    return testing.ensure("registry")


@pytest.fixture(scope="session")
def postgres() -> StackConfig:
    """The empty databases monolith and metrics in PostgreSQL: `database_url(name)`."""
    return testing.ensure("postgres")


@pytest.fixture(scope="session")
def opensearch() -> StackConfig:
    """OpenSearch without an index: `opensearch_url`."""
    return testing.ensure("opensearch")


@pytest.fixture
def cluster(opensearch: StackConfig) -> Iterator[str]:
    """The address of OpenSearch for one test at a time: its aliases and some indices have the same names for all."""
    with (opensearch.state_dir / "directory.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield opensearch.opensearch_url


@pytest.fixture(scope="session")
def localstack() -> StackConfig:
    """LocalStack with SNS, SES, SQS, S3 and DynamoDB: `aws_url`, any credentials."""
    return testing.ensure("localstack")


@pytest.fixture(scope="session")
def connect() -> StackConfig:
    """Kafka Connect with Debezium's PostgreSQL connector, and its broker and database: `connect_url`."""
    return testing.ensure("connect", "postgres")


@pytest.fixture(scope="module")
def one_stack_at_a_time(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[None]:
    """Allow one stack at a time on the machine, because two would need twice the memory and miss their deadlines.

    The lock lasts for a module: a worker that held it for the whole session would block the other workers.
    """
    base = tmp_path_factory.getbasetemp()
    with (base if worker_id == "master" else base.parent).joinpath("stack.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.fail("another worker holds a stack: all that do are one worker's (tests/support/whole_files.py)")
        yield
