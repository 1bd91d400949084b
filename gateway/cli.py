"""The command line: each command reads the settings, runs one coroutine and turns its end into an exit code."""

import secrets
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import anyio
import typer

from gateway.access.command import keys
from gateway.access.keys import OpenToAll
from gateway.bench.command import bench
from gateway.bench.profile import ProfileUnreadable
from gateway.bench.stage import StageBroken
from gateway.destination import CannotBeWritten, require_writable, write
from gateway.evaluation import calibration
from gateway.evaluation.command import evaluation
from gateway.evaluation.measuring import MemoryUnusable
from gateway.evaluation.rows import LabelsUnreadable
from gateway.gap_commands import gaps
from gateway.reporting.command import report
from gateway.screen import Screen
from gateway.server import PortInUse
from gateway.settings import Settings, SettingsInvalid, read_settings, unknown_settings
from grading.calibrate import COST_RATIO, CalibrationInvalid, TooFewCases
from retrieval.faults import GatewayFault
from streaming.events import Path as AnswerPath

T = TypeVar("T")

ANSWERED, FAILED, USAGE, REFUSED, BROKEN, INTERRUPTED = 0, 1, 2, 3, 4, 130
UNUSABLE = (
    LabelsUnreadable,
    MemoryUnusable,
    TooFewCases,
    CalibrationInvalid,
    CannotBeWritten,
    OpenToAll,
)  # files, options
EXPECTED = (GatewayFault, PortInUse, OpenToAll, FileNotFoundError, PermissionError, StageBroken, ProfileUnreadable)

cli = typer.Typer(
    name="gateway",
    help="Answers questions from your documents over server-sent events, and checks the evidence while it answers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

cli.add_typer(evaluation)
cli.add_typer(gaps)
cli.add_typer(keys)
cli.command(
    epilog="Examples: `gateway report --since 24h`, `gateway report --prometheus http://127.0.0.1:9090 --json`, "
    "`gateway report --gateway http://127.0.0.1:8080 --picture report.png`"
)(report)
cli.command(
    epilog="Examples: `gateway bench`, `gateway bench --profile mine.toml --json new.json --compare old.json`, "
    "`gateway bench --from-log --strategies never,adaptive`"
)(bench)

Collection = Annotated[str, typer.Option(help="The collection of documents.")]
Tenant = Annotated[str, typer.Option(help="Whose it is.")]


def main() -> None:
    """The entry point of the `gateway` program."""
    cli()


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"gateway {version('optimistic-gateway')}")
        raise typer.Exit


