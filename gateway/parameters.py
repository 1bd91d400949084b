"""Parameters: what stands after the question mark of an address, checked."""

from collections.abc import Sequence

from starlette.datastructures import QueryParams
from starlette.types import Scope

from gateway.cleaning import clean
from gateway.problems import Field, InvalidRequest
from gateway.request import FIELDS_SHOWN, shown


def parameters_of(scope: Scope, known: Sequence[str] = ()) -> QueryParams:
    """The parameters of a request. Raises InvalidRequest for one that is not `known`, or comes twice."""
    given = QueryParams(scope["query_string"])
    bad = [Field(shown(clean(name)), "is no parameter here") for name in dict.fromkeys(given) if name not in known]
    bad += [Field(name, "is given twice") for name in known if len(given.getlist(name)) > 1]
    if bad:
        raise InvalidRequest("the request is not valid", tuple(bad[:FIELDS_SHOWN]))
    return given


def number_of(given: QueryParams, name: str, default: int, most: int) -> int:
    """The whole number from 1 to `most` that the parameter says. Raises InvalidRequest."""
    written = given.get(name)
    if written is None:
        return default
    if not written.isascii() or not written.isdigit() or not 1 <= int(written[:9]) <= most:
        raise bad_parameter(name, f"must be a whole number from 1 to {most}")
    return int(written)


def bad_parameter(name: str, why: str) -> InvalidRequest:
    """The fault of one parameter."""
    return InvalidRequest("the request is not valid", (Field(name, why),))
