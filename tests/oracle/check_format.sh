#!/bin/bash
# All C++ files are as the pinned clang-format writes them; exit status 77, "skipped", where it is not installed.
#     check_format.sh          lists the files that differ
#     check_format.sh --fix    writes them anew
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.." || exit 2
mode=(--dry-run --Werror -ferror-limit=3)
[ "${1:-}" = --fix ] && mode=(-i)
find src include tests bench examples \( -name '*.cpp' -o -name '*.h' -o -name '*.mm' \) -print0 |
  xargs -0 "$here/with_venv.sh" -x clang-format "${mode[@]}"
status=$?
[ $status = 123 ] && [ ! -x .cache/venv/bin/clang-format ] && exit 77
exit $status
