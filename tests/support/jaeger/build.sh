#!/bin/sh
# Builds Jaeger v2 from its Go module, once, and prints where it is. About 8 minutes of processor time; 85 MB in the user's cache.
# The page of Jaeger is not in its Go module: this binary has Jaeger's API, storage, sampling and span metrics, and a placeholder page.
# Says on stderr how far it is. What keeps it from building is said there too, and ends it with 1: there is no going on without.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
limit_s=${JAEGER_BUILD_LIMIT_S:-2400} # 5 minutes on two idle cores; the rest is for busy ones
said_every_s=20
program=github.com/jaegertracing/jaeger/cmd/jaeger
version=$(sed -n 's|^.*github.com/jaegertracing/jaeger \(v[0-9.]*\).*$|\1|p' "$here/go.mod" | head -n 1)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/optimistic-gateway/jaeger/$version

fail() {
    echo "Jaeger $version could not be built: $1" >&2
    exit 1
}

ended() { # with which code, and what that means
    [ "$1" -ne 124 ] || fail "it took longer than $limit_s s (JAEGER_BUILD_LIMIT_S)"
    fail "$2"
}

if [ -x "$cache/jaeger" ]; then
    echo "$cache/jaeger"
    exit 0
fi
command -v go >/dev/null || fail "Go is not installed ($(sed -n 's|^go |it needs |p' "$here/go.mod") or newer)"
mkdir -p "$cache"
made=$(mktemp -d "$cache/made.XXXXXX") # a folder of its own: two builds at once do not meet
building=
trap '[ -z "$building" ] || kill "$building" 2>/dev/null; rm -rf "$made"' EXIT
trap 'exit 130' INT TERM HUP

cd "$here"
export CGO_ENABLED=0 GOFLAGS= # whatever the machine has set: no C compiler is needed
echo "Building Jaeger $version with $(go version), once; 5 minutes on two idle cores" >&2
echo "  getting its modules" >&2
timeout "$limit_s" go list -mod=readonly -deps "$program" >"$made/packages" 2>"$made/said" || {
    code=$?
    tail -n 20 "$made/said" >&2
    ended "$code" "its modules could not be had from Go's module proxy"
}
# Clients of stores that nothing here uses are compiled without optimizing: an eighth of the time (8.7 minutes of processor time, then 7.6).
set --
for unused in elastic olivere ClickHouse twmb IBM aws Azure AzureAD; do
    set -- "$@" "-gcflags=github.com/$unused/...=-N -l"
done
packages=$(wc -l <"$made/packages")
timeout "$limit_s" nice -n 10 go build -v -mod=readonly -buildvcs=false -trimpath -ldflags '-s -w' "$@" -o "$made/jaeger" "$program" 2>"$made/said" &
building=$!
began_s=$(date +%s) took_s=0 next_s=0
while kill -0 "$building" 2>/dev/null; do
    if [ "$took_s" -ge "$next_s" ]; then
        echo "  $took_s s: $(wc -l <"$made/said") of at most $packages packages" >&2
        next_s=$((took_s + said_every_s))
    fi
    sleep 1
    took_s=$(($(date +%s) - began_s))
done
wait "$building" && code=0 || code=$?
building=
if [ "$code" -ne 0 ]; then
    grep -v '^[^ ]*$' "$made/said" | tail -n 20 >&2 || true # without the names of packages
    ended "$code" "go build ended with $code"
fi
mv "$made/jaeger" "$cache/jaeger"
echo "  built in $took_s s" >&2
echo "$cache/jaeger"
