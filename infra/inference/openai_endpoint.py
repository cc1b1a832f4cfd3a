"""One address that speaks OpenAI's chat protocol: one call there, what it costs, and what its refusals mean.

Providers differ in what they take. What one refuses by name (`seed`, `stream_options`, `temperature`, …) is left out,
and stays out once the same call is accepted without it; it is said once.
"""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.concurrency import Slots
from ratchet.infra.inference.openai_stream import Answer, CallFailed, shown
from ratchet.infra.inference.protocol import Completion, Request, Sampling

CONNECT_TIMEOUT_S = 30.0
CHECK_S = 10.0
"""For an endpoint to answer before the first step of a run that will need it."""
FIRST_CONTACT_S = 10.0
"""How long an endpoint that has never answered is tried: most likely its address is wrong."""
REFUSALS = 3
"""An endpoint that calls this many requests bad, and has taken none, will not take the others."""
SHORTEST_KEY = 8
"""Characters: what is shorter is a word that a message may well contain."""
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
"""In this order where a refusal names several: the first that an answer can do without."""
_TOO_LONG = re.compile(r"context.?(length|size|window)|too long", re.IGNORECASE)
_OUT_OF_RANGE = re.compile(
    r"between|\brange\b|(less|greater|smaller|larger) than|at (most|least)|m(ax|in)imum|must be (in|non|positive)|[<>]",
    re.IGNORECASE,
)


class EndpointUnreachable(RatchetError):
    """It takes no call, and has not for as long as one waits: it may come back."""


class _Without(Exception):
    """The endpoint does not take the field `name`."""

    def __init__(self, name: str, said: str) -> None:
        super().__init__(said)
        self.name = name


@dataclass
class Traffic:
    """What goes on, for whoever watches; read from other threads."""

    open: int = 0
    calls: int = 0
    pieces: int = 0
    """Streamed so far, by all calls: about one a token."""
    lost_calls: int = 0
    """Begun to answer, and broken off: paid for, perhaps."""
    lost_pieces: int = 0
    empty: int = 0
    """Whole answers without a text."""
    learned: list[str] = field(default_factory=list)
    """What endpoints were found not to take, in sentences."""


