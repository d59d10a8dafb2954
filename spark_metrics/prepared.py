"""Caches physical query plans, so that Spark plans a transform once and not for each batch.

The transform of a batch is always the same; only its rows are new. Nevertheless Spark would analyse, optimize and plan
it for each batch, which takes half a second for any number of rows. Instead, this module keeps the physical plan of the
first batch, and copies it with the rows of each later batch. docs/decisions/073 lists the plans that cannot be copied.
"""

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

# Makes one frame from several frames.
type Transform = Callable[..., DataFrame]


def leaf(frame: DataFrame) -> DataFrame:
    """Return the frame's rows in a frame whose plan is a single node, at the cost of one copy of each row.

    Spark analyses a frame with all frames that it is made of, and compares each of them with every cached frame.
    """
    plain: Any = frame
    return _frame(frame.sparkSession, plain._jdf.queryExecution().toRdd(), plain._jdf.schema())


def is_repeatable(frame: DataFrame) -> bool:
    """Return whether the frame always has the same result for the same rows: its plan uses no time, user or random
    number.
    """
    plain: Any = frame
    plan, jvm = plain._jdf.queryExecution().analyzed(), frame.sparkSession.sparkContext._jvm
    patterns: Any = getattr(jvm, "org.apache.spark.sql.catalyst.trees.TreePattern")
    return bool(plan.deterministic() and not plan.containsPattern(patterns.CURRENT_LIKE()))


class PreparedPlans:
    """A cache of physical plans by name. Any thread may use it."""

    def __init__(self) -> None:
        self._plans: dict[Hashable, _Plan | None] = {}

    def frame(self, name: Hashable, sources: Sequence[DataFrame], transform: Transform) -> DataFrame:
        """Return the result of a transform, in a frame whose plan is a single node.

        Persisted sources are read from their cache, and the others are computed.

        Args:
            name: Identifies the transform and the planner's configuration. The transform is called once per name.
            sources: The frames that are passed to the transform.
            transform: Must depend only on the rows of the sources (is_repeatable). A plan that reads any other data is
                made for each call.
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
            # The calls above use Spark's internals, which other builds of Spark may lack.
            self._plans[name] = None
            _log.warning("Spark cannot copy the plan, so each batch is planned anew: %s", error)
            return leaf(made)


@dataclass(frozen=True)
class _Leaf:
    """A frame whose plan is a single node. `rows` is its RDD, or the builder of its cached columns."""

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
    """A node of a physical plan. In a node that scans rows, `source` is the index of the source frame."""

    node: Any
    below: tuple["_Node", ...] = ()
    source: int | None = None

    def copied(self, leaves: Sequence[_Leaf], to_seq: Callable[[list[Any]], Any]) -> Any:
        """Return a copy of the node that reads the rows of these leaves."""
        if self.source is not None:
            return _scan(self.node, leaves[self.source])  # guard: prepared_plans.own_rows
        if not self.below:
            return self.node
        return self.node.withNewChildren(to_seq([each.copied(leaves, to_seq) for each in self.below]))


def _scan(node: Any, leaf: _Leaf) -> Any:
    """Return a copy of a scan that reads other rows. It keeps the columns' ids, which the other nodes refer to."""
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
        """Return whether the plan can read these leaves: they have the same columns, and the same ones are cached."""
        return all(
            kept == leaf.kept and schema.equals(leaf.schema)
            for (kept, schema), leaf in zip(self.sources, leaves, strict=True)
        )

    def frame(self, leaves: Sequence[_Leaf]) -> DataFrame:
        """Return the result of the plan for these leaves."""
        session: Any = leaves[0].frame.sparkSession
        jvm: Any = session._jvm
        # A plan's nodes use the active session of the current thread.
        getattr(jvm, "org.apache.spark.sql.classic.SparkSession").setActiveSession(session._jsparkSession)
        plan = self.top.copied(leaves, getattr(jvm, "org.apache.spark.api.python.PythonUtils").toSeq)
        # Execute the plan with the same steps as QueryExecution.toRdd.
        wrapped = getattr(jvm, "org.apache.spark.sql.execution.SQLExecutionRDD")
        rows = wrapped(plan.execute(), session._jsparkSession.sessionState().conf())
        return _frame(session, rows, self.schema)


def _plan(made: DataFrame, leaves: Sequence[_Leaf]) -> _Plan | None:
    """Return the plan of a frame; None if the plan cannot be copied."""
    plain: Any = made
    top = _node(plain._jdf.queryExecution().executedPlan(), leaves)
    if top is None:
        return None
    return _Plan(top, plain._jdf.schema(), [(leaf.kept, leaf.schema) for leaf in leaves])


def _node(node: Any, leaves: Sequence[_Leaf]) -> _Node | None:
    # A plan with a subquery cannot be copied, because the subquery runs once and keeps its result.
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
