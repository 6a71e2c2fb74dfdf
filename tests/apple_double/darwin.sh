#!/bin/bash
# Compiles the Core ML backend for arm64 macOS: Apple's Objective-C, the C library of Darwin, libc++. Apple's frameworks
# are the double's headers. The PyPI package ziglang brings clang with the headers of Darwin; exit status 77, "skipped",
# where it is not installed.
#     darwin.sh OUTPUT_FOLDER [FILE…]            FILE: other sources of the library (default: src/coreml/*.mm)
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$1
shift
python=${ANEMONE_ZIG_PYTHON:-.cache/venv/bin/python}
"$python" -m ziglang version >/dev/null 2>&1 || {
  echo "skipped: no ziglang in $python; 'pip install ziglang' there brings a compiler for macOS"
  exit 77
}
mkdir -p "$out/include"
for name in fmt nlohmann; do ln -sfn /usr/include/$name "$out/include/$name"; done
[ $# -gt 0 ] || set -- src/coreml/*.mm
status=0
for file in "$@"; do
  language=c++
  [ "${file##*.}" != mm ] || language=objective-c++
  "$python" -m ziglang c++ -target aarch64-macos.15.0 -x $language -std=c++20 -fobjc-arc -fblocks -O1 -Wall -Wextra \
    -Wpedantic -Wshadow -Wno-missing-field-initializers -Werror -isystem tests/apple_double/include \
    -isystem "$out/include" -DFMT_HEADER_ONLY -Isrc -Iinclude -c "$file" -o "$out/$(basename "$file").o" || status=1
done
exit $status
