#!/bin/bash
# Makes the model from the fetched sources: ./train.sh SOURCES WORK DATA
# SOURCES: the folder of fetch_sources.sh. WORK: an empty folder; gets inputs/, tokenizer/, shards/, checkpoint/.
# DATA: the folder of the two test sets. Wants the packages of requirements.txt, torch, a GPU and 16 cores.
# SEED, DOCUMENT_SEED, STEPS, SHARDS, BATCH and DEVICE change the run:
# DEVICE=cpu STEPS=2 SHARDS=1 BATCH=2 tries all parts.
set -euo pipefail
sources=$(realpath "${1:?usage: train.sh SOURCES WORK DATA}")
mkdir -p "${2:?usage: train.sh SOURCES WORK DATA}"
work=$(realpath "$2")
data=$(realpath "${3:?usage: train.sh SOURCES WORK DATA}")
seed=${SEED:-3} documents=${DOCUMENT_SEED:-2} steps=${STEPS:-7500} shards=${SHARDS:-2200}
batch=${BATCH:-256} device=${DEVICE:-cuda}
cd "$(dirname "$0")"

for part in pools sentences labelled; do
  [ -f "$work/inputs/$part.json.gz" ] || python3 -m "privacy_small.inputs.build_$part" "$sources" "$work/inputs"
done
[ -f "$work/tokenizer/tokenizer.json" ] || python3 -m privacy_small.tokenizer "$work/inputs" "$work/tokenizer"

OMP_NUM_THREADS=1 nice python3 -m privacy_small.shards "$work/inputs" "$work/tokenizer/tokenizer.json" "$work/shards" \
  --seed "$documents" --count "$shards" &
generator=$!
trap 'kill $generator 2>/dev/null || true' EXIT
compile=()
[ "$device" = cpu ] || compile=(--compile)
python3 -m privacy_small.train "$work/shards" "$work/checkpoint" --seed "$seed" --steps "$steps" --shards "$shards" \
  --batch "$batch" --device "$device" ${compile[@]+"${compile[@]}"}
wait $generator
cp "$work"/tokenizer/*.json "$work/checkpoint/"
export OMP_NUM_THREADS=1
python3 -m privacy_small.score --sets faker,presidio --data "$data" --inputs "$work/inputs" \
  "$work/checkpoint" "$work/checkpoint:int8" rules
python3 -m privacy_small.score --sets held,real,ewt,wnut,tweets --data "$data" --inputs "$work/inputs" \
  "$work/checkpoint" rules
