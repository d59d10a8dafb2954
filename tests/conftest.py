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

from devstack import testing
from devstack.config import StackConfig
from tests.support.spark.session import kafka_frame, spark
from tests.support.whole_files import SPARK, STACKS, TEMPLATES, WholeFiles, group

# Imported only here: with imports in two folders a process would end its one Spark session twice.
__all__ = ["kafka_frame", "spark"]

# Neither a deadline nor a limit of generation time: on a loaded machine both fail good tests.
settings.register_profile(
    "masscomm", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("masscomm")

_SHARED = pytest.StashKey[testing.SharedStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    # Here and not in the cells' folder: pytest reads options before it has collected that folder.
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
    parser.addoption("--guarantee", help="only the tests that carry this id of docs/guarantees.md")
    parser.addoption("--headline", action="store_true", help="and the broadcast to 100,000")
    parser.addoption("--nightly", action="store_true", help="and what takes too long for each change: tests/upgrade")
    parser.addoption("--upgrade-from", default="1748bbf", help="the commit that the upgrade begins with")
    parser.addoption("--part", default="1/1", help="of those cells: the second of five parts is 2/5")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # xdist's workers use the stack of the process that started them
        config.stash[_SHARED] = testing.SharedStack()


def pytest_unconfigure(config: pytest.Config) -> None:
    if shared := config.stash.get(_SHARED, None):
        shared.close()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> WholeFiles:
    return WholeFiles(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests: first the slowest, one for each worker, then the fast ones.

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
            TEMPLATES,
            "tests/unit/",
            "tests/component/spark_metrics/",
            "",
        )
        items.sort(key=lambda item: next(n for n, start in enumerate(order) if group(item.nodeid).startswith(start)))


@pytest.fixture(scope="session")
def kafka() -> StackConfig:
    """A broker: `kafka_bootstrap`."""
    return testing.ensure("kafka")


@pytest.fixture(scope="session")
def registry() -> StackConfig:
    """A schema registry: `registry_url`."""
    return testing.ensure("registry")


@pytest.fixture(scope="session")
def postgres() -> StackConfig:
    """PostgreSQL with the databases monolith and metrics, both empty: `database_url(name)`."""
    return testing.ensure("postgres")


@pytest.fixture(scope="session")
def opensearch() -> StackConfig:
    """OpenSearch without an index: `opensearch_url`."""
    return testing.ensure("opensearch")


@pytest.fixture(scope="session")
def localstack() -> StackConfig:
    """SNS, SES, SQS, S3 and DynamoDB: `aws_url`, any credentials."""
    return testing.ensure("localstack")


@pytest.fixture(scope="session")
def connect() -> StackConfig:
    """Kafka Connect with Debezium's PostgreSQL connector, and its broker and database: `connect_url`."""
    return testing.ensure("connect", "postgres")


@pytest.fixture(scope="module")
def one_stack_at_a_time(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[None]:
    """Lock the machine for one stack: two would need twice the memory and miss their deadlines.

    For a module, not for a session: a worker that held the lock for the whole session would block the other workers.
    """
    base = tmp_path_factory.getbasetemp()
    with (base if worker_id == "master" else base.parent).joinpath("stack.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.fail("another worker holds a stack: all that do are one worker's (tests/support/whole_files.py)")
        yield
