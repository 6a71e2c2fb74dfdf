#!/bin/bash
# Runs a Python script in .cache/venv; exit status 77, "skipped", where that is absent.
#     with_venv.sh script.py arguments …
python=$(cd "$(dirname "$0")/../.." && pwd)/.cache/venv/bin/python
if [ ! -x "$python" ]; then
  echo "skipped: no .cache/venv; tools/venv.sh makes it where PyPI can be reached"
  exit 77
fi
exec "$python" "$@"
