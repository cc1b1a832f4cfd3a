"""One address that speaks OpenAI's chat protocol: calls, their cost, and the meaning of refusals.

Providers accept different fields. A field that one refuses by name (`seed`, `stream_options`, `temperature`, …) is
omitted, permanently once the same call is accepted without it; this is reported once.
"""

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from ratchet.infra.inference.concurrency import Slots
from ratchet.infra.inference.openai_stream import Answer, CallFailed, shown
from ratchet.infra.inference.protocol import Completion, Request, Sampling
from ratchet.verifiers.errors import RatchetError

CONNECT_TIMEOUT_S = 30.0
CHECK_S = 10.0
"""Timeout of the check before the first step of a run."""
FIRST_CONTACT_S = 10.0
"""How long to try an endpoint that has never answered: its address is probably wrong."""
REFUSALS = 3
"""After this many bad requests and none accepted, an endpoint is given up."""
SHORTEST_KEY = 8
"""Characters of a key that is masked in messages; a shorter one may be an ordinary word."""
NOBODY_THERE = "cannot be reached ({}). Is the server running, and is its base_url right?"
BUSY = (429, 502, 503, 529)
AGAIN = (408, 409, 425)
USERS_FAULT = {
    401: "the key is not accepted",
    402: "the account has no credit",
    403: "the key has no access",
    404: "there is no such model or path",
}
MAY_BE_LEFT_OUT = ("stream_options", "seed", "top_k", "top_p", "temperature")
"""If a refusal names several, the first of this order is omitted."""
_TOO_LONG = re.compile(r"context.?(length|size|window)|too long", re.IGNORECASE)
_OUT_OF_RANGE = re.compile(
    r"between|\brange\b|(less|greater|smaller|larger) than|at (most|least)|m(ax|in)imum|must be (in|non|positive)|[<>]",
    re.IGNORECASE,
)


class EndpointUnreachable(RatchetError):
    """It has accepted no call for longer than a caller waits, but may come back."""


