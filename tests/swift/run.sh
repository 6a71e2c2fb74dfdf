#!/bin/bash
# Builds the Swift package on Linux and runs its tests, against a stand-in for Core ML.
#     tests/swift/run.sh BUILD_FOLDER [ARGUMENTS FOR swift test …]
# Swift is the one on the PATH, or the one in the folder ANEMONE_SWIFT_ROOT (make_chroot.sh makes such a folder; root
# only). Exit status 77, "skipped", where there is neither. The tests read bundles that the command converts here, and
# the tokens that `anemone run` makes of them.
set -euo pipefail
build=$(realpath "${1:?usage: run.sh BUILD_FOLDER [ARGUMENTS …]}")
shift
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
root=${ANEMONE_SWIFT_ROOT:-}
if [ -z "$root" ] && ! command -v swift >/dev/null; then
  echo "skipped: Swift is not installed; tests/swift/make_chroot.sh puts one into a folder"
  exit 77
fi
if [ -n "$root" ] && [ ! -L "$root/usr/bin/swift" ] && [ ! -x "$root/usr/bin/swift" ]; then  # a link inside of it
  echo "error: there is no Swift in $root: tests/swift/make_chroot.sh $root" >&2
  exit 2
fi
work=$build/swift-test
mkdir -p "$work/lib" "$work/home" "$work/tmp"
cmake --build "$build" --target anemone_c anemone_stand_in anemone_cli >"$work/build.log" || {
  cat "$work/build.log"
  exit 1
}
"$here/make_cases.sh" "$build/anemone" "$work/cases"

# The libraries of this build and what they need; a Debian in a folder has others, or other versions.
cp -f "$build"/src/libanemone_c.so* "$build/tests/swift/libanemone_stand_in.so" "$work/lib"
ldd "$work"/lib/libanemone_*.so | awk '$3 ~ "^/" { print $3 }' | sort -u |
  grep -vE '/(libc|libm|libdl|libpthread|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' | xargs -r cp -fLt "$work/lib"

swift_test() {
  cat <<SCRIPT
export HOME='$work/home' TMPDIR='$work/tmp' LD_LIBRARY_PATH='$work/lib' ANEMONE_KIT_CASES='$work/cases'
cd '$source/swift'
swift test -c release -Xswiftc -enable-testing --scratch-path '$work/package' -Xcc -I'$source/include' \\
  -Xlinker -L'$work/lib' $*
SCRIPT
}
if [ -z "$root" ]; then
  swift_test "$@" | bash -eu
else
  # A mount namespace of its own: nothing is left mounted, however this ends.
  swift_test "$@" >"$work/inside.sh"
  unshare -m bash -euc "mkdir -p '$root$source' '$root$build'
    mount --bind '$source' '$root$source'
    mount --bind '$build' '$root$build'
    mount -t proc proc '$root/proc'
    chroot '$root' bash -eu '$work/inside.sh'"
fi
