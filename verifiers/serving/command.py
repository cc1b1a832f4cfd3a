"""Make this machine a reward server for trainers on other machines: `ratchet-judge`."""

import argparse
import ipaddress
import sys
from collections.abc import Sequence
from pathlib import Path

from ratchet.verifiers.errors import in_words, not_installed
from ratchet.verifiers.processes import bound_socket

_SERVE = """Judge responses from trainers and evaluators on other machines, until SIGTERM or Ctrl-C.

The bearer token is RATCHET_JUDGE_TOKEN, else one that is generated once and kept in the token file. Recipes name the
servers in `training.reward_servers`. Example:

    ratchet-judge serve --port 8900 --workers 8
"""


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="ratchet-judge", description="Reward servers: verifiers behind HTTP.")
    commands = whole.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "serve", help="judge responses from other machines", description=_SERVE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    command.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1); 0.0.0.0 for all"
    )
    command.add_argument("--port", type=int, default=8900, help="default 8900; 0 takes a free one")
    command.add_argument("--workers", type=_positive, help="sandboxes (default: one per core)")
    command.add_argument("--queue", type=_positive, default=4096, help="open tickets (default 4096); above it: 429")
    command.add_argument("--max-request-mb", type=_positive, default=64, help="largest request in MiB (default 64)")
    command.add_argument(
        "--minimum-isolation",
        choices="ABC",
        default="C",
        help="refuse to judge code on a lower isolation level (default C)",
    )
    command.add_argument(
        "--token-file", type=Path, default=Path(".ratchet/judge.token"), help="default .ratchet/judge.token"
    )
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        _serve(options)
    except Exception as error:
        if not (words := in_words(error)):
            raise
        print(f"Error: {words}", file=sys.stderr)
        return 2
    return 0


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _serve(options: argparse.Namespace) -> None:
    from ratchet.verifiers.sandbox.server import require_isolation
    from ratchet.verifiers.serving.local_pool import VerifierPool

    try:
        from ratchet.verifiers.serving.server import RewardServer, serve_until_stopped, server_token
    except ImportError as error:
        raise not_installed("A reward server", "serve") from error
    from ratchet.verifiers.submission import JudgeSettings

    token, source = server_token(options.token_file)
    listening = bound_socket(options.host, options.port, backlog=2048)
    isolation = str(require_isolation(options.minimum_isolation))
    address, port = listening.getsockname()[:2]
    with VerifierPool(options.workers, JudgeSettings(minimum_isolation=options.minimum_isolation)) as pool:
        where = f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
        print(f"Judging at {where} with {pool.workers} worker{'s' * (pool.workers > 1)} ({isolation}).", flush=True)
        print(f"The token is in {source}; clients have it in RATCHET_JUDGE_TOKEN.", flush=True)
        if not ipaddress.ip_address(address).is_loopback:
            print(
                f"Warning: other machines can reach this server ({address}). Its traffic is not encrypted: keep it in "
                "a network you trust, or behind a proxy that speaks TLS.", flush=True,
            )  # fmt: skip
        server = RewardServer(pool, token, isolation, options.queue, options.max_request_mb << 20)
        serve_until_stopped(server, listening)
    print("Stopped.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