@cli.callback()
def about(
    show: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Answers questions from your documents over server-sent events, and checks the evidence while it answers.

    Settings come from GATEWAY_* variables and ./gateway.toml. Without ANTHROPIC_API_KEY local models quote from the documents.
    """


@cli.command(
    epilog="Examples: `gateway serve --docs ./docs`, `gateway serve --port 9000`, `GATEWAY_PROVIDER=scripted gateway serve`"
)
def serve(
    docs: Annotated[
        Path | None, typer.Option(help="Ingest this folder or file first; what has not changed is skipped.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (GATEWAY_HOST; 127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (GATEWAY_PORT; 8080).", min=0, max=65_535)] = None,
) -> None:
    """Serve answers over HTTP."""
    from gateway.observing.request_log import log_to
    from gateway.serve import serve as run

    settings = settings_or_exit(host=host, port=port)
    log_to(log_format=settings.log_format)
    run_or_exit(partial(run, settings, docs, Screen()))


@cli.command(
    epilog="Examples: `gateway ingest ~/notes`, `gateway ingest handbook.pdf --collection handbook --tenant acme`"
)
def ingest(
    path: Annotated[Path, typer.Argument(help="A folder or a file: Markdown, text, HTML, PDF.")],
    collection: Collection = "default",
    tenant: Tenant = "default",
) -> None:
    """Bring a collection in line with a folder. Exits with 1 when a document could not be read."""
    settings = settings_or_exit()
    raise typer.Exit(run_or_exit(partial(ingest_path, settings, path, collection, tenant, Screen())))


@cli.command(epilog='Examples: `gateway ask "Who may release a draft?"`, `gateway ask --json "..." | jq .`')
def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    collection: Collection = "default",
    tenant: Tenant = "default",
    as_json: Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")] = False,
) -> None:
    """Ask one question here, without a server. Exits with 0 answered, 2 usage, 3 refused, 4 failed."""
    settings = settings_or_exit()
    path = run_or_exit(partial(ask_here, settings, question, collection, tenant, Screen(), as_json), failed=BROKEN)
    codes = {AnswerPath.CLEAN: ANSWERED, AnswerPath.RECOVERED: ANSWERED, AnswerPath.REFUSED: REFUSED}
    raise typer.Exit(codes.get(path, BROKEN))


@cli.command(
    epilog="Examples: `gateway calibrate labelled.jsonl --collection handbook --store`, `gateway calibrate a.jsonl b.jsonl --out c.json`"
)
def calibrate(
    paths: calibration.Paths = None,
    grader: calibration.Grader = "calibrated",
    collection: calibration.Collection = "default",
    cost_ratio: calibration.Cost = COST_RATIO,
    out: calibration.Out = None,
    store: calibration.Store = False,
    picture: calibration.Picture = None,
    cache: calibration.Cache = None,
    seed: calibration.Seed = 0,
    from_log: calibration.FromLog = False,
    as_json: calibration.AsJson = False,
) -> None:
    """Fit the local grader on labelled sets of passages, and say what it is worth on questions it has not seen."""
    if bool(paths) == from_log:
        stop("name labelled files, or fit on the logged verdicts with --from-log", USAGE)
    options = calibration.Options(grader, collection, cost_ratio, out, store, picture, cache, seed, from_log, as_json)
    settings = settings_or_exit()
    files_or_exit(out, picture, cache)
    run_or_exit(partial(calibration.calibrate, settings, paths or [], options))


@cli.command(epilog="Example: `GATEWAY_DATABASE_URL=postgresql://... gateway migrate`")
def migrate() -> None:
    """Bring the database up to date. `serve` and `ingest` do so too."""
    settings = settings_or_exit()
    applied = run_or_exit(partial(migrate_database, settings))
    print("Applied: " + ", ".join(applied) if applied else "The database is up to date")


async def ingest_path(settings: Settings, path: Path, collection: str, tenant: str, screen: Screen) -> int:
    """Ingests and reports; the exit code."""
    from gateway.wiring import library
    from retrieval.ingest import ingest as bring_in

    async with library(settings) as books:
        with screen.progress() as progress:
            report = await bring_in(
                path, books.store, books.embedder, collection=collection, tenant=tenant, progress=progress
            )
    screen.ingested(report)
    return FAILED if report.unreadable else ANSWERED


async def ask_here(
    settings: Settings, question: str, collection: str, tenant: str, screen: Screen, as_json: bool
) -> AnswerPath:
    """Answers on the screen; the path that the answer took."""
    from gateway.request import Options, clean_collection, clean_question
    from gateway.traced import traced
    from gateway.wiring import wired
    from streaming.answer import answer
    from streaming.ask import Ask

    question, collection = clean_question(question), clean_collection(collection)
    asked = Ask(secrets.token_hex(12), secrets.token_hex(16), question, collection, tenant=tenant)
    async with wired(settings) as built:
        house = built.house
        house.check_question(question)
        await house.collections.check(asked.collection, asked.tenant)
        shown = screen.answer(as_json)
        parts = house.parts_for(Options(), asked.collection, asked.tenant)
        trace = house.telemetry.request({}, method="CLI", route="ask")
        try:
            trace.begin_answer(
                asked,
                generator=parts.generator.name,
                grader=parts.grader.name,
                provider=house.provider,
                decisions=house.decisions,
            )
            return await answer(asked, traced(parts, trace), house.limits, shown.take, trace)
        finally:
            trace.end(None)


async def migrate_database(settings: Settings) -> tuple[str, ...]:
    """Migrates; the names applied."""
    from gateway.wiring import owner_url
    from retrieval.schema import migrate as bring_up_to_date

    async with owner_url(settings) as url:
        return await bring_up_to_date(url, grants_anew=True)


def settings_or_exit(**overrides: object) -> Settings:
    """The settings; what is wrong with them goes to the terminal, with exit code 2."""
    for sentence in unknown_settings():
        typer.echo(f"Warning: {sentence}", err=True)
    try:
        return read_settings(**overrides)
    except SettingsInvalid as error:
        stop(str(error), USAGE)


def run_or_exit(work: Callable[[], Awaitable[T]], failed: int = FAILED) -> T:
    """Runs `work`; a condition that has a name becomes its message and an exit code, anything else a traceback."""
    try:
        return anyio.run(work, backend_options={"use_uvloop": sys.platform != "win32"})
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        expected = named_cause(error)
        if expected is None:
            raise
        from gateway.problems import InvalidRequest

        stop(str(expected), USAGE if isinstance(expected, (InvalidRequest, *UNUSABLE)) else failed)


def files_or_exit(*files: Path | None) -> None:
    """Returns when each file that is to be written can be, else ends the program; asked before long work (gateway.destination)."""
    try:
        require_writable(*files)
    except CannotBeWritten as error:
        stop(str(error), USAGE)


def write_or_exit(file: Path | None, content: Callable[[], str | bytes]) -> None:
    """Writes the content where a file is wanted; ends the program where that cannot be."""
    if file is not None:
        try:
            write(file, content())
        except CannotBeWritten as error:
            stop(str(error), USAGE)


def named_cause(error: BaseException) -> Exception | None:
    """The first condition with a name in `error`, also inside groups."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for inner in error.exceptions if (found := named_cause(inner)) is not None), None)
    return error if isinstance(error, EXPECTED) else None


def stop(message: str, code: int) -> NoReturn:
    """Ends the program with a message and no traceback."""
    print(f"gateway: {message}", file=sys.stderr)
    raise typer.Exit(code)
