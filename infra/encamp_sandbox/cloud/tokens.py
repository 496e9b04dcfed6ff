"""Bearer tokens: given for a signed assertion, or by an administrator for a service account; kept only as digests.

Sources: RFC 7523 and developers.google.com/identity/protocols/oauth2/service-account#httprest (the assertion);
cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateAccessToken; answers of
oauth2.googleapis.com/tokeninfo.

Beliefs: token-lasts-an-hour, token-is-needed, token-by-signed-assertion, token-info-names-its-owner.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from encamp_sandbox.cloud.errors import GoogleError

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    from encamp_sandbox.database import Database

LIFETIME_SECONDS = 3600
_SKEW_SECONDS = 60
_PREFIX = "ya29.encamp-"
_USER = "user"
#: The application that people's tokens are given to: gcloud (google-cloud-sdk, core/config.py).
_GCLOUD = "32555940559.apps.googleusercontent.com"
_EMAIL_SCOPES = frozenset({"email", "https://www.googleapis.com/auth/userinfo.email"})
#: Scopes of tokens for which nobody requested certain ones.
_SCOPES = "openid https://www.googleapis.com/auth/userinfo.email https://www.googleapis.com/auth/cloud-platform"
_PARTS_OF_A_JWT = 3


@dataclass(frozen=True)
class Principal:
    """A caller.

    An administrator of the sandbox, a service account or a user by e-mail, a federated ``principal://``.
    """

    email: str
    admin: bool
    kind: str = "serviceAccount"

    @classmethod
    def of(cls, text: str, *, admin: bool = False) -> Principal:
        """Return a principal as tokens are kept for it: users are marked, service accounts are not."""
        kind, _, email = text.partition(":")
        return cls(email, admin, kind) if kind == _USER else cls(text, admin)

    @property
    def member(self) -> str:
        """The caller as a member of an IAM binding."""
        return self.email if self.email.startswith("principal://") else f"{self.kind}:{self.email}"


@dataclass(frozen=True)
class KeyFile:
    """The service account whose private key the sandbox gave to its user."""

    email: str
    key_id: str
    public_key: RSAPublicKey

    @classmethod
    def read(cls, path: Path) -> KeyFile:
        """Read google-credentials.json."""
        data = json.loads(path.read_text(encoding="utf-8"))
        private = load_pem_private_key(data["private_key"].encode(), None)
        if not isinstance(private, RSAPrivateKey):
            raise TypeError(f"{path} holds no RSA key")
        return cls(data["client_email"], data.get("private_key_id", ""), private.public_key())


class Tokens:
    """Issuer and verifier of tokens.

    Args:
        database: where the digests are kept, so that a restart of the front ends no session.
        key_file: the administrator's service account.
        admin_token: the token of sandbox.json.
    """

    def __init__(self, database: Database, key_file: KeyFile, admin_token: str) -> None:
        self._database = database
        self._key_file = key_file
        self._admin_token = admin_token

    def issue(self, email: str, lifetime: float = LIFETIME_SECONDS, scopes: str = "") -> tuple[str, float]:
        """Return a new random token for a principal, and when it expires (epoch seconds).

        ``scopes`` are as OAuth writes them; those that gcloud asks for when empty.
        """
        token = _PREFIX + secrets.token_urlsafe(32)
        expires = time.time() + lifetime
        with self._database.transaction() as change:
            change.execute("DELETE FROM tokens WHERE expires < ?", (time.time(),))
            change.execute("INSERT INTO tokens VALUES (?, ?, ?)", (_digest(token), email, expires))
            change.execute("INSERT INTO token_scopes VALUES (?, ?)", (_digest(token), scopes or _SCOPES))
        return token, expires

    def exchange(self, assertion: str) -> dict[str, Any]:
        """Return a token for a signed assertion, as an OAuth 2 token endpoint answers."""
        email, _, scopes = self._verify(assertion)
        token, _ = self.issue(email, scopes=scopes)
        return {"access_token": token, "token_type": "Bearer", "expires_in": LIFETIME_SECONDS - 1}

    def principal(self, authorization: str | None) -> Principal:
        """Return the principal of an Authorization header.

        Raises:
            GoogleError: 401.
        """
        scheme, _, token = (authorization or "").partition(" ")
        found = self._known(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            message = "Request had invalid authentication credentials. Expected OAuth 2 access token."
            raise GoogleError(401, message)
        return found[0]

    def info(self, token: str) -> dict[str, str]:
        """Return the token service's information about a token: owner, application, scopes, expiry.

        Raises:
            GoogleError: 400; there is no such token.
        """
        try:
            found = self._known(token)
        except GoogleError:
            found = None
        if found is None or found[0].member.startswith("principal://"):
            raise GoogleError(400, "Invalid Value", reason="invalid_token")
        principal, expires, scopes = found
        # A service account's token is its own; a person's was given to an application.
        number = str(10**20 + int(_digest(principal.email), 16) % (9 * 10**20))
        application = _GCLOUD if principal.kind == _USER else number
        whose = {"email": principal.email, "email_verified": "true"}
        return {
            "azp": application,
            "aud": application,
            "sub": number,
            "scope": scopes,
            "exp": str(int(expires)),
            "expires_in": str(max(0, int(expires - time.time()))),
            **(whose if not _EMAIL_SCOPES.isdisjoint(scopes.split()) else {}),
            "access_type": "online",
        }

    def _known(self, token: str) -> tuple[Principal, float, str] | None:
        """Return a token's principal, its expiry (epoch seconds) and its scopes; None if it is unknown.

        Raises:
            GoogleError: 400; it is an assertion that is not right.
        """
        if not token:
            return None
        if hmac.compare_digest(token.encode(), self._admin_token.encode()):
            return Principal(self._key_file.email, admin=True), time.time() + LIFETIME_SECONDS, _SCOPES
        if token.count(".") == _PARTS_OF_A_JWT - 1 and not token.startswith(_PREFIX):
            email, expires, scopes = self._verify(token)
            return Principal(email, admin=True), expires, scopes or _SCOPES
        row = self._database.one(
            "SELECT principal, expires, scopes FROM tokens LEFT JOIN token_scopes USING (digest)"
            " WHERE digest = ? AND expires > ?",
            _digest(token),
            time.time(),
        )
        if row is None:
            return None
        principal = Principal.of(row["principal"], admin=row["principal"] == self._key_file.email)
        return principal, row["expires"], row["scopes"] or _SCOPES

    def _verify(self, assertion: str) -> tuple[str, float, str]:
        """Return issuer, end and scopes of an assertion that the key file's key has signed and that has not expired."""
        try:
            head, payload, signature = assertion.split(".")
            header, claims = json.loads(_decode(head)), json.loads(_decode(payload))
            if header.get("alg") != "RS256":
                raise _bad_assertion("Invalid JWT: only RS256 is taken.")
            self._key_file.public_key.verify(_decode(signature), f"{head}.{payload}".encode(), PKCS1v15(), SHA256())
            issuer, expires, issued = claims["iss"], float(claims["exp"]), float(claims["iat"])
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
            raise _bad_assertion("Invalid JWT.") from error
        except InvalidSignature as error:
            raise _bad_assertion("Invalid JWT Signature.") from error
        if issuer != self._key_file.email:
            raise _bad_assertion("Invalid grant: account not found")
        if not issued - _SKEW_SECONDS <= time.time() <= expires:
            raise _bad_assertion("Invalid JWT: Token must be a short-lived token and in a reasonable timeframe.")
        return issuer, expires, str(claims.get("scope") or "")


def _bad_assertion(message: str) -> GoogleError:
    return GoogleError(400, message, reason="invalid_grant")


def _decode(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
