#!/bin/sh
# Prints the Python to build the environment with: `python3`, or the system's own where that will do and `python3` was built without
# optimization, as pyenv does: such a one takes a third more processor time for every answer (docs/performance.md).
will_do='import ensurepip, sys; sys.exit(sys.version_info < (3, 11))'
optimized='import sys, sysconfig; sys.exit("--enable-optimizations" not in (sysconfig.get_config_var("CONFIG_ARGS") or ""))'
system=/usr/bin/python3

if ! python3 -c "$optimized" 2>/dev/null && $system -c "$will_do" 2>/dev/null; then
    echo $system
else
    echo python3
fi