class _Without(Exception):
    """The endpoint does not accept the field `name`."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass
class Traffic:
    """Counts of all calls; read from other threads."""

    open: int = 0
    calls: int = 0
    pieces: int = 0
    """Streamed so far, about one per token."""
    lost_calls: int = 0
    """Answers broken off, which may be charged."""
    lost_pieces: int = 0
    empty: int = 0
    """Whole answers without text."""
    learned: list[str] = field(default_factory=list)
    """Sentences about fields that endpoints do not accept."""


@dataclass
class Endpoint:
    """One address, for one event loop."""

    model: str
    base_url: str | None
    key: str | None
    most: int
    """Open calls, fewer while it pushes back."""
    timeout_s: float
    """For a whole answer."""
    silence_s: float
    """Between two pieces of an answer."""
    traffic: Traffic
    changed: asyncio.Event
    """Set when there may be room for another call."""
    tell: Callable[[str], None]

    def __post_init__(self) -> None:
        self.where = self.base_url or "the OpenAI API"
        self.slots = Slots(self.most)
        self.left_out: set[str] = set()
        """Fields of `MAY_BE_LEFT_OUT` that are not sent."""
        self.gone = ""
        """Why no call can succeed here any more."""
        self.not_before = 0.0  # monotonic time; a request to wait holds for all calls
        self._accepted = self._reached = False  # accepted a call; answered at all
        self._busy_since: float | None = None  # since when it has rejected every call
        self._rejected = self._refused = 0
        self._limit_name = "max_tokens"
        self._client: Any = None

    def takes(self, now: float) -> bool:
        return not self.gone and self.not_before <= now and self.slots.free

    def pushed_back(self, failed: CallFailed, began: float, hold_s: float) -> bool:
        """It accepts no call for now: return later, with fewer. Returns whether it accepted others meanwhile; if not,
        it is left alone for `hold_s`, doubled each time, up to eight times that."""
        took_others, wait = self._busy_since is None, failed.wait
        if self.slots.pushed_back(began) and not took_others:
            wait = max(wait, hold_s * 2 ** min(self._rejected, 3))
            self._rejected += 1
        self._busy_since = self._busy_since or began
        self.not_before = max(self.not_before, time.monotonic() + wait)
        return took_others

    def hopeless(self, failed: CallFailed, patience_s: float) -> str:
        """Why it is not worth waiting for after a rejected call; empty if it is."""
        now = time.monotonic()
        if self.gone or self._busy_since is None:
            return self.gone
        if self.not_before - now > patience_s:
            return f"{self.where} asks to come back in {(self.not_before - now) / 60:.0f} minutes ({failed})."
        if not self._reached and now - self._busy_since > FIRST_CONTACT_S:
            return f"{self.where} {NOBODY_THERE.format(failed)}"
        if now - self._busy_since > patience_s:
            return f"{self.where} has accepted no call for {patience_s / 60:.0f} minutes ({failed})."
        return ""

    async def call(self, request: Request, sampling: Sampling) -> Completion:
        """One answer. Raises CallFailed, or RatchetError if no call can succeed here."""
        without: dict[str, str] = {}
        while True:
            try:
                return await self._once(request, sampling, without)
            except (CallFailed, RatchetError, _Without) as error:
                error.args = tuple(without_key(arg, self.key) for arg in error.args)
                if not isinstance(error, _Without):
                    raise
                without[error.name] = str(error)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _once(self, request: Request, sampling: Sampling, without: dict[str, str]) -> Completion:
        import openai

        limit = "max_completion_tokens" if "max_tokens" in without else self._limit_name
        fields = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": request.seed % 2**31,  # the largest that every provider accepts
            "stream_options": {"include_usage": True},
            **({"top_k": sampling.top_k} if sampling.top_k else {}),
        }
        sent = {name: value for name, value in fields.items() if name not in self.left_out | without.keys()}
        self._client = self._client or openai.AsyncOpenAI(
            api_key=self.key or "none",  # the client requires one, local servers do not
            base_url=self.base_url, max_retries=0,
            timeout=openai.Timeout(self.silence_s, connect=CONNECT_TIMEOUT_S),
        )  # fmt: skip
        calling = self._client.chat.completions.with_streaming_response.create(
            model=self.model, messages=list(request.messages or ()), stream=True,
            extra_body={limit: sampling.max_tokens, **sent},
        )  # fmt: skip
        answer = Answer()
        self.traffic.calls += 1
        self.traffic.open += 1
        try:
            async with asyncio.timeout(self.timeout_s), calling as response:
                self._accept(without)
                async for pieces in answer.read(response):
                    self.traffic.pieces += pieces
            return answer.completion(request.key)
        except openai.APITimeoutError as error:
            if type(error.__cause__).__name__ == "ConnectTimeout":
                raise CallFailed(f"no connection within {CONNECT_TIMEOUT_S:g} s", busy=True) from error
            raise CallFailed(f"silent for {self.silence_s:g} s") from error
        except openai.APIConnectionError as error:
            raise CallFailed(f"connection failed: {error.__cause__ or error}", busy=True) from error
        except openai.APIStatusError as error:
            raise self._refusal(error, {limit, *sent}) from error
        except TimeoutError:  # another call would take as long, and is charged
            raise CallFailed(f"no whole answer within {self.timeout_s:g} s", again=False) from None
        finally:
            self.traffic.open -= 1
            if answer.pieces and not answer.whole:
                self.traffic.lost_calls += 1
                self.traffic.lost_pieces += answer.pieces

    def _accept(self, without: dict[str, str]) -> None:
        self._accepted = self._reached = True
        self._busy_since, self._rejected = None, 0
        self.slots.accepted()
        self.changed.set()
        for name in without.keys() - self.left_out:
            self.left_out.add(name)
            instead = "its own default holds"
            if name == "max_tokens":
                instead = self._limit_name = "max_completion_tokens"
                instead += " is sent instead"
            learned = f"{self.where} does not take {name}, and {instead} ({without[name]})."
            self.traffic.learned.append(learned)
            self.tell(learned)

    def _refusal(self, error: Any, sent: set[str]) -> Exception:
        """The meaning of a status other than 200."""
        self._reached = True
        body = error.body if isinstance(error.body, dict) else {}
        message = str(body.get("message") or error.message)
        status, text = error.status_code, f"{error.status_code}: {shown(message)}"
        reason = USERS_FAULT.get(status) or ("the quota is used up" if error.code == "insufficient_quota" else "")
        if status in (400, 413, 422) and _TOO_LONG.search(message):
            return CallFailed(text, refused=True)
        if status in (400, 422) and (name := _named(message, str(error.param or ""), sent)):
            return _Without(name, text)
        bad_request = 400 <= status < 500 and status not in (*AGAIN, *BUSY)
        if bad_request and not reason and not self._accepted:
            self._refused += 1
            reason = "no request is accepted" if self._refused == REFUSALS else ""
        if reason:
            return RatchetError(
                f"{self.where} refused model {self.model!r}: {reason} ({text}). Check the model's name, base_url, key "
                f"and sampling."
            )
        wait = 0.0 if bad_request else _retry_after(error.response.headers)
        return CallFailed(text, not bad_request, status in BUSY or wait > 0, wait)


def _named(message: str, parameter: str, sent: set[str]) -> str:
    if "max_tokens" in sent and "max_completion_tokens" in message:  # OpenAI's reasoning models accept only the latter
        return "max_tokens"
    if _OUT_OF_RANGE.search(message):  # the field is accepted; the user must correct its value
        return ""
    text = f"{parameter} {message}"
    named = (name for name in MAY_BE_LEFT_OUT if name in sent and re.search(rf"(?<!\w){name}(?!\w)", text))
    return next(named, "")


def without_key(text: Any, key: str | None) -> Any:
    """A proxy may repeat the key that it refuses."""
    return text.replace(key, "…") if isinstance(text, str) and key and len(key) >= SHORTEST_KEY else text


def check_endpoint(base_url: str | None, key: str | None) -> None:
    """Raises RatchetError if nothing answers at `base_url`, or the key is refused. Requests the list of models, which
    is free; an endpoint without one passes."""
    import openai

    where = base_url or "the OpenAI API"
    try:
        client = openai.OpenAI(api_key=key or "none", base_url=base_url, max_retries=0, timeout=CHECK_S)
    except Exception as error:  # depends on the client's transport
        raise RatchetError(f"{where} is not an address ({error}): write http://HOST:PORT/v1.") from error
    try:
        with client:
            client.models.list()
    except openai.APIConnectionError as error:
        raise EndpointUnreachable(f"{where} {NOBODY_THERE.format(error.__cause__ or error)}") from error
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        raise RatchetError(
            f"{where}: {USERS_FAULT[error.status_code]} "
            f"({error.status_code}: {without_key(shown(error.message), key)})."
        ) from error
    except (openai.OpenAIError, ValueError):
        pass


def _retry_after(headers: Any) -> float:
    """Seconds that the server asks to wait: its header holds a number or a date."""
    value = headers.get("retry-after", "")
    for seconds in (float, lambda date: parsedate_to_datetime(date).timestamp() - time.time()):
        with suppress(ValueError):
            return max(0.0, seconds(value))
    return 0.0
