"""Plans that are made once and used for every batch, as a database uses a prepared statement.

What is made of a batch is always the same, only its rows are new; yet Spark would analyse, optimize and plan it anew
each time, half a second whatever the batch holds. Here the physical plan is kept, and copied with the batch's rows in
the place of the first one's. docs/decisions/073 says when it cannot be.
"""

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

# Makes one frame of some.
type Transform = Callable[..., DataFrame]


def leaf(frame: DataFrame) -> DataFrame:
    """The same rows, of a plan that is a leaf. A row is copied once more for it.

    What is built on a frame is analysed with all that lies below it, and compared with all that is kept.
    """
    plain: Any = frame
    return _frame(frame.sparkSession, plain._jdf.queryExecution().toRdd(), plain._jdf.schema())


def is_repeatable(frame: DataFrame) -> bool:
    """Whether the same rows always give the same: nothing of its plan asks for the time, the user or chance."""
    plain: Any = frame
    plan, jvm = plain._jdf.queryExecution().analyzed(), frame.sparkSession.sparkContext._jvm
    patterns: Any = getattr(jvm, "org.apache.spark.sql.catalyst.trees.TreePattern")
    return bool(plan.deterministic() and not plan.containsPattern(patterns.CURRENT_LIKE()))


class PreparedPlans:
    """Plans by name, for any thread."""

    def __init__(self) -> None:
        self._plans: dict[Hashable, _Plan | None] = {}

    def frame(self, name: Hashable, sources: Sequence[DataFrame], transform: Transform) -> DataFrame:
        """What a transform makes of frames, as a leaf: their rows as they are now, or, of persisted ones, as kept.

        name: of the transform, and of the configuration that Spark plans it by; under the same name it is not called
        again. It must be a function of the sources' rows (is_repeatable). Where its plan reads something else as well,
        it is planned every time.
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
            # Nothing of this is promised, and there are others' Sparks.
            self._plans[name] = None
            _log.warning("Spark lets no plan be copied, each batch is planned anew: %s", error)
            return leaf(made)


@dataclass(frozen=True)
class _Leaf:
    """A frame that is a leaf. rows: an RDD, or what builds the columns in which they are kept."""

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
    """One of a physical plan. source: the number of the source whose rows it gives, of leaves that give any."""

    node: Any
    below: tuple["_Node", ...] = ()
    source: int | None = None

    def copied(self, leaves: Sequence[_Leaf], to_seq: Callable[[list[Any]], Any]) -> Any:
        """With the rows of these."""
        if self.source is not None:
            return _scan(self.node, leaves[self.source])  # guard: prepared_plans.own_rows
        if not self.below:
            return self.node
        return self.node.withNewChildren(to_seq([each.copied(leaves, to_seq) for each in self.below]))


def _scan(node: Any, leaf: _Leaf) -> Any:
    """A scan of other rows. What stands above it knows its columns by numbers that stay as they are."""
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
        """Whether it can be used for these."""
        return all(
            kept == leaf.kept and schema.equals(leaf.schema)
            for (kept, schema), leaf in zip(self.sources, leaves, strict=True)
        )

    def frame(self, leaves: Sequence[_Leaf]) -> DataFrame:
        """What it makes of these."""
        session: Any = leaves[0].frame.sparkSession
        jvm: Any = session._jvm
        # A node of a plan belongs to the session that is its thread's.
        getattr(jvm, "org.apache.spark.sql.classic.SparkSession").setActiveSession(session._jsparkSession)
        plan = self.top.copied(leaves, getattr(jvm, "org.apache.spark.api.python.PythonUtils").toSeq)
        # As QueryExecution.toRdd does.
        wrapped = getattr(jvm, "org.apache.spark.sql.execution.SQLExecutionRDD")
        rows = wrapped(plan.execute(), session._jsparkSession.sessionState().conf())
        return _frame(session, rows, self.schema)


def _plan(made: DataFrame, leaves: Sequence[_Leaf]) -> _Plan | None:
    """The plan of what was made of these; None: it cannot be used again."""
    plain: Any = made
    top = _node(plain._jdf.queryExecution().executedPlan(), leaves)
    if top is None:
        return None
    return _Plan(top, plain._jdf.schema(), [(leaf.kept, leaf.schema) for leaf in leaves])


def _node(node: Any, leaves: Sequence[_Leaf]) -> _Node | None:
    # A query within an expression is asked once, and its answer stays.
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
