"""Which tests one of xdist's workers runs together: those of a file, and all that hold a stack.

Of a file's fixtures there would else be one a worker; and stacks cannot run beside each other: whoever waited for its
turn would do nothing. xdist's own `--dist loadgroup` would be for this, but with pytest 9.2 it takes every test for a
group: it writes the group where pytest does not look for a test's name any more.
"""

from xdist.scheduler import LoadScopeScheduling

STACKS = "stacks"
# Each test in these asks for one_stack_at_a_time.
HOLD_A_STACK = {
    "tests/e2e/test_full_stack.py",
    "tests/faults/test_matrix.py",
    "tests/localstack/test_deployment.py",
}


class WholeFiles(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Used by pytest_xdist_make_scheduler, whatever --dist says."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def group(nodeid: str) -> str:
    """What a test is run together with."""
    file = nodeid.partition("::")[0]
    return STACKS if file in HOLD_A_STACK else file
