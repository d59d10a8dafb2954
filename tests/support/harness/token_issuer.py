"""An OpenID Connect issuer in memory: it signs access tokens, valid and hostile ones, and counts how often its keys are
read.
"""

import hmac
import json
from base64 import urlsafe_b64encode
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from masscomm.clock import Clock, FixedClock
from masscomm.http.access_tokens import AccessTokens, Issuer, SigningKeys

ISSUER = Issuer(issuer="https://sign-in.example", audience="masscomm", keys_url="https://sign-in.example/keys")


class TokenIssuer:
    """Signs with the key `key_id`, by default an RSA key."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or FixedClock()
        self.reads = 0
        # The error that reading the keys raises, or None.
        self.failing: Exception | None = None
        # Key id → its algorithm and private key; the published keys may differ from it.
        self.keys: dict[str, tuple[str, Any]] = {}
        self.published: list[dict[str, Any]] = []
        self.add("rsa", "RS256")
        self.add("ec", "ES256")

    def add(self, key_id: str, algorithm: str, *, bits: int = 2_048, **changes: Any) -> None:
        """Create and publish a key."""
        key: Any
        if algorithm == "RS256":
            key = rsa.generate_private_key(public_exponent=65_537, key_size=bits)
            entry = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
        else:
            key = ec.generate_private_key(ec.SECP256R1())
            entry = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
        self.keys[key_id] = algorithm, key
        self.published.append({**entry, "kid": key_id, "use": "sig", "alg": algorithm, **changes})

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Return the claims of a viewer of club 7; a change to None removes a claim."""
        now_s = self.clock.now_ms() // 1000
        claims = {
            "iss": ISSUER.issuer,
            "aud": ISSUER.audience,
            "sub": "ada",
            "iat": now_s,
            "exp": now_s + 600,
            "roles": ["viewer"],
            "clubs": [7],
        }
        return {name: value for name, value in (claims | changes).items() if value is not None}

    def token(self, key_id: str = "rsa", header: dict[str, Any] | None = None, **changes: Any) -> str:
        algorithm, key = self.keys[key_id]
        headers = {"kid": key_id, **(header or {})}
        return jwt.encode(
            self.claims(**changes), key, algorithm, headers={name: v for name, v in headers.items() if v is not None}
        )

    def signed_with_public_key(self, **changes: Any) -> str:
        """Return a token whose HMAC has the published RSA key as its secret (RFC 8725, section 2.1)."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        public = self.keys["rsa"][1].public_key()
        secret = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        text = unsigned({"alg": "HS256", "kid": "rsa", "typ": "JWT"}, self.claims(**changes))
        return f"{text}.{_encoded(hmac.digest(secret, text.encode(), 'sha256'))}"

    def read_keys(self, _url: str) -> bytes:
        self.reads += 1
        if self.failing is not None:
            raise self.failing
        return json.dumps({"keys": self.published}).encode()

    def verifier(self) -> AccessTokens:
        keys = SigningKeys(url=ISSUER.keys_url, clock=self.clock, fetch=self.read_keys)
        return AccessTokens(issuer=ISSUER, keys=keys, clock=self.clock)


def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    """Return the first two parts of a token."""
    return ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
