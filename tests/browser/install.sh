#!/bin/sh
# Gets a Chromium for the tests of the page, unless there is one: Debian's package of its headless shell where that may be installed,
# else Playwright's build, which goes into the user's cache folder and is found there again.
set -eu
python=${1:-.venv/bin/python}
for name in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" >/dev/null; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Debian's chromium-headless-shell (once)"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium-headless-shell >/dev/null && exit 0
fi
exec "$python" -m playwright install --only-shell chromium
