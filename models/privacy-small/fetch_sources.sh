#!/bin/bash
# Fetches the public texts and lists that the recipe needs, each at a fixed commit (about 60 MB):
#     ./fetch_sources.sh FOLDER
# Who made them and under which licence: NOTICE.md. PRIVACY_SMALL_GIT names another host or folder to clone from.
set -euo pipefail
folder=${1:?usage: fetch_sources.sh FOLDER}
base=${PRIVACY_SMALL_GIT:-https://github.com}

# fetch OWNER/NAME COMMIT PATTERN...   (patterns as in .gitignore: what to check out)
fetch() {
  local repository=$1 commit=$2 target
  shift 2
  target=$folder/${repository#*/}
  [ "$(git -C "$target" rev-parse -q --verify HEAD 2>/dev/null || true)" != "$commit" ] || return 0
  rm -rf "$target"
  git init -q "$target"
  git -C "$target" remote add origin "$base/$repository"
  git -C "$target" sparse-checkout set --no-cone "$@"
  git -C "$target" fetch -q --depth 1 --filter=blob:none origin "$commit"
  git -C "$target" checkout -q FETCH_HEAD
  echo "$repository: $(git -C "$target" rev-parse HEAD)"
}

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
languages=(en de fr es it pt nl sv-SE da nb-NO fi pl cs tr ru uk el ro hu zh-CN zh-TW ja ko)
# Left out: text that was taken from Wikipedia, the European Parliament and a library, two very large files, and lists
# of French addresses (they would be addresses without a label).
fetch common-voice/common-voice bc2cc85e101dc70332aa1e55e89f547ab6874b05 \
  "${languages[@]/#//server/data/}" '!wiki*' '!*europarl*' '!ukrlib*' '!addresses*' \
  '!/server/data/fr/sentence-collector.txt' '!/server/data/ru/sentence-collector.txt'
fetch sigpwned/popular-names-by-country-dataset eb62e13d4d62dd96cdfae79d293a02066352205f '/*.csv'
fetch datasets/nasdaq-listings 31d3809cc090d5a535ecc3db2b26904cbb2ac84d '/data/nasdaq-listed-symbols.csv'
fetch leondz/emerging_entities_17 e52a2d2a71ac1a051ca2d532eef28653c5c02603 \
  /wnut17train.conll /emerging.dev.conll /emerging.test.annotated
fetch GateNLP/broad_twitter_corpus 0c45ef7b1924a6b8115bceab388781590b1b553a '/*.conll'
# For a score only, never for training: persons in web text.
fetch UniversalNER/UNER_English-EWT 8ed072de2fd24022cc62458997fe96a8fe191ea4 /en_ewt-ud-test.iob2
