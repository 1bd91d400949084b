#!/bin/sh
# Puts Open WebUI into the user's cache folder, with what its web server needs and without what only its own models need (torch and the
# like): 1 GB. Its path is printed. `make test-openwebui` runs it; nothing else needs it.
set -eu
version=0.12.4
python=${1:-python3}
venv="${XDG_CACHE_HOME:-$HOME/.cache}/optimistic-gateway/openwebui-$version"
if [ ! -e "$venv/complete" ]; then
    echo "Installing Open WebUI $version into $venv (once; some minutes)" >&2
    "$python" -m venv "$venv" >&2
    "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$venv/wheel" "open-webui==$version" >&2
    "$venv/bin/python" - "$venv"/wheel/*.whl >"$venv/requirements.txt" <<'END'
import re, sys, zipfile
from email import message_from_bytes

MODELS = "accelerate einops faster-whisper opencv-python-headless pyarrow rapidocr sentence-transformers sentencepiece soundfile transformers"
wheel = zipfile.ZipFile(sys.argv[1])
metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
for line in message_from_bytes(wheel.read(metadata)).get_all("Requires-Dist", []):
    if "extra ==" not in line and re.split(r"[\[=<>; ]", line)[0] not in MODELS.split():
        print(line)
END
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$venv/requirements.txt" >&2
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "$venv"/wheel/*.whl >&2
    touch "$venv/complete"
fi
echo "$venv"
