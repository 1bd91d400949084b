#!/bin/sh
# Gets promtool, which proves the alarms, with Debian's package of Prometheus, where that may be installed. Without it those tests are skipped.
set -eu
if command -v promtool >/dev/null; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Debian's prometheus (once)"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus >/dev/null && exit 0
fi
echo "promtool is not installed and cannot be here: the tests of the alarms are skipped" >&2
