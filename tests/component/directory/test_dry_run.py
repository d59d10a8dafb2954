"""A dry run of a send in quiet hours, with the real OpenSearch."""

import pytest

from tests.support.contracts.dry_run import ROWS, SUPPRESSED, check_dry_run, filled
from tests.support.harness.chain import NOW
from tests.support.harness.settled_chain import SettledChain
from tests.support.servers.directory_tables import OpenSearchTables


@pytest.mark.guarantee("dry_run.counts_are_the_sends")
def test_dry_run_has_the_ends_of_the_chain(tables: OpenSearchTables) -> None:
    tables.put(*ROWS)
    tables.suppress(SUPPRESSED)
    tables.caught_up_to(NOW + 10 * 86_400_000)
    check_dry_run(filled(SettledChain(tables.directory)), "local into quiet hours")
