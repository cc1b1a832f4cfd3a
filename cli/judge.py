"""`ratchet judge`: makes this machine a reward server for trainers on others."""

import ipaddress
from typing import Annotated, Literal

import typer

from ratchet.cli.terminal import console
from ratchet.infra.settings import load_settings

Isolation = Literal["A", "B", "C"]
judge = typer.Typer(help="Reward servers: verifiers behind HTTP.", no_args_is_help=True, rich_markup_mode="markdown")


@judge.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; other machines reach 0.0.0.0.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 8900,
    workers: Annotated[int | None, typer.Option(help="Sandboxes (default: one per core).", min=1)] = None,
    queue: Annotated[int, typer.Option(help="Open tickets; above it: 429.", min=1)] = 4096,
    max_request_mb: Annotated[int, typer.Option(help="Largest request, in MiB.", min=1)] = 64,
    minimum_isolation: Annotated[
        Isolation, typer.Option(help="Refuse to judge code on a lower rung, see `ratchet doctor`.")
    ] = "C",
    home: Annotated[str | None, typer.Option("--home", help="Directory of the token (default: ./.ratchet).")] = None,
) -> None:
    """Judge responses from trainers and evaluators on other machines, until SIGTERM or Ctrl-C.

    The bearer token is RATCHET_JUDGE_TOKEN, else one that is generated once and kept in the home. Recipes name the
    servers in `training.reward_servers`.

    Example: `ratchet judge serve --port 8900 --workers 8`
    """
    from ratchet.infra.process_group import bound_socket
    from ratchet.verifiers.sandbox.server import demand
    from ratchet.verifiers.serving.local_pool import VerifierPool
    from ratchet.verifiers.serving.server import RewardServer, serve_until_stopped, server_token
    from ratchet.verifiers.submission import JudgeSettings

    token, source = server_token(load_settings(home).home / "judge.token")
    listening = bound_socket(host, port, backlog=2048)
    isolation = str(demand(minimum_isolation))
    address, port = listening.getsockname()[:2]
    with VerifierPool(workers, JudgeSettings(minimum_isolation=minimum_isolation)) as pool:
        where = f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
        console.print(f"Judging at {where} with {pool.workers} workers ({isolation}).", soft_wrap=True, markup=False)
        console.print(f"The token is in {source}; clients have it in RATCHET_JUDGE_TOKEN.", soft_wrap=True)
        if not ipaddress.ip_address(address).is_loopback:
            console.print(
                f"[bold yellow]Other machines can reach this server ({address}).[/] Its traffic is not encrypted: "
                "keep it in a network you trust, or behind a proxy that speaks TLS.", soft_wrap=True,
            )  # fmt: skip
        serve_until_stopped(RewardServer(pool, token, isolation, queue, max_request_mb << 20), listening)
    console.print("Stopped.")


@judge.callback()
def reward_servers() -> None:
    """Keeps `serve` a command of its own: a typer application with a single command would swallow its name."""
