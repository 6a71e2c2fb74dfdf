#!/bin/bash
# The table of docs/compress.md: what each form costs a model: size, signal to noise, perplexity on
# bench/texts/tide.txt, plain and calibrated on bench/texts/alice.txt.
#     bench/compress_table.sh ANEMONE MODEL.gguf [FOLDER]
# FOLDER (default: a temporary one) takes the bundles; they are removed one by one.
# TOKENS: how many tokens of the text perplexity is computed on (512). ROWS: a pattern of the forms to make (all).
set -euo pipefail
anemone=$1 model=$2
here=$(cd "$(dirname "$0")" && pwd)
work=${3:-$(mktemp -d)}
mkdir -p "$work"
base=$work/fp16
[ -d "$base" ] || "$anemone" convert "$model" -o "$base" --precision fp16 --context 512 --tokens 1,64 --quiet

perplexity() {
  "$anemone" perplexity "$1" --text "$here/texts/tide.txt" --context 512 --most "${TOKENS:-512}" --json |
    python3 -c 'import json, sys; print("%.2f" % json.load(sys.stdin)["perplexity"])'
}

# form FLAGS: compresses, and says size and signal to noise.
form() {
  rm -rf "$work/out"
  "$anemone" compress "$base" -o "$work/out" --json "$@" > "$work/report.json"
  python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
print("%d | %.1f" % (r["bytes_after"] // 1000000, r["sqnr_db"]))' "$work/report.json"
}

echo "| form | size, MB | SQNR, dB | perplexity | calibrated |"
echo "|---|---|---|---|---|"
bytes=$(find "$base" -type f -exec cat {} + | wc -c)
[[ fp16 =~ ${ROWS:-.} ]] && echo "| fp16 | $((bytes / 1000000)) | | $(perplexity "$base") | |"
while IFS='|' read -r name flags calibrated; do
  [ -n "$name" ] && [[ $name =~ ${ROWS:-.} ]] || continue
  # shellcheck disable=SC2086
  row=$(form $flags)
  plain=$(perplexity "$work/out")
  better=
  if [ -n "$calibrated" ]; then
    # shellcheck disable=SC2086
    form $flags --calibrate "$here/texts/alice.txt" > /dev/null
    better=$(perplexity "$work/out")
  fi
  echo "| $name | $row | $plain | $better |"
done << LIST
INT8 per channel|--quantize int8|
8-bit palette|--palettize 8 --fast|
6-bit palette|--palettize 6 --fast|yes
4-bit palette|--palettize 4 --fast|yes
4-bit palette, groups of 16|--palettize 4 --group 16 --fast|yes
3-bit palette|--palettize 3 --fast|yes
3-bit palette, groups of 16|--palettize 3 --group 16 --fast|yes
2-bit palette|--palettize 2 --fast|yes
2-bit palette, groups of 16|--palettize 2 --group 16 --fast|yes
int4 per channel|--quantize int4|yes
int4, blocks of 32|--quantize int4 --block 32|yes
40% pruned|--prune --sparsity 0.4|
LIST
