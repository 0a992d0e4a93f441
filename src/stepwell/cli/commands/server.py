"""`stepwell serve`: the HTTP API."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from stepwell.cli.commands.tokens import TOKENS, tokens_option
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Sequence

    from stepwell.app import App
    from stepwell.cli.stop_signals import StopSignals
    from stepwell.http import Application, Authenticator, Hook, Tokens

_HOOK = re.compile(r"(?P<name>[\w-]+)=(?:event:(?P<topic>[^@]+)|signal:(?P<signal>[^@]+)@(?P<run>[\w.-]+))")


_letting_in = tokens_option(
    "The file with the tokens. Default: $STEPWELL_TOKENS, or access for everyone on this machine."
)


@command("serve")
@click.argument("module", metavar="[APP]", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=7878, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@_letting_in
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help="A host name of this server.")
@click.option(
    "--hook", "hooks", multiple=True, metavar="SPEC", help="NAME=event:TOPIC or NAME=signal:NAME@PLACE.IN.BODY."
)
@click.option(
    "--tls-cert", metavar="FILE", type=click.Path(dir_okay=False), help="Serve HTTPS: the certificate chain, as PEM."
)
@click.option("--tls-key", metavar="FILE", type=click.Path(dir_okay=False), help="The key of that certificate, as PEM.")
@click.option("--allow-http", is_flag=True, help="Serve without TLS on an address that is not loopback.")
@click.option(
    "--connections-max", metavar="N", type=click.IntRange(1, 100_000), help="How many connections are open at once."
)
@click.option("--embedded", is_flag=True, help="Also execute the workflows of APP in this process.")
def serve(
    settings: Settings,
    module: str | None,
    host: str,
    port: int,
    tokens: str | None,
    names: Sequence[str],
    hooks: Sequence[str],
    tls_cert: str | None,
    tls_key: str | None,
    allow_http: bool,
    connections_max: int | None,
    embedded: bool,
) -> None:
    """Serve the HTTP API. With APP it knows the types of your workflows, and reads encrypted values.

    An address that is not loopback needs tokens, and a certificate. With a proxy in front that speaks TLS, use
    --allow-http instead of a certificate. The secret of a hook is in the environment variable STEPWELL_HOOK_NAME. While
    you change a secret, the variable may hold both, with a blank between them.

    \b
    Example:
      stepwell --db sqlite:///shop.db serve app.py --port 7878
      stepwell token new ci --role operator --tokens stepwell.tokens
      stepwell serve --host 0.0.0.0 --allow-host api.example.com --tokens stepwell.tokens \\
        --tls-cert chain.pem --tls-key key.pem
    """
    import asyncio

    from stepwell.app import App
    from stepwell.cli.stop_signals import StopSignals
    from stepwell.logs import configure

    configure("text", force=False)
    access = _access(host, tokens)
    tls = _tls(host, tls_cert, tls_key, allow_http)
    if module is not None:
        settings.app = module
    loaded = settings.load()
    described = App() if loaded is None else loaded.app
    webhooks = [_hook(spec) for spec in hooks]
    listener = _listen(host, port)
    with listener:
        options = _ServerOptions(access, tls, names, webhooks, connections_max, is_worker=embedded)
        with StopSignals() as signals:
            asyncio.run(_serve(settings, described, signals, listener, options))


def _access(host: str, tokens: str | None) -> Tokens | Authenticator:
    """How callers are authenticated. Raises if the server would be open to the network without any token."""
    from stepwell.errors import InvalidOptionError

    try:
        from stepwell.http import LoopbackAccess, TokenFile
        from stepwell.http.access import is_loopback
    except ImportError as error:
        raise InvalidOptionError(
            "the packages of the server are not installed", why=str(error), fix='pip install "stepwell[server]"'
        ) from None
    if tokens is not None:
        found = TokenFile(Path(tokens))
        if len(found):
            return found
    if not is_loopback(host) or tokens is not None:
        raise InvalidOptionError(
            f"{tokens} has no tokens" if tokens else f"{host} is open to other machines, and there are no tokens",
            where="--host" if tokens is None else "--tokens",
            why="every program that reaches the port could control your runs and read their payloads",
            fix=f"stepwell token new NAME --role operator --tokens {tokens or TOKENS}, then serve with --tokens",
        )
    return LoopbackAccess()


def _hook(spec: str) -> Hook:
    from stepwell.errors import InvalidOptionError
    from stepwell.http import Hook

    found = _HOOK.fullmatch(spec)
    if found is None:
        raise InvalidOptionError(
            f"cannot read the hook {spec!r}", fix="github=event:pushes, or shop=signal:paid@data.order_id"
        )
    variable = f"STEPWELL_HOOK_{found['name'].upper().replace('-', '_')}"
    secrets = tuple(os.environ.get(variable, "").split())
    if not secrets:
        raise InvalidOptionError(f"hook {found['name']!r} has no secret", fix=f"set {variable}")
    return Hook(name=found["name"], secret=secrets, topic=found["topic"], signal=found["signal"], run=found["run"])


def _listen(host: str, port: int) -> socket.socket:
    from stepwell.cli.servers import open_listener
    from stepwell.errors import InvalidOptionError

    try:
        return open_listener(host.strip("[]"), port)
    except OSError as error:
        raise InvalidOptionError(
            f"cannot listen on {host} port {port}: {error.strerror or error}", fix="choose another with --port"
        ) from None


def _tls(host: str, certificate: str | None, key: str | None, allow_http: bool) -> ssl.SSLContext | None:
    """TLS, or None for plain HTTP. Raises if tokens and payloads would cross a network in the clear by mistake."""
    import logging

    from stepwell.errors import InvalidOptionError
    from stepwell.http.access import is_loopback
    from stepwell.http.server import tls_context

    if (certificate is None) != (key is None):
        raise InvalidOptionError(
            "TLS takes a certificate and its key",
            where="--tls-cert" if certificate is None else "--tls-key",
            fix="give both: --tls-cert CHAIN.pem --tls-key KEY.pem",
        )
    if certificate is not None and key is not None:
        return tls_context(Path(certificate), Path(key))
    if not is_loopback(host):
        if not allow_http:
            raise InvalidOptionError(
                f"{host} is open to other machines, and there is no TLS",
                where="--host",
                why="every machine on the way could read tokens and payloads",
                fix="--tls-cert CHAIN.pem --tls-key KEY.pem; or --allow-http, if a proxy in front of it speaks TLS",
            )
        logging.getLogger("stepwell.http").warning(
            "serving %s WITHOUT TLS: every machine between this server and its callers can read tokens and payloads",
            host,
        )
    return None


class _ServerOptions(NamedTuple):
    """How the API is served."""

    access: Tokens | Authenticator
    tls: ssl.SSLContext | None
    names: Sequence[str]
    hooks: list[Hook]
    connections_max: int | None
    is_worker: bool


async def _serve(
    settings: Settings, described: App, signals: StopSignals, listener: socket.socket, options: _ServerOptions
) -> None:
    from dataclasses import replace

    from stepwell.cli.dev.clock import environment_of
    from stepwell.cli.stop_signals import ends_unless_stopped
    from stepwell.http import app
    from stepwell.http.access import LOOPBACK_HOSTS
    from stepwell.http.server import ServerLimits, make_server
    from stepwell.setting_sources import read_settings
    from stepwell.wiring import Engine
    from stepwell.worker.metrics import Metrics

    hooks = list(described.hooks)
    if options.is_worker and not any(isinstance(hook, Metrics) for hook in hooks):
        hooks.append(Metrics())
    served = replace(described, url=settings.db, hooks=tuple(hooks))
    environment = environment_of(settings.db, threads_max=read_settings(served.settings).threads_max)
    limits = ServerLimits() if options.connections_max is None else ServerLimits(connections=options.connections_max)
    stop, executor = signals.watch(), environment.executor
    engine = Engine(served, worker=options.is_worker, environment=environment)
    if not await ends_unless_stopped(engine.open(), stop, executor):
        return
    async with engine:
        hosts = [*LOOPBACK_HOSTS, *options.names]
        application: Application = app(engine, access=options.access, hosts=hosts, hooks=options.hooks)
        server = make_server(application, grace_seconds=5, limits=limits, tls=options.tls)
        _banner(settings, listener, options, described)

        async def end() -> None:
            await stop.wait()
            server.should_exit = True

        ending = executor.spawn(end(), name="stepwell-stop")
        await server.serve(sockets=[listener])
        ending.cancel()


def _banner(settings: Settings, listener: socket.socket, options: _ServerOptions, described: App) -> None:
    from stepwell.addresses import spell_url
    from stepwell.http import LoopbackAccess

    host, port = listener.getsockname()[:2]
    url = f"{'http' if options.tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"
    who = "everyone on this machine" if isinstance(options.access, LoopbackAccess) else "callers with a token"
    served = [f"{workflow.name} v{workflow.version}" for workflow in described.workflows]
    body = {"url": url, "pid": os.getpid(), "db": spell_url(settings.db), "access": who, "workflows": served}
    out = Output(settings)
    dot = " - " if out.ascii else " · "
    if out.format == "json":
        out.format = "jsonl"  # one line: a program that reads it waits for a whole line
    line = clean(dot.join([f"serving {url}", body["db"], f"open to {who}", "Ctrl-C stops"]))  # type: ignore[list-item]
    out.one("stepwell.serve/1", body, run_ids=[], words=lambda: [line])
