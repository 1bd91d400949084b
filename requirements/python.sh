#!/bin/sh
# Prints the Python to build the environment with: `python3`, or the system's own where that will do, is no older, and `python3` was built
# without optimization, as pyenv does: such a one takes a third more processor time for every answer (docs/performance.md). A virtual
# environment is somebody's choice, and stays.
system=/usr/bin/python3
will_do='import ensurepip, sys; sys.exit(sys.version_info < (3, 11))'
optimized='import sys, sysconfig; sys.exit("--enable-optimizations" not in (sysconfig.get_config_var("CONFIG_ARGS") or ""))'
release='import sys; print(*sys.version_info[:2])'

can() { "$1" -c "$2" >/dev/null 2>&1; }
number() { "$1" -c "$release" 2>/dev/null | tail -n 1; }

if can python3 "$will_do" && { [ -n "${VIRTUAL_ENV:-}" ] || can python3 "$optimized"; }; then
    echo python3
elif can $system "$will_do" && { ! can python3 "$will_do" || [ "$(number python3)" = "$(number $system)" ]; }; then
    echo $system
else
    echo python3
fi
