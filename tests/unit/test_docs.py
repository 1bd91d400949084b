"""The documents against the code, both ways: what is described exists, and what exists is described."""

import json
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import AliasChoices

from gateway import body, cli, request
from gateway.graders import GraderName
from gateway.observing import conventions
from gateway.providers.local.extractive import PREAMBLE
from gateway.settings import CONFIG_VARIABLE, PREFIX, Settings, default_home
from retrieval import chunk, documents, ingest, raw
from retrieval.passage import Passage
from streaming import events
from streaming.wire.native import named, whole
from streaming.wire.told import Told

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def rows(text: str, heading: str) -> Iterator[list[str]]:
    """The cells of the table rows below `heading`, without the table's own head."""
    section = re.split(r"^#+ ", text[text.index(f"# {heading}\n") + 2 :], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def example(text: str, heading: str) -> Any:
    """The JSON block below `heading`."""
    found = re.search(r"```json\n(.*?)```", text[text.index(f"# {heading}\n") :], re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


def said(default: object) -> str:
    match default:
        case "":
            return "empty"
        case bool():
            return f"`{str(default).lower()}`"
        case _:
            return f"`{default}`"


def test_every_setting_is_described_with_its_default_and_no_other_is() -> None:
    described = {cells[0].strip("`"): cells[1] for cells in rows(page("configuration.md"), "All settings")}
    settings = {}
    for name, field in Settings.model_fields.items():
        alias = field.validation_alias
        variable = str(alias.choices[-1]) if isinstance(alias, AliasChoices) else PREFIX + name.upper()
        is_made = field.default_factory is not None or field.default in (None, ())  # what follows is said in words
        settings[variable] = "made" if is_made else said(field.default)
    assert described.keys() == settings.keys()
    assert {name: described[name] for name, default in settings.items() if default != "made"} == {
        name: default for name, default in settings.items() if default != "made"
    }
    assert Path(described["GATEWAY_HOME"].strip("`")).expanduser() == default_home({})


def test_every_grader_that_the_setting_knows_is_described_and_no_other_is() -> None:
    assert [cells[0].strip("`") for cells in rows(page("judging.md"), "Who judges")] == list(get_args(GraderName))
    (row,) = (cells for cells in rows(page("configuration.md"), "All settings") if cells[0] == "`GATEWAY_GRADERS`")
    assert set(re.findall(r"`([a-z-]+)`", row[2])) == set(get_args(GraderName))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_variable_that_a_page_names_exists(path: Path) -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields} | {CONFIG_VARIABLE, "GATEWAY_TEST_DATABASE_URL"}
    assert set(re.findall(r"\bGATEWAY_[A-Z_]+\b", path.read_text())) <= known


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_of_a_page_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (path.parent / target).exists(), target


NEAR = Passage("doc_1:0", "doc_1", "How it works", "A draft is held.", url="https://docs.example/how", score=0.8)
EVENTS: list[events.Event] = [
    events.Started("a", "t", "q", "default"),
    events.Status(2, "correcting", "broaden"),
    events.Retry(1, "insufficient", "price", "broaden", "q"),
    events.Sources(1, ((1, NEAR),)),
    events.Token("x"),
    events.Citation(1, 0, 1, "x"),
    events.Refusal(events.Reason.INSUFFICIENT_EVIDENCE, "m", "price", ("q",), "gap_1", (NEAR,)),
    events.Verification(True, (events.Claim(0, 1, True, (1,)),)),
    events.Failed("internal_error", "m", False),
    events.Done(
        events.Path.CLEAN,
        "stop",
        1,
        {
            "input_tokens": 1,
            "released_tokens": 1,
            "discarded_tokens": 0,
            "still_billing_tokens": 0,
            "exact": True,
        },
        {"retrieval": 1.0, "total": 2.0},
    ),
]


def shape(value: object) -> object:
    """Names and kinds of a JSON value, without its contents."""
    match value:
        case dict():
            return {name: shape(item) for name, item in value.items()}
        case list():
            return [shape(item) for item in value[:1]]
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case _:
            return type(value).__name__


def test_the_examples_of_this_test_are_of_every_event() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(events.Event))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_is_described_in_its_own_shape(event: events.Event) -> None:
    name, data = named(event)
    assert shape(example(page("wire.md"), name)) == shape(data)


def test_no_event_is_described_that_does_not_exist() -> None:
    described = re.findall(r"^### (\w+)$", page("wire.md"), re.MULTILINE)
    assert described == [named(event)[0] for event in EVENTS]
    in_short = re.findall(
        r"`(\w+)`", "".join(cells[0] for cells in rows((ROOT / "README.md").read_text(), "The events"))
    )
    assert set(in_short) == set(described)


def test_every_field_of_a_question_is_described_and_the_example_is_valid() -> None:
    text = page("wire.md")
    fields = {name for name in request.AnswerBody.model_fields if name != "options"}
    fields |= {f"options.{name}" for name in request.OptionsBody.model_fields}
    assert {cells[0].strip("`") for cells in rows(text, "The request")} == fields
    asked = request.answer_request(example(text, "The request"))
    assert asked.options.speculate == "never"


