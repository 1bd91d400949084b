"""Variables that look like settings of ours and are none: a slip of the pen must not pass in silence."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches


def unknown(environ: Mapping[str, str], prefix: str, known: Iterable[str]) -> tuple[str, ...]:
    """A sentence for each variable with `prefix` that is none of `known`, with the nearest one of them; never a value.

    What a container platform injects for a service that is called as the prefix (`..._SERVICE_HOST`, `..._PORT_8080_TCP`) is passed over.
    """
    names = set(known)
    found = sorted(name for name in environ if name.startswith(prefix) and name not in names)
    return tuple(_sentence(name, names) for name in found if not _is_injected(name.removeprefix(prefix)))


def _sentence(name: str, known: set[str]) -> str:
    nearest = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"{name}: no setting has this name, it changes nothing" + (
        f"; did you mean {nearest[0]}?" if nearest else ""
    )


def _is_injected(rest: str) -> bool:
    # https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
    return rest.startswith("SERVICE_") or (rest.startswith("PORT_") and rest.split("_")[1].isdigit())
