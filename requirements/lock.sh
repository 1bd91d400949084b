#!/bin/sh
# Writes the lock files anew: hashes, no registry addresses, one file for every Python from 3.11 on.
set -eu
cd "$(dirname "$0")/.."
unset PIP_FIND_LINKS
compile() {
    uv pip compile --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-header --no-annotate --quiet "$@"
}
compile pyproject.toml --extra local --group dev -o requirements/dev.lock
compile pyproject.toml --extra local --group build -c requirements/dev.lock -o requirements/run.lock
compile --no-deps requirements/models.in -o requirements/models.lock