def faults() -> set[tuple[int, str]]:
    """Status and type of every fault that a client can be told: those with a row of the table, and their kinds.

    What falls through to the last row is told to whoever runs a command, or never leaves the part that raised it.
    """
    from gateway.problems import STATUS, status_of
    from retrieval.faults import GatewayFault

    found, rows_of_it = [GatewayFault], tuple(kind for kind in STATUS if kind is not GatewayFault)
    for kind in found:
        found += kind.__subclasses__()
    ours = ("gateway.", "streaming.", "grading.", "retrieval.")
    return {
        (status_of(kind("said")), kind.type)
        for kind in found
        if kind.__module__.startswith(ours) and (kind is GatewayFault or issubclass(kind, rows_of_it))
    }


def test_every_error_is_described_with_its_status_and_no_other_is() -> None:
    table = rows(page("wire.md"), "Errors before the stream")
    assert {(int(cells[0]), cells[1].strip("`")) for cells in table} == faults()


def test_the_whole_body_is_described_in_its_own_shape() -> None:
    told = Told()
    source = Passage("doc_1:0", "doc_1", "How it works", "A draft is held.", score=0.8)
    for event in (events.Sources(1, ((1, source),)), events.Citation(1, 0, 1), EVENTS[-1]):
        told.take(event)
    assert shape(example(page("wire.md"), "One JSON body: stream false")) == shape(whole(told, "a", "t"))


def test_every_span_attribute_is_described_and_no_other_is() -> None:
    text = page("tracing.md")
    described = set(re.findall(r"`([\w.]+)`", "".join(cells[0] for cells in rows(text, "Attributes"))))
    constants = {value for name, value in vars(conventions).items() if name.isupper() and "." in value}
    assert described == constants
    assert (
        set(re.findall(r"`(\w+)`", text[text.index("## Outcomes") : text.index("## Attributes")]))
        >= conventions.Outcome.ALL
    )


def test_every_exit_code_is_described() -> None:
    codes = {cli.ANSWERED, cli.FAILED, cli.USAGE, cli.REFUSED, cli.BROKEN, cli.INTERRUPTED}
    assert {int(cells[0]) for cells in rows(page("operations.md"), "Exit codes")} == codes


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("operations.md", f"{body.BODY_LIMIT_BYTES:,} bytes"),
        ("operations.md", f"within {body.BODY_LIMIT_S:g} s"),
        ("operations.md", f"{request.QUESTION_LIMIT:,} characters, not blank"),
        ("operations.md", f"{request.TURNS_LIMIT} turns, {request.HISTORY_LIMIT:,} characters"),
        ("operations.md", f"{request.FILTERS_LIMIT}; names of {request.FILTER_NAME_LIMIT} and"),
        ("operations.md", f"values of {request.FILTER_VALUE_LIMIT:,} characters"),
        ("operations.md", f"{request.DEADLINE_LEAST_S:g} to {request.DEADLINE_LIMIT_S:g} s"),
        ("retrieval.md", f"about {chunk.Chunking().target_tokens} tokens long"),
        ("retrieval.md", f"share about {chunk.Chunking().overlap_tokens} tokens"),
        ("retrieval.md", f"at most {raw.SIZE_LIMIT_BYTES // 2**20} MiB"),
        ("retrieval.md", f"at most {documents.PAGES_LIMIT:,} pages"),
        ("models.md", PREAMBLE.strip()),
    ],
)
def test_a_figure_in_the_documents_is_the_one_in_the_code(name: str, figure: str) -> None:
    assert figure in " ".join(page(name).split())


def test_every_ending_that_is_ingested_is_described_and_no_other_is() -> None:
    text = page("retrieval.md")
    cells = "".join(row[1] for row in rows(text, "Which file formats are ingested"))
    assert set(re.findall(r"`(\.\w+)`", cells)) == raw.KINDS.keys()
    assert all(f"`{folder}`" in text for folder in ingest.SKIPPED_FOLDERS)


def wanted() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = [project["project"]["dependencies"], *project["project"]["optional-dependencies"].values()]
    groups += [[item for item in group if isinstance(item, str)] for group in project["dependency-groups"].values()]
    carriers = [line for line in (ROOT / "requirements/models.in").read_text().splitlines() if not line.startswith("#")]
    return {bare(item) for group in [*groups, carriers] for item in group}


def bare(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return found.group()


def test_every_direct_dependency_is_described_with_a_reason_and_no_other_is() -> None:
    headings = re.findall(r"^## (.+)$", page("dependencies.md"), re.MULTILINE)
    table = [cells for heading in headings for cells in rows(page("dependencies.md"), heading)]
    assert {cells[0].strip("`") for cells in table} == wanted()
    assert all(len(cells) == 3 and cells[2] for cells in table)
    declared = {cells[0]: metadata(cells[0].strip("`")) for cells in table}
    for name, licence, _ in table:
        if "License-Expression" in declared[name]:  # older packages say it in words of their own
            assert licence == declared[name]["License-Expression"]
