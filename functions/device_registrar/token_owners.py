"""Decides to which row a token belongs: the row that took it last, over all users.

Devices of other users that have the token are `token_moved`: they get no push, until the owner's row is deleted or
deactivated. A row has taken its token at the change that gave it its user and its token; a later change of another
column counts no more than a repeated snapshot.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from functions.device_registrar.device_states import DeviceState, DeviceStates, StatesOfDevice, Taken
from functions.device_registrar.token_holders import TokenHolders
from masscomm.clock import Clock
from masscomm.directory.bulk_writes import Conflict
from masscomm.directory.device_states import INDEX
from masscomm.directory.disabled_devices import DisabledReason
from masscomm.directory.document_publisher import DocumentPublisher

# A token with more holders, such as "null" in the rows of an app with a fault, keeps those that took it last. The
# others stay token_moved until their own rows change.
MOST_HOLDERS = 100
# Environments that change the holders of one token at a time make each other repeat a pass.
_PASSES = 8
# The reasons of states whose row does not have the token, or is inactive.
_NO_HOLDER = (DisabledReason.DELETED, DisabledReason.INACTIVE, DisabledReason.INVALID_ROW)

type Order = Callable[[Collection[str]], Mapping[str, int]]


def latest(first: Taken | None, second: Taken | None, order: Mapping[str, int]) -> Taken | None:
    """Return when a row has taken its user and token, as far as two of its versions show.

    The last change in a stream counts. Of snapshots, which show only that it had them, the first one counts.
    """
    if first is None or second is None:
        return first or second
    if first.generation is None and second.generation is None:
        return min(first, second, key=lambda taken: taken.at)
    return max(first, second, key=lambda taken: _rank(taken, order))


def inherited(states: Mapping[str, DeviceState], order: Mapping[str, int]) -> dict[str, DeviceState]:
    """Return the states of a device by generation, the oldest one first, in which a new snapshot that has a row's user
    and token keeps when the row took them.
    """
    found = dict(sorted(states.items(), key=lambda each: order.get(each[0], 0)))
    for earlier, later in pairwise(found):
        before, after = found[earlier], found[later]
        # guard: devices.owner_in_a_new_snapshot
        if before.token is not None and (before.token, before.user_id) == (after.token, after.user_id):
            found[later] = replace(after, taken=latest(before.taken, after.taken, order))
    return found


def _rank(taken: Taken, order: Mapping[str, int]) -> tuple[int, int, int]:
    """Return the place of a row among those that took a token: changes of the stream come after all snapshot rows."""
    if taken.generation is None:
        return 0, 0, taken.at
    return 1, order.get(taken.generation, 0), taken.at


class TokenOwners:
    """Stores and publishes the states of devices, and marks those whose token has moved to another user.

    Args:
        order: Returns the place of snapshot generations in the order of their creation.
    """

    def __init__(
        self,
        *,
        states: DeviceStates,
        holders: TokenHolders,
        publisher: DocumentPublisher,
        order: Order,
        clock: Clock,
    ) -> None:
        self._states = states
        self._holders = holders
        self._publisher = publisher
        self._order = order
        self._clock = clock

    def store(
        self, after: Mapping[str, StatesOfDevice], tokens: Mapping[str, Collection[str]]
    ) -> dict[str, Exception | None]:
        """Store new states of devices with their marks, and change the marks of other devices with the same tokens.

        A pass reads the holders of the tokens and their states, and writes what differs from the rule, each on the
        condition that it is as it was read. The last pass finds no difference: an environment that has written
        something ends only after it has read everything again, so no interleaving leaves a wrong mark. A crash leaves
        the records to another invocation. The states of all these devices are published at the end, because an earlier
        invocation may have stored some and not published them.

        Args:
            after: The new states by device.
            tokens: All tokens that the rows and the states of a device have, by device; also of devices without a new
                state, because an earlier invocation may have ended between its writes.

        Returns:
            The error of each device, or None. Conflict: its record has to be redelivered.

        Raises:
            Retry: OpenSearch or Kafka is down.
        """
        pending = dict(after)
        fates: dict[str, Exception | None] = dict.fromkeys(tokens)
        seen: dict[str, set[str]] = {}
        for device_id, own in tokens.items():
            for token in own:
                seen.setdefault(token, set()).add(device_id)
        for _ in range(_PASSES):
            holders = self._holders.read(seen)
            for token, each in holders.items():
                seen[token] |= each.device_ids
            everybody = set(pending).union(*seen.values())
            others = sorted(everybody - pending.keys())
            present = {**(self._states.read(others) if others else {}), **pending}
            order = self._order(_generations(present.values()))
            by_token = {token: _Token(token, seen[token], present, order) for token in seen}
            changed_holders = {
                token: replace(holders[token], device_ids=each.kept)
                for token, each in by_token.items()
                if each.kept != holders[token].device_ids
            }
            marked = {name: self._marked(states, by_token) for name, states in present.items()}
            changed = {name: states for name, states in marked.items() if name in pending or states != present[name]}
            if not changed_holders and not changed:  # guard: devices.owners_read_again
                self._publisher.publish(INDEX, everybody.union(tokens))  # guard: devices.published
                return fates
            if any(self._holders.write(changed_holders).values()):
                continue
            written = self._states.write(changed)
            fates |= {name: fate for name, fate in written.items() if name in pending and fate is not None}
            pending.clear()
        conflict = Conflict("other environments change the holders of the same token")
        return {name: fate or conflict for name, fate in fates.items()}

    def _marked(self, states: StatesOfDevice, tokens: Mapping[str, "_Token"]) -> StatesOfDevice:
        return replace(
            states,
            by_generation={
                name: self._mark(state, is_moved=tokens[token].has_moved(state))
                if (token := state.token or "") in tokens
                else state
                for name, state in states.by_generation.items()
            },
        )

    def _mark(self, state: DeviceState, *, is_moved: bool) -> DeviceState:
        if is_moved and state.enabled:  # guard: devices.token_moves
            reason = DisabledReason.TOKEN_MOVED
            return replace(state, enabled=False, reason=reason, updated_at=self._clock.now_ms())
        if not is_moved and state.reason == DisabledReason.TOKEN_MOVED:  # guard: devices.token_comes_back
            return replace(state, enabled=True, reason=None, updated_at=self._clock.now_ms())
        return state


class _Token:
    """The holders of one token."""

    def __init__(
        self, token: str, device_ids: Iterable[str], states: Mapping[str, StatesOfDevice], order: Mapping[str, int]
    ) -> None:
        # In each snapshot generation, the holders with their ranks.
        ranked: dict[str, list[tuple[tuple[int, int, int], int, DeviceState]]] = {}
        for device_id in device_ids:
            if device_id in states:
                for name, state in inherited(states[device_id].by_generation, order).items():
                    if state.token == token and _holds(state) and state.taken is not None:
                        ranked.setdefault(name, []).append((_rank(state.taken, order), int(device_id), state))
        best: dict[int, tuple[int, int, int]] = {}
        for each in ranked.values():
            for rank, number, _ in each:
                best[number] = max(rank, best.get(number, rank))
        newest = sorted(best, key=lambda number: (best[number], number), reverse=True)
        # The holders that are stored.
        self.kept = frozenset(map(str, newest[:MOST_HOLDERS]))  # guard: devices.most_holders
        self._owners = {name: max(each, key=lambda holder: holder[:2])[2] for name, each in ranked.items()}

    def has_moved(self, state: DeviceState) -> bool:
        """Return whether the token belongs to another user than the one of this state."""
        owner = self._owners.get(state.generation)
        return owner is not None and _holds(state) and owner.user_id != state.user_id


def _holds(state: DeviceState) -> bool:
    """Return whether the row of the state is active and has its token."""
    return state.user_id is not None and state.reason not in _NO_HOLDER


def _generations(states: Iterable[StatesOfDevice]) -> set[str]:
    found = [state for each in states for state in each.by_generation.values()]
    taken = {state.taken.generation for state in found if state.taken and state.taken.generation is not None}
    return {state.generation for state in found} | taken
