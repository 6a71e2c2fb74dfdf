#!/bin/bash
# Holds the sources to their sizes: lines of at most 120 columns, functions of at most 60 lines in src/ and include/.
#     tests/layers/check_sizes.sh [FOLDER]      FOLDER: a tree like this one (default: this one)
# What cannot be broken may be longer: strings over several lines (R"(…)"), and in pages tables and sessions.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/../..}"
export LC_ALL=C  # bytes: the script counts characters itself, alike in every awk

files() {
  find . \( -name build -o -name '.?*' -o -name too_large \) -prune -o "$@" -type f -print | sed 's|^\./||' | sort
}
code=$(files \( -name '*.cpp' -o -name '*.h' -o -name '*.mm' -o -name '*.swift' -o -name '*.sh' -o -name '*.cmake' \
                -o -name CMakeLists.txt -o -name run -o -name test \))
pages=$(files -name '*.md')
functions=$(grep -E '^(src|include)/.*\.(cpp|h|mm)$' <<<"$code" || true)

# shellcheck disable=SC2086
faults=$(
  awk -v most=120 -f "$here/long_lines.awk" $code $pages
  awk -v most=60 -f "$here/long_functions.awk" $functions
)
[ -z "$faults" ] || {
  echo "$faults"
  exit 1
}
