"""Mutual authentication on a job's connections by its secret token, which is never sent itself.

    kernel → rank    {"challenge": c}
    rank → kernel    {"name": n, "nonce": r, "proof": HMAC(token, [RANK, c, r, n]), …}
    kernel → rank    {"proof": HMAC(token, [KERNEL, c, r, n])}

A stranger who connects learns nothing, nor does one who listens at a port where a kernel has listened before. The
token reaches a process in its environment, which other users cannot read, and is taken out of it at once: what a
program starts does not inherit it.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Mapping
from typing import Any

#: Holds the token on its way to a process of the job.
TOKEN_VARIABLE = "JUPYTER_HVD_TOKEN"  # noqa: S105 — a name
#: Who proves that it knows the token; a proof of one is none of the other.
RANK, KERNEL = "rank", "kernel"

Message = Mapping[str, Any]


def take_token() -> str:
    """Return the token, and remove it from this process's environment."""
    return os.environ.pop(TOKEN_VARIABLE)


def compute_proof(token: str, role: str, challenge: str, client_nonce: str, name: str) -> str:
    """Return the HMAC by which one side of a connection, `role`, proves that it holds the token."""
    text = json.dumps([role, challenge, client_nonce, name])
    return hmac.new(token.encode(), text.encode(), "sha256").hexdigest()


class ServerHandshake:
    """The listening side of one connection.

    Attributes:
        challenge: its first message.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._random = secrets.token_hex(16)
        self.challenge: Message = {"challenge": self._random}

    def answer_response(self, message: Message) -> tuple[str, Message] | None:
        """Return the name of the process that answered the challenge, and the reply to it; None for a stranger."""
        match message:
            case {"name": str(name), "nonce": str(nonce), "proof": str(proof)}:
                expected = compute_proof(self._token, RANK, self._random, nonce, name)
                if hmac.compare_digest(proof.encode(errors="replace"), expected.encode()):
                    return name, {
                        "proof": compute_proof(self._token, KERNEL, self._random, nonce, name)
                    }
        return None


class ClientHandshake:
    """The connecting side of one connection.

    Attributes:
        name: its own.
    """

    def __init__(self, token: str, name: str) -> None:
        self._token, self.name = token, name
        self._nonce = secrets.token_hex(16)
        self._challenge = ""

    def answer_challenge(self, message: Message) -> Message | None:
        """Return the answer to a challenge; None if the message is none."""
        match message:
            case {"challenge": str(challenge)}:
                self._challenge = challenge
                proof = compute_proof(self._token, RANK, challenge, self._nonce, self.name)
                return {"name": self.name, "nonce": self._nonce, "proof": proof}
        return None

    def accepts_proof(self, message: Message) -> bool:
        """Whether a message proves that the other side knows the token, too."""
        match message:
            case {"proof": str(proof)}:
                expected = compute_proof(
                    self._token, KERNEL, self._challenge, self._nonce, self.name
                )
                return hmac.compare_digest(proof.encode(errors="replace"), expected.encode())
        return False
