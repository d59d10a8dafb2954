"""POST /v1/sends/batch: up to 1,000 small sends in one request, with a result for each.

A send that is invalid or not permitted is refused with the problem that it would get as a single request; the other
sends are accepted together. The ids of the sends are derived from that of the batch, so that a repeated request
produces the same records. All sends are of one club, to which the idempotency key belongs. The results are stored: a
repetition gets them also from a caller with other scopes.
"""

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from functions.send_handler.request_send import AcceptedBody, RequestSend, accepted_of
from functions.send_handler.send_records import ANONYMOUS, Caller, SendIdentity
from functions.send_handler.send_request import (
    SendRequest,
    check_permitted,
    invalid_fields,
    parse_request,
    time_problem,
)
from masscomm.aws.dynamodb import PART_BYTES
from masscomm.clock import Clock
from masscomm.domain.ids import batched_send_id
from masscomm.domain.limits import BATCH_RECIPIENTS, BATCH_SENDS
from masscomm.http.problem import FieldError, Problem, ProblemBody, invalid
from masscomm.http.rest import Request
from masscomm.observability import logs
from masscomm.texts import Text

logger = logs.logger("send_handler")

# Bounds of the errors of all sends, so that the response to the worst batch is below Lambda's limit of 6 MB.
_ERRORS_A_BATCH = 5_000
_LONGEST_NAME = 100


class SmallSend(SendRequest):
    """A send in a batch."""

    audience: Annotated[None, Field(description="A send of a batch names its users.")] = None
    send_id: Annotated[None, Field(description="The id of a send of a batch follows from the batch's.")] = None
    part_index: Annotated[Literal[0], Field(description="A send of a batch has one part.")] = 0
    part_count: Annotated[Literal[1], Field(description="A send of a batch has one part.")] = 1
    to_users: Annotated[
        list[Annotated[int, Field(ge=1, le=2**63 - 1)]], Field(min_length=1, max_length=BATCH_RECIPIENTS)
    ]


class BatchRequest(BaseModel):
    """The body of a request to POST /v1/sends/batch."""

    model_config = ConfigDict(extra="forbid", strict=True)

    sends: Annotated[list[SmallSend], Field(min_length=1, max_length=BATCH_SENDS)]


class _Unread(BaseModel):
    """A batch whose sends are not validated yet."""

    model_config = ConfigDict(extra="forbid", strict=True)

    sends: Annotated[list[Any], Field(min_length=1, max_length=BATCH_SENDS)]


class BatchResult(TypedDict):
    """The result of one send of the batch, in the order of the request."""

    status: int
    """202, or the status of the problem."""
    send: AcceptedBody | None
    problem: ProblemBody | None


class BatchBody(TypedDict):
    """The results of a batch."""

    accepted: int
    refused: int
    results: list[BatchResult]


@dataclass(frozen=True)
class Batch:
    """The sends of a batch: each is valid, or has a problem."""

    sends: Sequence[SendRequest | Problem]

    @property
    def club_id(self) -> int | None:
        """Return the club of the sends; None if none is valid."""
        return next((send.club_id for send in self.sends if isinstance(send, SendRequest)), None)

    def recipients(self, identity: SendIdentity) -> int:
        """Return the number of recipients of the accepted sends."""
        accepted = (each for each in self.accepted(identity) if not isinstance(each, Problem))
        return sum(send.recipients for send, _ in accepted)

    def accepted(self, identity: SendIdentity) -> list[tuple[SendRequest, SendIdentity] | Problem]:
        """Return the sends with their identities, given that of the batch. A send whose times had passed at the first
        attempt is a problem.
        """
        return [
            send if isinstance(send, Problem) else _at(send, identity, index) for index, send in enumerate(self.sends)
        ]

    def body(self, identity: SendIdentity) -> BatchBody:
        """Return the body of the response."""
        results = [_result(each) for each in self.accepted(identity)]
        accepted = sum(result["send"] is not None for result in results)
        return {"accepted": accepted, "refused": len(results) - accepted, "results": results}


