"""A network in this process: text in, numbers out. The only importer of onnxruntime and tokenizers."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

from gateway.providers.local.faults import LocalModelMissing
from gateway.providers.local.files import ModelFiles

if TYPE_CHECKING:  # loading them takes 0.3 s: only whoever uses a local model pays for it
    import numpy
    from onnxruntime import InferenceSession  # type: ignore[import-untyped]  # ships no types
    from tokenizers import Tokenizer

# One thread for each run, several runs at once: on 2 cores two runs side by side take 24 ms per 200-token text, one after the other on two
# threads 26 to 32 ms (onnxruntime 1.32). Threads that spin while they wait take the cores from the other runs.
THREADS_PER_RUN = 1


class Network:
    """One ONNX network with its tokenizer, loaded at the first use, in whichever thread that happens.

    Every method blocks for as long as the CPU needs: call it through Slots. Any number of threads may call at once.
    """

    def __init__(self, find: Callable[[], ModelFiles], max_tokens: int) -> None:
        self._find = find
        self._max_tokens = max_tokens
        self._lock = Lock()
        self._loaded: tuple[InferenceSession, Tokenizer, frozenset[str]] | None = None

    def load(self) -> None:
        """Finds, checks and loads the files; does nothing the second time. Raises LocalModelMissing."""
        self._ready()

    def run(self, text: str, second: str | None = None) -> numpy.ndarray:
        """The network's first output for one text, or for a pair of texts: (1, ...).

        What exceeds `max_tokens` is cut, in a pair off the longer. One text at a time, because batches move an int8
        network's figures (logits by up to 2.0). Raises LocalModelMissing when it is not loaded yet and cannot be.
        """
        import numpy

        session, tokenizer, wanted = self._ready()
        encoding = tokenizer.encode(_encodable(text), None if second is None else _encodable(second))
        inputs = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        feed = {name: numpy.array([values], dtype=numpy.int64) for name, values in inputs.items() if name in wanted}
        output: numpy.ndarray = session.run(None, feed)[0]
        return output

    def pieces(self, text: str) -> list[str]:
        """The word pieces that `run(text)` sees, with the marks before and after. Raises as `run`."""
        found: list[str] = self._ready()[1].encode(_encodable(text)).tokens
        return found

    def _ready(self) -> tuple[InferenceSession, Tokenizer, frozenset[str]]:
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self._find(), self._max_tokens)
            return self._loaded


def _load(files: ModelFiles, max_tokens: int) -> tuple[InferenceSession, Tokenizer, frozenset[str]]:
    try:
        from onnxruntime import InferenceSession, SessionOptions
        from tokenizers import Tokenizer
    except ImportError as error:
        raise LocalModelMissing(
            "local models need onnxruntime, tokenizers and numpy; `make run` installs them (pip install '.[local]')"
        ) from error
    network, vocabulary = files.checked()
    options = SessionOptions()
    options.intra_op_num_threads = THREADS_PER_RUN
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # an arena keeps 50 MB more for the three models and saves no time
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = InferenceSession(str(network), options, providers=["CPUExecutionProvider"])
        tokenizer = Tokenizer.from_file(str(vocabulary))
    except Exception as error:  # the runtime's and the tokenizer's own errors have no common class
        message = f"the files of the local model {files.name} in {files.folder} cannot be loaded"
        raise LocalModelMissing(message) from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens, strategy="longest_first")
    return session, tokenizer, frozenset(each.name for each in session.get_inputs())


def _encodable(text: str) -> str:
    """`text` without lone surrogates, on which the tokenizer fails."""
    return text.encode("utf-8", "replace").decode("utf-8")
