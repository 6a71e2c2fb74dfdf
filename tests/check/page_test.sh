#!/usr/bin/env bash
# Opens the pages of `anemone check --html` in a headless browser, at the width of a phone and of a desktop, uses them
# as a reader would and looks at the result: no script errors, nothing wider than the window, the report's own numbers.
#     page_test.sh ANEMONE PACKAGE [SHOTS]      SHOTS: a folder that keeps the screenshots
# Says "skipped" where there is no browser.
set -euo pipefail
anemone=$1 package=$2 shots=${3:-}
browser=
for name in "${ANEMONE_BROWSER:-}" chromium chromium-browser google-chrome google-chrome-stable; do
  if [ -n "$name" ] && command -v "$name" > /dev/null; then browser=$name; break; fi
done
if [ -z "$browser" ]; then
  echo "skipped: no chromium here"
  exit 0
fi
limit=
if command -v timeout > /dev/null; then limit="timeout 120"; fi  # a Mac has none
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What a reader does: opens everything, searches, filters, asks for more. The findings go into the page's own text.
cat > "$work/reader.html" << 'EOF'
<script>
(async () => {
  const wait = () => new Promise((done) => setTimeout(done, 50));
  for (const d of document.querySelectorAll("details")) d.open = true;
  await wait();
  const rows = () => document.querySelectorAll("tbody tr").length;
  const before = rows();
  const first = document.querySelector("input[type=search]");
  first.value = "no such operation";
  first.oninput();
  const none = rows();
  first.value = "";
  first.oninput();
  for (const b of document.querySelectorAll("button")) if (!b.hidden) b.onclick();
  await wait();
  const wide = document.documentElement.scrollWidth, window_width = document.documentElement.clientWidth;
  const result = document.createElement("pre");
  result.id = "result";
  result.textContent = ["errors=" + errors.length, "rows=" + (before > none), "more=" + (rows() >= before),
    "fits=" + (wide <= window_width), "findings=" + document.querySelectorAll("details.finding").length,
    "operations=" + report.packages.reduce((n, p) => n + p.functions.reduce((m, f) => m + f.operations.length, 0), 0),
    "colour=" + getComputedStyle(document.body).backgroundColor].join("\n") + "\n" + errors.join("\n");
  document.body.append(result);
})();
</script>
EOF

failed=0
expect() {  # where text pattern
  if ! grep -q -- "$3" <<< "$2"; then
    echo "FAILED: $1: no '$3' in:"
    echo "$2"
    failed=1
  fi
}

"$anemone" check "$package" --quiet --html "$work/report.html" 2> /dev/null || [ $? = 1 ]
operations=$("$anemone" check "$package" --json 2> /dev/null | grep -c '"chosen"' || true)
# The errors of the page's script are caught from its first line on.
sed -e 's|<body>|<body><script>const errors = []; window.onerror = (m) => { errors.push(m); };</script>|' \
    "$work/report.html" > "$work/watched.html"
cat "$work/watched.html" "$work/reader.html" > "$work/used.html"
run() {  # width height extra arguments
  $limit "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=4000 \
    --user-data-dir="$work/profile" --window-size="$1,$2" "${@:3}" "file://$work/used.html" 2> /dev/null
}
for size in 390x844 1280x900; do
  width=${size%x*} height=${size#*x}
  result=$(run "$width" "$height" --dump-dom | sed -n '/<pre id="result">/,/<\/pre>/p')
  expect "$size" "$result" 'errors=0'
  expect "$size" "$result" 'rows=true'
  expect "$size" "$result" 'more=true'
  expect "$size" "$result" 'fits=true'
  expect "$size" "$result" "operations=$operations"
  if [ -n "$shots" ]; then
    mkdir -p "$shots"
    run "$width" 2400 --screenshot="$shots/check_$width.png" > /dev/null
  fi
  echo "$size: $(sed 's/<[^>]*>//g' <<< "$result" | tr '\n' ' ')"
done
exit $failed
