"""Asks OSV for known vulnerabilities of the jars in bills of materials: part of `make audit`.

The command reads CycloneDX files and prints a line for each advisory that is not in ACCEPTED. The exit status is 1 if
there is one, or if an accepted one is no longer reported. Packages of Python and npm have tools of their own, which
`make audit` runs. OSV needs no account: https://google.github.io/osv.dev/post-v1-querybatch/
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from infra.supply_chain.licences import Component, components

URL = "https://api.osv.dev/v1/querybatch"
QUERIES_PER_REQUEST = 1000  # OSV's limit
_TIMEOUT_S = 60.0
# Advisories that do not concern how we use the jar: {id: the reason}.
ACCEPTED: dict[str, str] = {}

type Query = dict[str, Any]
type Ask = Callable[[Sequence[Query]], Sequence[dict[str, Any]]]


def ask_osv(queries: Sequence[Query]) -> Sequence[dict[str, Any]]:
    """Return OSV's results for at most QUERIES_PER_REQUEST queries, in their order. Raise HTTPError if it has none."""
    answer = httpx.post(URL, json={"queries": queries}, timeout=_TIMEOUT_S).raise_for_status()
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


def advisories(jars: Iterable[Component], ask: Ask) -> Iterator[tuple[Component, str]]:
    """Return each jar with the id of each advisory for its version. A result of several pages is read to its end."""
    open_queries = [
        (jar, {"package": {"ecosystem": "Maven", "name": jar.name}, "version": jar.version}) for jar in jars
    ]
    while open_queries:
        asked, open_queries = open_queries[:QUERIES_PER_REQUEST], open_queries[QUERIES_PER_REQUEST:]
        results = ask([query for _, query in asked])
        for (jar, query), result in zip(asked, results, strict=True):
            yield from ((jar, advisory["id"]) for advisory in result.get("vulns", ()))
            if token := result.get("next_page_token"):
                open_queries.append((jar, {**query, "page_token": token}))


def faults(found: Iterable[tuple[Component, str]], accepted: Iterable[str]) -> list[str]:
    """Return a line for each advisory that is not accepted, and for each accepted one that is not reported."""
    reported = list(found)
    known = set(accepted)
    unjudged = [f"{jar.name} {jar.version}: {advisory}" for jar, advisory in reported if advisory not in known]
    stale = known - {advisory for _, advisory in reported}
    return unjudged + [f"{advisory} is accepted, and no jar has it: remove it" for advisory in sorted(stale)]


def main() -> int:
    """Print the faults. Return the exit status: 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bill", nargs="+", type=Path, help="a CycloneDX file of jars, JSON")
    jars = components(json.loads(path.read_text()) for path in parser.parse_args().bill)
    wrong = faults(advisories(jars, ask_osv), ACCEPTED)
    for fault in wrong:
        print(fault)
    print(f"{len(jars)} jars, {len(wrong)} faults", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
