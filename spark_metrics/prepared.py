"""Query plans that are made once and used for every batch, like a database's prepared statements.

The transform of a batch is always the same, only its rows are new; yet Spark would analyse, optimize and plan it again
for each batch, which takes half a second for any number of rows. Instead the physical plan is kept, and copied with the
batch's rows in place of the first one's. docs/decisions/073 lists the plans that cannot be copied.
"""

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

# Transforms several frames into one.
type Transform = Callable[..., DataFrame]


def leaf(frame: DataFrame) -> DataFrame:
    """The same rows with a plan of a single node; each row is copied once more.

    Spark analyses a frame together with all frames that it is made of, and compares it with every cached one.
    """
    plain: Any = frame
    return _frame(frame.sparkSession, plain._jdf.queryExecution().toRdd(), plain._jdf.schema())


def is_repeatable(frame: DataFrame) -> bool:
    """Whether equal rows always give equal results: the plan uses no time, user or random number."""
    plain: Any = frame
    plan, jvm = plain._jdf.queryExecution().analyzed(), frame.sparkSession.sparkContext._jvm
    patterns: Any = getattr(jvm, "org.apache.spark.sql.catalyst.trees.TreePattern")
    return bool(plan.deterministic() and not plan.containsPattern(patterns.CURRENT_LIKE()))


class PreparedPlans:
    """Plans by name, for any thread."""

    def __init__(self) -> None:
        self._plans: dict[Hashable, _Plan | None] = {}

    def frame(self, name: Hashable, sources: Sequence[DataFrame], transform: Transform) -> DataFrame:
        """The result of a transform, with a plan of a single node.

        Persisted sources are read from their cache, others are computed.

        name: identifies the transform and Spark's configuration for its plan; the transform is called once for each
        name. It must be a function of the sources' rows (is_repeatable). A plan that reads anything else is made every
        time.
        """
        leaves = [_leaf(source) for source in sources]
        known = self._plans.get(name)
        if known is not None and known.reads(leaves):  # guard: prepared_plans.other_columns
            return known.frame(leaves)
        made = transform(*(each.frame for each in leaves))
        if known is None and name in self._plans:
            return leaf(made)
        try:
            plan = self._plans[name] = _plan(made, leaves)
            return leaf(made) if plan is None else plan.frame(leaves)
        except Py4JError as error:
            # These are internals of Spark, and other builds of Spark exist.
            self._plans[name] = None
            _log.warning("Spark cannot copy the plan, so each batch is planned anew: %s", error)
            return leaf(made)


@dataclass(frozen=True)
class _Leaf:
    """A frame whose plan is a single node. rows: an RDD, or the builder of cached columns."""

    frame: DataFrame
    rows: Any
    kept: bool
    schema: Any


def _leaf(frame: DataFrame) -> _Leaf:
    plain: Any = frame
    found = plain._jdf.queryExecution().withCachedData()
    match _class(found):
        case "InMemoryRelation":
            return _Leaf(frame, found.cacheBuilder(), kept=True, schema=plain._jdf.schema())
        case "LogicalRDD":
            return _Leaf(frame, found.rdd(), kept=False, schema=plain._jdf.schema())
        case _:
            return _leaf(leaf(frame))


@dataclass(frozen=True)
class _Node:
    """A node of a physical plan. source: for leaves with rows, the number of the source that they read."""

    node: Any
    below: tuple["_Node", ...] = ()
    source: int | None = None

    def copied(self, leaves: Sequence[_Leaf], to_seq: Callable[[list[Any]], Any]) -> Any:
        """The node with the rows of these leaves."""
        if self.source is not None:
            return _scan(self.node, leaves[self.source])  # guard: prepared_plans.own_rows
        if not self.below:
            return self.node
        return self.node.withNewChildren(to_seq([each.copied(leaves, to_seq) for each in self.below]))


def _scan(node: Any, leaf: _Leaf) -> Any:
    """A scan of other rows. The nodes above refer to columns by ids, which stay the same."""
    if leaf.kept:
        kept = node.relation()
        relation = kept.copy(kept.output(), leaf.rows, kept.outputOrdering())
        return node.copy(node.attributes(), node.predicates(), relation)
    return node.copy(
        node.output(), leaf.rows, node.name(), node.outputPartitioning(), node.outputOrdering(), node.stream()
    )


@dataclass(frozen=True)
class _Plan:
    top: _Node
    schema: Any
    sources: Sequence[tuple[bool, Any]]

    def reads(self, leaves: Sequence[_Leaf]) -> bool:
        """Whether the plan can be used for these leaves."""
        return all(
            kept == leaf.kept and schema.equals(leaf.schema)
            for (kept, schema), leaf in zip(self.sources, leaves, strict=True)
        )

    def frame(self, leaves: Sequence[_Leaf]) -> DataFrame:
        """The result of the plan for these leaves."""
        session: Any = leaves[0].frame.sparkSession
        jvm: Any = session._jvm
        # A plan's node uses the active session of the current thread.
        getattr(jvm, "org.apache.spark.sql.classic.SparkSession").setActiveSession(session._jsparkSession)
        plan = self.top.copied(leaves, getattr(jvm, "org.apache.spark.api.python.PythonUtils").toSeq)
        # The same steps as QueryExecution.toRdd.
        wrapped = getattr(jvm, "org.apache.spark.sql.execution.SQLExecutionRDD")
        rows = wrapped(plan.execute(), session._jsparkSession.sessionState().conf())
        return _frame(session, rows, self.schema)


def _plan(made: DataFrame, leaves: Sequence[_Leaf]) -> _Plan | None:
    """The plan of this frame; None if it cannot be used again."""
    plain: Any = made
    top = _node(plain._jdf.queryExecution().executedPlan(), leaves)
    if top is None:
        return None
    return _Plan(top, plain._jdf.schema(), [(leaf.kept, leaf.schema) for leaf in leaves])


def _node(node: Any, leaves: Sequence[_Leaf]) -> _Node | None:
    # A subquery runs once and keeps its result.
    if not node.subqueries().isEmpty():  # guard: prepared_plans.subqueries
        return None
    below = [_node(each, leaves) for each in _each(node.children())]
    if below:
        known = [each for each in below if each is not None]
        return _Node(node, tuple(known)) if len(known) == len(below) else None
    if _class(node) == "LocalTableScanExec":
        return _Node(node)
    for number, leaf in enumerate(leaves):
        if _scans(node, leaf):
            return _Node(node, source=number)
    return None


def _scans(node: Any, leaf: _Leaf) -> bool:
    match _class(node):
        case "InMemoryTableScanExec":
            return leaf.kept and bool(node.relation().cacheBuilder().equals(leaf.rows))
        case "RDDScanExec":
            return not leaf.kept and bool(node.rdd().id() == leaf.rows.id())
        case _:
            return False


def _class(of: Any) -> str:
    return str(of.getClass().getSimpleName())


def _each(seq: Any) -> Iterator[Any]:
    return (seq.apply(number) for number in range(seq.size()))


def _frame(session: Any, rows: Any, schema: Any) -> DataFrame:
    return DataFrame(session._jsparkSession.internalCreateDataFrame(rows, schema, False), session)
