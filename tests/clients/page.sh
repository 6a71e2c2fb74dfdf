#!/bin/bash
# The page of `anemone serve` in a real Chromium; exit status 77, "skipped", where that or node is absent.
#     page.sh path/to/anemone
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
skip() {
  echo "skipped: $*"
  exit 77
}
browser=${ANEMONE_BROWSER:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
[ -n "$browser" ] || skip "no Chromium is installed"
command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are not installed"
cache=$root/.cache/npm-playwright
if [ ! -d "$cache/node_modules/playwright-core" ]; then
  mkdir -p "$cache"
  (cd "$cache" && npm install --silent --no-fund --no-audit --no-save playwright-core@1 >npm.log 2>&1) ||
    skip "npm cannot fetch playwright-core"
fi
folder=$(mktemp -d)
trap 'kill $pid 2>/dev/null; rm -rf "$folder"' EXIT
"$1" convert "$root/examples/demo_model/demo.gguf" -o "$folder/demo" --quiet --context 512 --tokens 1,32
"$1" serve "$folder/demo" --port 0 >"$folder/out" &
pid=$!
for _ in $(seq 600); do
  grep -q listening "$folder/out" && break
  sleep 0.1
done
cp "$here/page.mjs" "$cache/page.mjs"
export BROWSER=$browser AXE=${ANEMONE_AXE:-$root/.cache/axe/axe.min.js}
node "$cache/page.mjs" "$(sed -n 's/listening on //p' "$folder/out")"
