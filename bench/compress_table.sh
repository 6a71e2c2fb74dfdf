#!/bin/bash
# The table of docs/compress.md: what each form costs a model: size, signal to noise, perplexity on bench/texts/tide.txt.
#     bench/compress_table.sh ANEMONE MODEL.gguf [FOLDER]
# FOLDER (default: a temporary one) takes the bundles; they are removed one by one. Calibration is on bench/texts/alice.txt.
# TOKENS: how many tokens of the text perplexity is computed on (512).
set -euo pipefail
anemone=$1 model=$2
here=$(cd "$(dirname "$0")" && pwd)
work=${3:-$(mktemp -d)}
mkdir -p "$work"
base=$work/fp16
[ -d "$base" ] || "$anemone" convert "$model" -o "$base" --precision fp16 --context 512 --tokens 1,64 --quiet

perplexity() { "$anemone" perplexity "$1" --text "$here/texts/tide.txt" --context 512 --most "${TOKENS:-512}" --json | python3 -c '
import json, sys
print("%.2f" % json.load(sys.stdin)["perplexity"])'; }

echo "| form | size, MB | SQNR, dB | perplexity |"
echo "|---|---|---|---|"
bytes=$(du -sb "$base" | cut -f1)
echo "| fp16 | $((bytes / 1000000)) | | $(perplexity "$base") |"
while IFS='|' read -r name flags; do
  [ -n "$name" ] || continue
  rm -rf "$work/out"
  # shellcheck disable=SC2086
  "$anemone" compress "$base" -o "$work/out" --json $flags > "$work/report.json"
  row=$(python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
print("%d | %.1f" % (r["bytes_after"] // 1000000, r["sqnr_db"]))' "$work/report.json")
  echo "| $name | $row | $(perplexity "$work/out") |"
done << LIST
INT8 per channel|--quantize int8
8-bit palette|--palettize 8 --fast
6-bit palette|--palettize 6 --fast
4-bit palette|--palettize 4 --fast
3-bit palette|--palettize 3 --fast
2-bit palette|--palettize 2 --fast
4-bit palette, groups of 16|--palettize 4 --group 16 --fast
4-bit palette, groups of 16, calibrated|--palettize 4 --group 16 --fast --calibrate $here/texts/alice.txt --calibration-tokens 1024
int4, blocks of 32|--quantize int4 --block 32
40% pruned|--prune --sparsity 0.4
LIST
