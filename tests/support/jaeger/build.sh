#!/bin/sh
# Builds Jaeger v2 from its Go module, once, and prints where it is. About 8 minutes of processor time; 85 MB in the user's cache.
# The page of Jaeger is not in its Go module: this binary has Jaeger's API, storage, sampling and span metrics, and a placeholder page.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's|^.*github.com/jaegertracing/jaeger \(v[0-9.]*\).*$|\1|p' "$here/go.mod" | head -n 1)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/optimistic-gateway/jaeger/$version
if [ ! -x "$cache/jaeger" ]; then
	command -v go >/dev/null || { echo "Jaeger is built with Go, which is not installed" >&2; exit 1; }
	echo "Building Jaeger $version, once; a few minutes on two idle cores" >&2
	mkdir -p "$cache"
	(cd "$here" && nice -n 10 go build -mod=readonly -trimpath -ldflags '-s -w' -o "$cache/jaeger.new" github.com/jaegertracing/jaeger/cmd/jaeger) >&2
	mv "$cache/jaeger.new" "$cache/jaeger"
fi
echo "$cache/jaeger"
