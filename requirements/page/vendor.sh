#!/bin/sh
# Puts the page's two libraries into gateway/web/vendor/, byte for byte as their pinned npm packages hold them.
# Run it after a change of package.json; nobody else needs npm. tests/browser/test_files.py holds the sums.
set -eu
cd "$(dirname "$0")"
to=../../gateway/web/vendor
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
cp package.json package-lock.json "$made"
(cd "$made" && npm ci --ignore-scripts --omit=optional --no-audit --no-fund --silent)
cp "$made/node_modules/dompurify/dist/purify.min.js" "$to/purify.min.js"
cp "$made/node_modules/marked/lib/marked.esm.js" "$to/marked.esm.js"
cp "$made/node_modules/dompurify/LICENSE" "$to/dompurify.licence.txt"
cp "$made"/node_modules/marked/LICENSE* "$to/marked.licence.txt"
(cd "$to" && sha256sum purify.min.js marked.esm.js >sums.txt)
