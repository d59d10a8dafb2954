"""Look up the users of requests, and wait for the directory where a missing row may still arrive."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from functions.preference_checker.plan import Chunk, DirectoryView
from masscomm.chain.batch import Batch, Item
from masscomm.chain.chunks import SPLIT_ABOVE
from masscomm.clock import Clock
from masscomm.directory.port import Directory
from masscomm.errors import Retry


@dataclass(frozen=True, kw_only=True)
class LookUp:
    """Looks up the users of a batch's requests, many requests in one query."""

    directory: Directory
    clock: Clock

    def views(self, batch: Batch[Chunk], items: Iterable[Item[Chunk]]) -> Iterator[tuple[Item[Chunk], DirectoryView]]:
        """Yield each item with the rows of its users; an item whose look-up fails gets the error instead."""
        for group in _groups(items):
            yield from self._views(batch, group)

    def _views(self, batch: Batch[Chunk], group: Sequence[Item[Chunk]]) -> Iterator[tuple[Item[Chunk], DirectoryView]]:
        try:
            confirmed = {id(item) for item in group if self.directory.is_confirmed(self._requested_at(item))}
            view = self._look_up(user_id for item in group for user_id in item.value.request.user_ids)
        except Retry as error:
            _fail(group, error)
            return
        unconfirmed = []
        for item in group:
            if id(item) not in confirmed and view.missing(item.value.request):
                unconfirmed.append(item)
            else:  # before the wait for the directory: these need no newer rows
                yield item, view
        try:
            behind = self._behind(batch, unconfirmed)
            newer = self._look_up_again([item for item in unconfirmed if id(item) not in behind], view)
        except Retry as error:
            _fail(unconfirmed, error)
            return
        for item in unconfirmed:
            missing = frozenset(view.missing(item.value.request)) if id(item) in behind else frozenset[int]()
            yield item, DirectoryView(users=newer.users, settings=newer.settings, unconfirmed=missing)

    def _behind(self, batch: Batch[Chunk], items: Iterable[Item[Chunk]]) -> set[int]:
        """Return the ids (by id()) of items whose request time the directory has not reached. Errors: Stop."""
        behind = set()
        for item in sorted(items, key=self._requested_at):
            try:
                batch.confirm(self.directory, self._requested_at(item))  # guard: directory.unknown_user
            except Retry:
                behind.add(id(item))
        return behind

    def _look_up_again(self, items: Iterable[Item[Chunk]], view: DirectoryView) -> DirectoryView:
        """Look up missing rows again after the directory has passed the request time. Errors: Retry."""
        missing = [user_id for item in items for user_id in view.missing(item.value.request)]
        if not missing:
            return view
        newer = self._look_up(missing)
        return DirectoryView(users={**view.users, **newer.users}, settings={**view.settings, **newer.settings})

    def _look_up(self, user_ids: Iterable[int]) -> DirectoryView:
        users, settings = self.directory.users_and_settings(list(dict.fromkeys(user_ids)))
        return DirectoryView(users=users, settings=settings)

    def _requested_at(self, item: Item[Chunk]) -> int:
        """Return the request time, at most now: a producer's clock may be ahead."""
        return min(item.value.request.timestamp, self.clock.now_ms())


def _groups(items: Iterable[Item[Chunk]]) -> Iterator[list[Item[Chunk]]]:
    """Yield items whose recipients are looked up together, at most SPLIT_ABOVE of them unless one item has more."""
    group: list[Item[Chunk]] = []
    size = 0
    for item in items:
        count = len(item.value.request.user_ids)
        if group and size + count > SPLIT_ABOVE:
            yield group
            group, size = [], 0
        group.append(item)
        size += count
    if group:
        yield group


def _fail(items: Iterable[Item[Chunk]], error: Retry) -> None:
    for item in items:
        item.error = item.error or error
