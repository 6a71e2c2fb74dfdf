#!/bin/bash
# The openai package of npm against `anemone serve`; exit status 77, "skipped", where node or the package cannot be had.
#     npm_client.sh path/to/anemone
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
skip() {
  echo "skipped: $*"
  exit 77
}
command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are not installed"
cache=$root/.cache/npm-openai
if [ ! -d "$cache/node_modules/openai" ]; then
  mkdir -p "$cache"
  (cd "$cache" && npm install --silent --no-fund --no-audit --no-save openai@6 >npm.log 2>&1) ||
    skip "npm cannot fetch openai"
fi
node -e "process.exit(+(process.versions.node.split('.')[0] < 20))" || skip "node is older than 20"
python=$root/.cache/venv/bin/python
[ -x "$python" ] || python=$(command -v python3) || skip "python is not installed"
folder=$(mktemp -d)
trap 'kill $pid 2>/dev/null; rm -rf "$folder"' EXIT
"$1" convert "$root/examples/demo_model/demo.gguf" -o "$folder/demo" --quiet --context 512 --tokens 1,32
"$1" serve "$folder/demo" --port 0 >"$folder/out" &
pid=$!
for _ in $(seq 600); do
  grep -q listening "$folder/out" && break
  sleep 0.1
done
cp "$here/npm_client.mjs" "$cache/client.mjs"
node "$cache/client.mjs" "$(sed -n 's/listening on //p' "$folder/out")"