def parse_batch(
    document: dict[str, Any], request: Request, clock: Clock, check_sender: Callable[[SendRequest], None]
) -> Batch:
    """Return the batch in the body of a request. A send that the caller may not request is a problem, as is one whose
    sender SES refuses.

    Raises Problem with status 400 if the object is not a list of at most BATCH_SENDS sends, or if they are of several
    clubs.
    """
    try:
        unread = _Unread.model_validate(document)
    except ValidationError as error:
        raise invalid_fields(error, _Unread) from error
    _check_one_club(unread.sends)
    sends = [_checked(each, request, clock, check_sender) for each in unread.sends]
    errors_a_send = _ERRORS_A_BATCH // max(1, sum(isinstance(each, Problem) for each in sends))
    return Batch([_shortened(each, errors_a_send) if isinstance(each, Problem) else each for each in sends])


def types_in(document: Mapping[str, Any]) -> list[object]:
    """Return the categories of the sends in the body of a request, which has not been checked yet."""
    sends = document.get("sends")
    if not isinstance(sends, list):
        return []
    return [send.get("type") for send in sends[:BATCH_SENDS] if isinstance(send, dict)]


def _check_one_club(sends: Sequence[Any]) -> None:
    """Check that all sends are of one club, so that any caller of the tenant who repeats the batch has the same
    idempotency key. Raises Problem with status 400.
    """
    clubs = {
        index: send["club_id"]
        for index, send in enumerate(sends)
        if isinstance(send, dict) and type(send.get("club_id")) is int
    }
    first = next(iter(clubs.values()), None)
    others = [index for index, club_id in clubs.items() if club_id != first]
    if others:  # guard: idempotency.club_of_a_batch
        raise invalid([FieldError(f"sends[{index}].club_id", Text.OTHER_CLUB_IN_BATCH.filled()) for index in others])


def pack_results(body: BatchBody) -> str:
    """Return the results of a batch as they are stored. If they are larger than an item, the errors are left out."""
    packed = _packed(body)
    if len(packed) <= PART_BYTES:
        return packed
    results: list[BatchResult] = [
        each
        if each["problem"] is None
        else {**each, "problem": Problem(each["status"], Text.ERRORS_IN_FIRST_RESPONSE.filled()).body()}
        for each in body["results"]
    ]
    return _packed({**body, "results": results})


def _packed(body: BatchBody) -> str:
    return b64encode(zlib.compress(json.dumps(body).encode())).decode()


def unpack_results(stored: str) -> BatchBody:
    """Return the stored results of a batch."""
    body: BatchBody = json.loads(zlib.decompress(b64decode(stored)))
    return body


def produce_batch(requests: RequestSend, batch: Batch, identity: SendIdentity, caller: Caller = ANONYMOUS) -> None:
    """Produce the valid sends of a batch. Raises the errors of RequestSend.produce."""
    accepted = [each for each in batch.accepted(identity) if not isinstance(each, Problem)]
    requests.produce_all(accepted, identity.send_id, caller)
    logger.info("batch accepted", sends=len(accepted))


def _checked(
    document: Any, request: Request, clock: Clock, check_sender: Callable[[SendRequest], None]
) -> SendRequest | Problem:
    try:
        send = parse_request(document, clock, SmallSend)
        check_permitted(request, send)
        check_sender(send)
    except Problem as problem:
        return problem
    return send


def _shortened(problem: Problem, errors: int) -> Problem:
    """Return the problem of one send with at most this number of errors. The last one says how many are left out."""
    kept = [FieldError(each.field[:_LONGEST_NAME], each.message) for each in problem.errors[:errors]]
    if left_out := len(problem.errors) - len(kept):
        kept[-1] = FieldError("", Text.FURTHER_ERRORS.filled(left_out=left_out + 1))
    return Problem(problem.status, problem.detail.cut(2 * _LONGEST_NAME), errors=kept)


def _at(send: SendRequest, identity: SendIdentity, index: int) -> tuple[SendRequest, SendIdentity] | Problem:
    if problem := time_problem(send, identity.requested_at_ms):
        return problem
    return send, replace(identity, send_id=batched_send_id(identity.send_id, index))


def _result(found: tuple[SendRequest, SendIdentity] | Problem) -> BatchResult:
    if isinstance(found, Problem):
        return {"status": found.status, "send": None, "problem": found.body()}
    return {"status": 202, "send": accepted_of(*found).body(), "problem": None}
