"""A destination: a file that a command is to write. Whether it can be is found out before the work whose result it is to hold."""

from pathlib import Path

from retrieval.faults import GatewayFault


class CannotBeWritten(GatewayFault):
    """Raised when a file that a command is to write cannot be; the message names the file and the reason."""

    type = "cannot_be_written"


def require_writable(*files: Path | None) -> None:
    """Returns when each file (None is none) can be written by now; it is left as it was. Raises CannotBeWritten."""
    for file in files:
        if file is not None:
            try:
                _try(file)
            except OSError as error:
                raise _refused(file, error) from error


def write(file: Path, content: str | bytes) -> None:
    """Replaces what the file holds; text as UTF-8. Raises CannotBeWritten."""
    try:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise _refused(file, error) from error


def _try(file: Path) -> None:
    if not file.exists():
        made = file.resolve()  # of a link that leads nowhere yet, where it leads
        made.open("xb").close()
        made.unlink()
    elif file.is_file() or file.is_dir():  # opening a pipe would wait for its reader
        file.open("ab").close()


def _refused(file: Path, error: OSError) -> CannotBeWritten:
    missing = isinstance(error, FileNotFoundError) and not file.resolve().parent.exists()
    reason = f"there is no folder {file.parent}" if missing else error.strerror or type(error).__name__
    return CannotBeWritten(f"{file} cannot be written: {reason}")
