#!/bin/bash
# Fetches axe-core, which the browser tests ask whether everybody can use our pages, into .cache/axe with npm.
#     tools/axe.sh        exit status 0: .cache/axe/axe.min.js is there; 1: it could not be fetched
set -euo pipefail
cd "$(dirname "$0")/.."
version=4.14.0 folder=.cache/axe
[ "$(cat "$folder/version" 2> /dev/null)" = "$version" ] && exit 0
command -v npm > /dev/null || exit 1
rm -rf "$folder"
mkdir -p "$folder"
if (cd "$folder" && npm pack --silent "axe-core@$version" > /dev/null 2>&1 && tar xzf "axe-core-$version.tgz"); then
  mv "$folder/package/axe.min.js" "$folder/package/LICENSE" "$folder/"
  rm -rf "$folder/package" "$folder/axe-core-$version.tgz"
  echo "$version" > "$folder/version"
else
  rm -rf "$folder"
  exit 1
fi
