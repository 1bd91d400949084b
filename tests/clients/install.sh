#!/bin/sh
# Puts what the client tests need and pip does not bring into the user's cache folder: the npm packages of package-lock.json, and
# nginx out of Debian's package, unpacked and not installed. `make test` runs it. What cannot be had here is said, and its tests are
# skipped; with TEST_CLIENTS=all (as in CI) that is an error.
set -u
cd "$(dirname "$0")"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/optimistic-gateway"
missing=0

without() {
    echo "  clients: $1" >&2
    missing=1
}

npm_packages() {
    to="$cache/clients-$(sha256sum package-lock.json | cut -c1-16)"
    [ -e "$to/node_modules/.package-lock.json" ] && return
    command -v npm >/dev/null || { without "the npm clients are left out: install Node.js 20 or newer, with npm"; return; }
    echo "Installing the npm clients into $to (once)"
    mkdir -p "$cache" && made=$(mktemp -d "$cache/made.XXXXXX") || exit 1
    cp package.json package-lock.json "$made"
    if (cd "$made" && npm ci --ignore-scripts --no-audit --no-fund --silent); then
        rm -rf "$to" && mv "$made" "$to"
    else
        rm -rf "$made"
        without "the npm clients could not be installed"
    fi
}

nginx_unpacked() {
    [ -x "$cache/nginx/usr/sbin/nginx" ] && return
    command -v nginx >/dev/null && return
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || { without "nginx is left out: install it"; return; }
    echo "Fetching nginx into $cache/nginx (once)"
    mkdir -p "$cache" && made=$(mktemp -d "$cache/made.XXXXXX") || exit 1
    if (cd "$made" && fetch_nginx && dpkg -x nginx_*.deb root && root/usr/sbin/nginx -v 2>/dev/null); then
        rm -rf "$cache/nginx" && mv "$made/root" "$cache/nginx"
    else
        without "nginx could not be fetched: install it (apt-get install nginx)"
    fi
    rm -rf "$made"
}

fetch_nginx() {
    sandbox="APT::Sandbox::User=$(id -un)" # the folder is this user's
    apt-get -qq -o "$sandbox" download nginx 2>/dev/null && return
    [ "$(id -u)" = 0 ] && apt-get -qq update && apt-get -qq -o "$sandbox" download nginx
}

npm_packages
nginx_unpacked
[ "$missing" = 0 ] || [ "${TEST_CLIENTS:-}" != all ]
