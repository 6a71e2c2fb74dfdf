#!/bin/bash
# Installs the library into a folder of the build, builds examples/ against it as a project of its own, and runs that.
#     install_test.sh BUILD_FOLDER SOURCE_FOLDER
set -euo pipefail
build=$1 source=$2
prefix=$build/install-test/prefix example=$build/install-test/example
rm -rf "$build/install-test"
fail() {
  echo "error: $*"
  exit 1
}

cmake --install "$build" --prefix "$prefix" >/dev/null
# Moved, so that nothing can lean on where it was installed.
mv "$prefix" "$prefix-moved"
prefix=$prefix-moved
if grep -rn -e "$build" -e "$source" "$prefix"/lib*/cmake "$prefix"/lib*/*/cmake 2>/dev/null; then
  fail "the package config names folders of this build"
fi
"$prefix/bin/anemone" --version
bash -n "$prefix/share/bash-completion/completions/anemone"
grep -q '^#compdef anemone' "$prefix/share/zsh/site-functions/_anemone"

log=$build/install-test/log
cmake -G Ninja -S "$source/examples" -B "$example" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release >"$log" ||
  fail "configuring the example: $(cat "$log")"
cmake --build "$example"
output=$("$example/recall" "$source/examples/recall/recall.mlpackage" "tide pool, tide p")
echo "$output"
grep -qx "remembers k_cache" <<<"$output" || fail "the states are not listed"
[ "$(tail -1 <<<"$output")" = "tide pool, tide p -> 'o'" ] || fail "the last line should expect an o"
"$prefix/bin/anemone" convert "$source/examples/demo_model/demo.gguf" -o "$build/install-test/demo" --context 64 --quiet
output=$("$example/generate" "$build/install-test/demo" "Once upon a time" 8)
echo "$output"
grep -q '^\[8 tokens, ended by: length\]$' <<<"$output" || fail "the example in C should make 8 tokens"

# The shared library shows what anemone.h declares, and nothing else; a language that loads it can use it.
shared=$(find "$prefix" -name libanemone_c.so -o -name libanemone_c.dylib)
sed -n 's/^ANEMONE_API .*\(anemone_[a-z0-9_]*\)(.*/\1/p' "$prefix/include/anemone/anemone.h" | sort \
  >"$build/install-test/declared"
if [ "$(uname)" = Linux ]; then
  nm -D --defined-only "$shared" | awk '{ print $3 }' | sort >"$build/install-test/shown"
  diff "$build/install-test/declared" "$build/install-test/shown" ||
    fail "libanemone_c shows other names than anemone.h"
fi
if command -v python3 >/dev/null; then
  output=$(python3 "$source/tests/install/load_shared.py" "$shared" "$build/install-test/demo")
  echo "$output"
  [ "$output" = "Once upon a time" ] || fail "Python should load libanemone_c and get the text back"
fi
status=0
"$example/recall" "$source/README.md" "a" 2>"$build/install-test/err" || status=$?
[ $status = 2 ] && grep -q '^error: ' "$build/install-test/err" || fail "a file that is no package should be refused"
