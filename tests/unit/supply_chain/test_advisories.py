"""OSV gets a query for each jar, and an advisory that is not accepted is a fault. Only `make audit` calls OSV."""

from collections.abc import Sequence
from typing import Any

from infra.supply_chain import advisories as module
from infra.supply_chain.advisories import Query, advisories, faults
from infra.supply_chain.licences import Component

CORE, OTHER = Component("org.example:core", "1.2", ()), Component("org.example:other", "3", ())


class Osv:
    """Answers as OSV's page says: results in the order of the queries, empty objects, and tokens for further pages."""

    def __init__(self, known: dict[tuple[str, str], list[str]]) -> None:
        self.known = known
        self.sizes: list[int] = []

    def __call__(self, queries: Sequence[Query]) -> Sequence[dict[str, Any]]:
        self.sizes.append(len(queries))
        return [self._result(query) for query in queries]

    def _result(self, query: Query) -> dict[str, Any]:
        assert query["package"]["ecosystem"] == "Maven"
        ids = self.known.get((query["package"]["name"], query["version"]), [])
        page = int(query.get("page_token", 0))
        if not ids:
            return {}
        more = {"next_page_token": str(page + 1)} if page + 1 < len(ids) else {}
        return {"vulns": [{"id": ids[page], "modified": "2026-01-01T00:00:00Z"}], **more}


def test_each_advisory_of_each_jar_is_found() -> None:
    osv = Osv({("org.example:core", "1.2"): ["GHSA-1", "GHSA-2", "GHSA-3"], ("org.example:other", "2"): ["GHSA-4"]})
    assert list(advisories([CORE, OTHER], osv)) == [(CORE, "GHSA-1"), (CORE, "GHSA-2"), (CORE, "GHSA-3")]


def test_more_jars_than_a_request_takes_are_all_queried(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "QUERIES_PER_REQUEST", 2)
    jars = [Component(f"org.example:{number}", "1", ()) for number in range(5)]
    osv = Osv({(jar.name, jar.version): ["GHSA-1"] for jar in jars})
    assert [jar for jar, _ in advisories(jars, osv)] == jars
    assert max(osv.sizes) == 2


def test_accepted_advisory_passes_while_it_is_reported() -> None:
    found = [(CORE, "GHSA-1"), (OTHER, "GHSA-2")]
    assert faults(found, {"GHSA-1", "GHSA-2"}) == []
    assert faults(found, {"GHSA-1"}) == ["org.example:other 3: GHSA-2"]
    assert [fault.split()[0] for fault in faults([], {"GHSA-1"})] == ["GHSA-1"]
