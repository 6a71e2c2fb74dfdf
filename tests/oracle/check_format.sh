#!/bin/bash
# All C++ files are as the pinned clang-format writes them; exit status 77, "skipped", where it is not installed.
#     check_format.sh          lists the files that differ
#     check_format.sh --fix    writes them anew
cd "$(dirname "$0")/../.." || exit 2
formatter=.cache/venv/bin/clang-format
if [ ! -x $formatter ]; then
  echo "skipped: no $formatter; tools/venv.sh installs it where PyPI can be reached"
  exit 77
fi
files=()
while IFS= read -r file; do files+=("$file"); done < <(
  find src include tests bench examples \( -name '*.cpp' -o -name '*.h' -o -name '*.mm' \) | sort)
if [ "${1:-}" = --fix ]; then
  exec $formatter -i "${files[@]}"
fi
if faults=$($formatter --dry-run --Werror "${files[@]}" 2>&1); then exit 0; fi
echo "these differ; tests/oracle/check_format.sh --fix writes them anew:"
sed -n 's/^\([^: ]*\):[0-9]*:[0-9]*: .*/  \1/p' <<<"$faults" | sort -u
exit 1
