"""Groups the tests that one xdist worker runs together: those of a file, all that start a stack, all that use Spark,
all that read synthesised templates.

Otherwise each worker would set up the fixtures of a file. Stacks cannot run concurrently: a worker that waited for its
turn would be idle, as would a worker that waited while another one synthesises. A Spark session takes half a minute of
processor time to start and to compile its queries; three workers would repeat this three times.

xdist's own `--dist loadgroup` does not work with pytest 9.2, which no longer reads the group from the place where xdist
writes it: every test becomes a group.

This module also schedules the tests of a crashed worker. xdist 3.8 assigns all files of that worker again, including
finished tests and the test that crashed, and a worker with a finished file gets no further work.
"""

from collections.abc import Sequence

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

STACKS = "stacks"
# The tests of these files use the fixture one_stack_at_a_time.
HOLD_A_STACK = {
    "tests/e2e/test_full_stack.py",
    "tests/e2e/test_second_example.py",
    "tests/faults/test_matrix.py",
    "tests/localstack/test_deployment.py",
    "tests/localstack/test_template_upgrade.py",
    "tests/restore/test_restore.py",
    "tests/upgrade/test_upgrade.py",
}

SPARK = "spark"
# The tests of these paths use the fixture `spark`, directly or through another fixture.
ASK_FOR_SPARK = (
    "tests/unit/spark_events/test_output",
    "tests/unit/spark_metrics/",
    *(
        f"tests/component/spark_metrics/test_{subject}"
        for subject in ("archive", "latencies", "query", "recompute", "webhook")
    ),
)

TEMPLATES = "templates"
# The tests of these paths use the fixture `synthesised`, directly or through another fixture.
READ_TEMPLATES = ("tests/unit/infra/", "tests/component/deployment/test_registry_tls.py")


class WholeFiles(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """The scheduler of xdist, for every value of --dist."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """Return the worker's remaining tests to the queue. Returns the test in which the worker crashed, or None."""
        workload = self.assigned_work.pop(node)
        remaining = [(scope, test) for scope, tests in workload.items() for test, done in tests.items() if not done]
        if not remaining:
            return None
        (_, crashed), *others = remaining
        for scope, test in others:
            self.workqueue.setdefault(scope, {})[test] = False
        for other in self.nodes:
            self._reschedule(other)
        return str(crashed)

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        # A worker with another collection would get no tests, and the session would never end.
        if node not in self.registered_collections:
            raise RuntimeError(f"{node} collected other tests than the worker that it replaces")

    def _reschedule(self, node: WorkerController) -> None:
        """Assign two tests to a worker if possible, because it starts a test only once it knows the next one."""
        if node not in self.registered_collections:
            return  # A replacement of a crashed worker may still be collecting its tests.
        super()._reschedule(node)
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            self._assign_work_unit(node)


def group(nodeid: str) -> str:
    """Return the name of the group in which a test runs."""
    file = nodeid.partition("::")[0]
    if file.startswith(ASK_FOR_SPARK):
        return SPARK
    if file.startswith(READ_TEMPLATES):
        return TEMPLATES
    return STACKS if file in HOLD_A_STACK else file
