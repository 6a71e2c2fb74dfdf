#!/bin/bash
# Makes .cache/venv with the Python packages that the oracle tests need, once for each state of their list.
#     tools/venv.sh        exit status 0: .cache/venv/bin/python is ready; 1: it could not be made, and why
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.cache/venv list=tests/oracle/requirements.txt
cmp -s "$list" "$venv/installed.txt" && exit 0
rm -rf "$venv"
mkdir -p .cache
log=.cache/venv.log
if python3 -m venv "$venv" >"$log" 2>&1 &&
  "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 20 -r "$list" >>"$log" 2>&1; then
  cp "$list" "$venv/installed.txt"
else
  tail -3 "$log" >&2
  rm -rf "$venv"
  exit 1
fi