class Endpoint:
    """One address. For one event loop.

    `most` calls are open at a time, fewer while it pushes back. `timeout_s` is for one whole answer, `silence_s`
    between two pieces of it. `left_out` are fields that are never sent, of `MAY_BE_LEFT_OUT`. `changed` is set when
    there may be room for another call.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None,
        key: str | None,
        most: int,
        timeout_s: float,
        silence_s: float,
        left_out: tuple[str, ...],
        traffic: Traffic,
        changed: asyncio.Event,
        tell: Callable[[str], None],
    ) -> None:
        self.where = base_url or "the OpenAI API"
        self.slots = Slots(most)
        self.gone = ""
        """Why no call can succeed here any more."""
        self.not_before = 0.0  # monotonic; when it asks one call to wait, it means all
        self._accepted = self._reached = False  # it has taken a call; something answers, if only with a refusal
        self._busy_since: float | None = None  # since when every call has been turned away
        self._turned_away = self._refused = 0
        self._model, self._base_url, self._key = model, base_url, key
        self._timeout_s, self._silence_s = timeout_s, silence_s
        self._left_out = set(left_out)
        self._limit_name = "max_tokens"
        self._traffic, self._changed, self._tell = traffic, changed, tell
        self._client: Any = None

    def takes(self, now: float) -> bool:
        """Whether one more call may be made."""
        return not self.gone and self.not_before <= now and self.slots.free

    def turned_away(self, failed: CallFailed, began: float, hold_s: float) -> bool:
        """It takes no call just now: come back later, and with fewer. Returns whether it took others meanwhile. One
        that has taken none is left alone for `hold_s`, doubled each time, up to eight times that."""
        took_others, wait = self._busy_since is None, failed.wait
        if self.slots.pushed_back(began) and not took_others:
            wait = max(wait, hold_s * 2 ** min(self._turned_away, 3))
            self._turned_away += 1
        self._busy_since = self._busy_since or began
        self.not_before = max(self.not_before, time.monotonic() + wait)
        return took_others

    def hopeless(self, failed: CallFailed, patience_s: float) -> str:
        """Why it is not worth waiting for, having turned a call away; empty while it is."""
        now = time.monotonic()
        if self.gone or self._busy_since is None:
            return self.gone
        if self.not_before - now > patience_s:
            return f"{self.where} asks to come back in {(self.not_before - now) / 60:.0f} minutes ({failed})."
        if not self._reached and now - self._busy_since > FIRST_CONTACT_S:
            return f"{self.where} {NOBODY_THERE.format(failed)}"
        if now - self._busy_since > patience_s:
            return f"{self.where} has taken no call for {patience_s / 60:.0f} minutes ({failed})."
        return ""

    async def call(self, request: Request, sampling: Sampling) -> Completion:
        """One answer. Raises CallFailed, or RatchetError where no other call would do better here."""
        without: dict[str, str] = {}
        while True:
            try:
                return await self._once(request, sampling, without)
            except (CallFailed, RatchetError, _Without) as error:
                error.args = tuple(_without_key(arg, self._key) for arg in error.args)
                if not isinstance(error, _Without):
                    raise
                without[error.name] = str(error)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _once(self, request: Request, sampling: Sampling, without: dict[str, str]) -> Completion:
        """`without`: fields that this call has been refused with, and why."""
        import openai

        limit = "max_completion_tokens" if "max_tokens" in without else self._limit_name
        fields = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": request.seed % 2**31,  # the longest that every provider takes
            "stream_options": {"include_usage": True},
            **({"top_k": sampling.top_k} if sampling.top_k else {}),
        }
        sent = {name: value for name, value in fields.items() if name not in self._left_out | without.keys()}
        self._client = self._client or openai.AsyncOpenAI(
            api_key=self._key or "none",  # local servers want none, the client insists on one
            base_url=self._base_url,
            max_retries=0,
            timeout=openai.Timeout(self._silence_s, connect=CONNECT_TIMEOUT_S),
        )
        calling = self._client.chat.completions.with_streaming_response.create(
            model=self._model,
            messages=list(request.messages or ()),
            stream=True,
            extra_body={limit: sampling.max_tokens, **sent},
        )
        answer = Answer()
        self._traffic.calls += 1
        self._traffic.open += 1
        try:
            async with asyncio.timeout(self._timeout_s), calling as response:
                self._accept(without)
                async for pieces in answer.read(response):
                    self._traffic.pieces += pieces
            return answer.completion(request.key)
        except openai.APITimeoutError as error:
            if type(error.__cause__).__name__ == "ConnectTimeout":
                raise CallFailed(f"no connection within {CONNECT_TIMEOUT_S:g} s", busy=True) from error
            raise CallFailed(f"silent for {self._silence_s:g} s") from error
        except openai.APIConnectionError as error:
            raise CallFailed(f"connection failed: {error.__cause__ or error}", busy=True) from error
        except openai.APIStatusError as error:
            raise self._refusal(error, {limit, *sent}) from error
        except TimeoutError:  # would take as long again, and is paid for
            raise CallFailed(f"no whole answer within {self._timeout_s:g} s", again=False) from None
        finally:
            self._traffic.open -= 1
            if answer.pieces and not answer.whole:
                self._traffic.lost_calls += 1
                self._traffic.lost_pieces += answer.pieces

    def _accept(self, without: dict[str, str]) -> None:
        self._accepted = self._reached = True
        self._busy_since, self._turned_away = None, 0
        self.slots.accepted()
        self._changed.set()
        for name in without.keys() - self._left_out:
            self._left_out.add(name)
            instead = "its own default holds" if name != "max_tokens" else "max_completion_tokens is sent instead"
            if name == "max_tokens":
                self._limit_name = "max_completion_tokens"
            learned = f"{self.where} does not take {name}, and {instead} ({without[name]})."
            self._traffic.learned.append(learned)
            self._tell(learned)

    def _refusal(self, error: Any, sent: set[str]) -> Exception:
        """What a status other than 200 means."""
        self._reached = True
        body = error.body if isinstance(error.body, dict) else {}
        message = str(body.get("message") or error.message)
        status, said = error.status_code, f"{error.status_code}: {shown(message)}"
        reason = USERS_FAULT.get(status) or ("the quota is used up" if error.code == "insufficient_quota" else "")
        if status in (400, 413, 422) and _TOO_LONG.search(message):
            return CallFailed(said, refused=True)
        if status in (400, 422) and (name := _named(message, str(error.param or ""), sent)):
            return _Without(name, said)
        bad_request = 400 <= status < 500 and status not in (*AGAIN, *BUSY)
        if bad_request and not reason and not self._accepted:
            self._refused += 1
            reason = "no request is accepted" if self._refused == REFUSALS else ""
        if reason:
            return RatchetError(
                f"{self.where} refused model {self._model!r}: {reason} ({said}). Check the model's name, base_url, key "
                f"and sampling."
            )
        wait = 0.0 if bad_request else _retry_after(error.response.headers)
        return CallFailed(said, not bad_request, status in BUSY or wait > 0, wait)


def _named(message: str, parameter: str, sent: set[str]) -> str:
    """The field of a call that a refusal is about, if it is one that need not be sent."""
    if "max_tokens" in sent and "max_completion_tokens" in message:  # OpenAI's reasoning models know no other
        return "max_tokens"
    if _OUT_OF_RANGE.search(message):  # a value that the endpoint takes otherwise is for the user to mend
        return ""
    named = [name for name in MAY_BE_LEFT_OUT if re.search(rf"(?<!\w){name}(?!\w)", f"{parameter} {message}")]
    return next((name for name in named if name in sent), "")


def _without_key(text: Any, key: str | None) -> Any:
    """A proxy may repeat the key that it refuses."""
    return text.replace(key, "…") if isinstance(text, str) and key and len(key) >= SHORTEST_KEY else text


def check_endpoint(base_url: str | None, key: str | None) -> None:
    """Raises RatchetError where nothing answers at `base_url`, or what does will not have the key. Asks for the list of
    models, which costs nothing; an endpoint that does not keep one is there all the same."""
    import openai

    where = base_url or "the OpenAI API"
    try:
        client = openai.OpenAI(api_key=key or "none", base_url=base_url, max_retries=0, timeout=CHECK_S)
    except Exception as error:  # of whatever transport the client uses
        raise RatchetError(f"{where} is no address ({error}): write http://HOST:PORT/v1.") from error
    try:
        with client:
            client.models.list()
    except openai.APIConnectionError as error:
        raise EndpointUnreachable(f"{where} {NOBODY_THERE.format(error.__cause__ or error)}") from error
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        raise RatchetError(
            f"{where}: {USERS_FAULT[error.status_code]} "
            f"({error.status_code}: {_without_key(shown(error.message), key)})."
        ) from error
    except (openai.OpenAIError, ValueError):
        pass


def _retry_after(headers: Any) -> float:
    """Seconds the server asks to wait: the header holds a number or a date."""
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return 0.0
