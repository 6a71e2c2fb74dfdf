#!/bin/bash
# Runs a Python script (or a program of the environment, with -x) in .cache/venv; exit status 77, "skipped", without it.
#     with_venv.sh script.py arguments …
#     with_venv.sh -x clang-format arguments …
bin=$(cd "$(dirname "$0")/../.." && pwd)/.cache/venv/bin
if [ ! -x "$bin/python" ]; then
  echo "skipped: no .cache/venv; tools/venv.sh makes it where PyPI can be reached"
  exit 77
fi
if [ "$1" = -x ]; then
  program=$bin/$2
  shift 2
  exec "$program" "$@"
fi
exec "$bin/python" "$@"
