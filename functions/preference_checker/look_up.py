"""Looks up the users of requests, and waits for the directory if a missing row may still arrive."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from masscomm.chain.batch import Item
from masscomm.clock import Clock
from masscomm.decisions.chunk import Chunk
from masscomm.decisions.parts import SPLIT_ABOVE
from masscomm.decisions.plan import DirectoryView
from masscomm.directory.confirmation import Confirmation
from masscomm.directory.layers import related_to
from masscomm.directory.port import Directory
from masscomm.domain.records import RecheckRequested
from masscomm.errors import Retry


@dataclass(frozen=True, kw_only=True)
class LookUp:
    """Looks up the users of a batch's requests; one query has the users of many requests."""

    directory: Directory
    clock: Clock

    def views(
        self, items: Iterable[Item[Chunk]], remaining_s: Callable[[], float]
    ) -> Iterator[tuple[Item[Chunk], DirectoryView]]:
        """Yield each request with the rows of its users. If the look-up for a request fails, the request gets the
        error instead.

        Args:
            items: The requests of a batch.
            remaining_s: Returns the remaining seconds of the invocation.
        """
        confirmation = Confirmation(directory=self.directory, remaining_s=remaining_s)
        for group in _groups(items):
            yield from self._views(group, confirmation)

    def _views(
        self, group: Sequence[Item[Chunk]], confirmation: Confirmation
    ) -> Iterator[tuple[Item[Chunk], DirectoryView]]:
        try:
            confirmed = {id(item) for item in group if self.directory.is_confirmed(self._requested_at(item))}
            view = self._look_up([(item.value.request.user_ids, item.value.request) for item in group])
        except Retry as error:
            _fail(group, error)
            return
        unconfirmed = []
        for item in group:
            if id(item) not in confirmed and view.missing(item.value.request):
                unconfirmed.append(item)
            else:
                # These requests need no newer rows, so they are yielded before the wait for the directory.
                yield item, view
        try:
            behind = self._behind(unconfirmed, confirmation)
            newer = self._look_up_again([item for item in unconfirmed if id(item) not in behind], view)
        except Retry as error:
            _fail(unconfirmed, error)
            return
        for item in unconfirmed:
            missing = frozenset(view.missing(item.value.request)) if id(item) in behind else frozenset[int]()
            yield item, newer._replace(unconfirmed=missing)

    def _behind(self, items: Iterable[Item[Chunk]], confirmation: Confirmation) -> set[int]:
        """Return the ids (by Python's id()) of the requests that are newer than the directory. Raises Stop."""
        behind = set()
        for item in sorted(items, key=self._requested_at):
            try:
                confirmation.confirm(self._requested_at(item))  # guard: directory.unknown_user
            except Retry:
                behind.add(id(item))
        return behind

    def _look_up_again(self, items: Sequence[Item[Chunk]], view: DirectoryView) -> DirectoryView:
        """Look up missing rows again, after the directory is complete up to the time of the request. Raises Retry."""
        missing = [(view.missing(item.value.request), item.value.request) for item in items]
        if not any(user_ids for user_ids, _ in missing):
            return view
        newer = self._look_up(missing)
        return DirectoryView(
            users={**view.users, **newer.users},
            settings={**view.settings, **newer.settings},
            tenants=newer.tenants,
            tenant_users={**view.tenant_users, **newer.tenant_users},
            memberships={**view.memberships, **newer.memberships},
        )

    def _look_up(self, asked: Sequence[tuple[Sequence[int], RecheckRequested]]) -> DirectoryView:
        """Look up users, each list of them as recipients of a request."""
        user_ids = list(dict.fromkeys(user_id for some, _ in asked for user_id in some))
        related = related_to((some, request.club_id, request.follows) for some, request in asked)
        found = self.directory.users_and_layers(user_ids, {request.club_id for _, request in asked}, related)
        return DirectoryView(**found._asdict())

    def _requested_at(self, item: Item[Chunk]) -> int:
        """Return the time at which the send was requested, but not a later time than now: a producer's clock may be
        ahead.
        """
        return min(item.value.request.timestamp, self.clock.now_ms())


def _groups(items: Iterable[Item[Chunk]]) -> Iterator[list[Item[Chunk]]]:
    """Yield groups of requests whose recipients are looked up together, with at most SPLIT_ABOVE recipients unless a
    single request has more.
    """
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
