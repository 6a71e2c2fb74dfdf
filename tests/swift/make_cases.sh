#!/bin/bash
# Bundles of many kinds and the tokens that `anemone run` makes of them, for the tests of the Swift package:
#     tests/swift/make_cases.sh ANEMONE FOLDER
# A case is FOLDER/NAME/bundle with FOLDER/NAME/expected.json (`anemone run --json`, fp16) and prompt.json (its ids).
# Models of the shared data (ANEMONE_DATA) come in where they are.
set -euo pipefail
anemone=$1 folder=$2
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
demo=$source/examples/demo_model/demo.gguf
text="In winter the lighthouse keeper and his old dog"

stamp=$(cksum <"$anemone")$(cksum <"$0")
[ "$(cat "$folder/stamp" 2>/dev/null)" != "$stamp" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder"

# make NAME MODEL PROMPT TOKENS [FLAGS OF convert …]
make() {
  local name=$1 model=$2 prompt=$3 tokens=$4
  shift 4
  mkdir -p "$folder/$name"
  "$anemone" convert "$model" -o "$folder/$name/bundle" --quiet "$@" >/dev/null || return
  [ "$tokens" != 0 ] || return 0
  "$anemone" tokenize "$folder/$name/bundle" "$prompt" --add-special --json >"$folder/$name/prompt.json" || return
  "$anemone" run "$folder/$name/bundle" "$prompt" --raw --json --backend cpu --arith fp16 --max-new "$tokens" --quiet \
    --ignore-eos >"$folder/$name/expected.json"
}

make state $demo "$text" 40 --context 64 --tokens 1
make functions $demo "$text" 40 --context 64 --tokens 1,4,16
make range $demo "$text" 40 --context 64 --tokens 1-8
make tiers $demo "$text" 60 --context 16,32,96 --tokens 1,4
make packed $demo "$text" 40 --context 64 --tokens 1,4 --kv packed
make io $demo "$text" 40 --context 32,64 --tokens 1,4 --kv io
make slice $demo "$text" 40 --context 64 --tokens 1,4 --kv-write slice
make both $demo "$text" 40 --context 64 --tokens 1,4 --kv-write both
make whole $demo "$text" 40 --context 64 --tokens 1,4 --whole
make argmax $demo "$text" 40 --context 64 --tokens 1,4 --argmax-output --head-rows 700
make shards $demo "$text" 40 --context 64 --tokens 1,4 --shard-mb 1 --head-rows 700
make embedding_int8 $demo "$text" 30 --context 64 --tokens 1,4 --embedding int8
make embedding_head $demo "$text" 30 --context 64 --tokens 1,4 --embedding head

"$anemone" run "$folder/functions/bundle" "$text" --raw --json --backend cpu --arith fp16 --max-new 40 --quiet \
  --temperature 0.8 --top-p 0.95 --seed 7 --repetition-penalty 1.1 >"$folder/functions/sampled.json"

# Other families: windows, recurrent states, experts.
IFS=: read -ra roots <<<"${ANEMONE_DATA-$source/../shared/data:$source/../shared/data_next}"
for root in "${roots[@]}"; do
  for model in "$root"/models/*/; do
    name=$(basename "$model")
    [ ! -e "$folder/$name" ] || continue
    if make "$name" "$model" "$text" 24 --context 16,64 --tokens 1,4 2>"$folder/$name.log"; then
      rm -f "$folder/$name.log"
      # With experts: the way that runs, whatever the plan prefers; and one that is refused, so no tokens are expected.
      if grep -q '"experts":' "$folder/$name/bundle/bundle.json"; then
        rm -r "${folder:?}/$name"
        make "$name" "$model" "$text" 24 --context 16,64 --tokens 1,4 --experts all
        make "$name.host" "$model" "" 0 --context 64 --tokens 1 --experts host
      fi
    elif grep -q '"kind": "generate"' "$folder/$name/bundle/bundle.json" 2>/dev/null; then
      echo "error: $model was converted, and then: $(tail -1 "$folder/$name.log")" >&2
      exit 1
    else
      rm -rf "${folder:?}/$name"  # no checkpoint, none of a known family, or none that generates text
    fi
  done
done
echo "$stamp" >"$folder/stamp"
