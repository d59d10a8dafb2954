"""Signatures of webhooks: those of the specification's libraries, and the secrets of endpoints."""

import base64

import pytest

from masscomm.domain.signing_keys import KeySet
from masscomm.domain.webhook_signatures import headers, secret_of, sign
from masscomm.errors import Stop

KEYS = KeySet.read(
    '{"current": "2", "1": "a key of at least thirty-two bytes", "2": "another key of thirty-two bytes."}'
)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'


def test_signature_is_that_of_the_specification() -> None:
    """The example of the reference libraries (standard-webhooks/standard-webhooks, test_sign_function)."""
    signed = sign(SECRET, message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", at_s=1_614_265_330, body=BODY)
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_headers_have_a_signature_for_each_secret() -> None:
    other = secret_of(KEYS, key_id="1", endpoint_id="ep_1", version=1)
    found = headers([SECRET, other], message_id="evt_1", at_s=1_614_265_330, body=BODY)
    assert found["webhook-id"] == "evt_1"
    assert found["webhook-timestamp"] == "1614265330"
    signatures = [sign(each, message_id="evt_1", at_s=1_614_265_330, body=BODY) for each in (SECRET, other)]
    assert found["webhook-signature"].split(" ") == signatures


def test_secrets_differ_by_key_endpoint_and_version() -> None:
    cases = [("1", "ep_1", 1), ("2", "ep_1", 1), ("1", "ep_2", 1), ("1", "ep_1", 2)]
    found = [secret_of(KEYS, key_id=key, endpoint_id=endpoint, version=version) for key, endpoint, version in cases]
    assert len(set(found)) == len(cases)
    assert found[0] == secret_of(KEYS, key_id="1", endpoint_id="ep_1", version=1)
    # The specification requires 24 to 64 bytes.
    assert len(base64.b64decode(found[0].removeprefix("whsec_"))) == 32


def test_a_removed_signing_key_stops() -> None:
    with pytest.raises(Stop, match="signing key 3 "):
        secret_of(KEYS, key_id="3", endpoint_id="ep_1", version=1)
