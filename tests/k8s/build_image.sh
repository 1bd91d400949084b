#!/bin/sh
# Builds the image of the Containerfile where no base image can be fetched, and asks it a question. Not part of `make test`: 4 minutes.
#
# The base is a stand-in made here: Debian's bookworm with its own Python 3.11 (debootstrap), under the name that the Containerfile asks
# for. Everything else is the real thing: every line of the Containerfile, by buildah, in a chroot. Needs root on a Debian system.
#
#     sh tests/k8s/build_image.sh [FOLDER]     # FOLDER (default: a new one, removed at the end) holds the stand-in and the image
set -eu
root="$(cd "$(dirname "$0")/../.." && pwd)"
kept="${1:-}"
work="${kept:-$(mktemp -d)}"
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
builder() { buildah --root "$work/store" --runroot "$work/run" "$@"; }
cleaned() {
    if [ -z "$kept" ]; then builder rm -a >/dev/null 2>&1 || true; rm -rf "$work"; fi
}
trap cleaned EXIT

if ! command -v buildah >/dev/null || ! command -v debootstrap >/dev/null; then
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends buildah debootstrap crun
fi
mkdir -p "$work"
if [ ! -d "$work/base" ]; then
    debootstrap --variant=minbase --include=python3,python3-venv,python3-pip,ca-certificates bookworm "$work/base" >/dev/null
    ln -s python3 "$work/base/usr/bin/python"
    rm -f "$work"/base/usr/lib/python3*/EXTERNALLY-MANAGED "$work"/base/var/cache/apt/archives/*.deb
    rm -rf "$work/base/etc/ssl/certs" # its links lead out of the folder, to the files that are copied here
    cp -rL /etc/ssl/certs "$work/base/etc/ssl/"
    for file in /etc/resolv.conf /etc/pip.conf; do [ ! -e "$file" ] || cp "$file" "$work/base$file"; done
fi
base="$(sed -n 's/^ARG PYTHON=//p' "$root/Containerfile")"
made="$(builder from scratch)"
builder add -q "$made" "$work/base" / >/dev/null
builder commit -q "$made" "docker.io/library/python:$base" >/dev/null
builder rm "$made" >/dev/null

rm -rf "$work/source" && mkdir "$work/source"
git -C "$root" archive HEAD | tar -x -C "$work/source"
builder bud --pull-never --network host -f "$work/source/Containerfile" -t optimistic-gateway:test "$work/source"

image="$(builder from --pull-never localhost/optimistic-gateway:test)"
inside() { builder run "$image" -- sh -c "$1"; }
[ "$(inside 'id -u')" = 10001 ]
for tool in gcc cc make; do ! inside "command -v $tool" >/dev/null || { echo "$tool is in the image" >&2; exit 1; }; done
for module in pip setuptools hatchling; do
    ! inside "python -c 'import $module'" 2>/dev/null || { echo "$module is in the image" >&2; exit 1; }
done
[ -z "$(inside 'find /opt /usr /etc -xdev -writable -not -type l' 2>/dev/null)" ]
(cd "$root" && .venv/bin/python -m tests.k8s.ask_image "$work" "$image")
echo "The image was built and has answered."
