"""Which tests one of xdist's workers runs together: those of a file, all that hold a stack, and all of one Spark.

Otherwise each worker would make the fixtures of a file. Stacks cannot run concurrently: a worker that waited for its
turn would be idle. A Spark session takes half a minute of processor time to start and to compile its queries; three
workers would do this three times.

xdist's own `--dist loadgroup` does not work with pytest 9.2, which no longer reads the group from the place where xdist
writes it: every test becomes a group.

This module also schedules the tests of a worker that crashed. xdist 3.8 assigns all files of that worker again, with
the finished ones and the test that crashed: a worker that is assigned a finished file gets no further work.
"""

from collections.abc import Sequence

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

STACKS = "stacks"
# Each test in these asks for one_stack_at_a_time.
HOLD_A_STACK = {
    "tests/e2e/test_full_stack.py",
    "tests/faults/test_matrix.py",
    "tests/localstack/test_deployment.py",
    "tests/upgrade/test_upgrade.py",
}

SPARK = "spark"
# Where the fixture `spark` is asked for, by itself or through another.
ASK_FOR_SPARK = ("tests/unit/spark_metrics/", "tests/component/spark_metrics/test_archive.py")


class WholeFiles(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Used by pytest_xdist_make_scheduler, whatever --dist says."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """Give what a worker leaves to the others, and tell which test it crashed in; None where it had none left."""
        workload = self.assigned_work.pop(node)
        left = [(scope, test) for scope, tests in workload.items() for test, done in tests.items() if not done]
        if not left:
            return None
        (_, crashed), *others = left
        for scope, test in others:
            self.workqueue.setdefault(scope, {})[test] = False
        for other in self.nodes:
            self._reschedule(other)
        return str(crashed)

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node not in self.registered_collections:  # it could be given nothing, and everybody would wait for it
            raise RuntimeError(f"{node} collected other tests than the worker in whose place it came")

    def _reschedule(self, node: WorkerController) -> None:
        """Give a worker two tests where there are as many: it does not begin its last before it knows the next."""
        if node not in self.registered_collections:
            return  # it came for one that crashed and still collects
        super()._reschedule(node)
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            self._assign_work_unit(node)


def group(nodeid: str) -> str:
    """What a test is run together with."""
    file = nodeid.partition("::")[0]
    if file.startswith(ASK_FOR_SPARK):
        return SPARK
    return STACKS if file in HOLD_A_STACK else file
