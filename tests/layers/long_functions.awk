# Functions of more than `most` lines, from the first line of the signature to the closing brace. It reads what the
# formatter writes: a body opens at the end of a line and closes with a brace under the signature's first character.
function forget() { start = 0; name = "" }

FNR == 1 { inside = 0; string_end = ""; macro = 0; forget() }

# Strings over several lines, and macros.
string_end != "" {
  if (index($0, string_end)) string_end = ""
  next
}
macro || /^ *#/ { macro = /\\$/; next }

/^ *\/\// { next }

{
  line = $0
  sub(/ +\/\/ .*$/, "", line)
  if (match(line, /R"[A-Za-z_]*\(/)) {
    end = ")" substr(line, RSTART + 2, RLENGTH - 3) "\""
    if (!index(substr(line, RSTART + RLENGTH), end)) string_end = end
  }
  match(line, /^ */)
  indent = RLENGTH
}

inside {
  if (indent == depth && substr(line, indent + 1, 1) == "}") {
    lines = FNR - start + 1
    if (lines > most) printf "%s:%d: a function of %d lines; at most %d: %s\n", FILENAME, start, lines, most, name
    inside = 0
    forget()
  }
  next
}

line ~ /^ *$/ { forget(); next }

# What may become a signature, over one line or several.
{
  if (!start) {
    start = FNR
    depth = indent
    name = substr(line, indent + 1)
  }
  if (line ~ /[)}]( [a-zA-Z_]+| -> .*)* \{$/ && name !~ /^(namespace|class|struct|union|enum)/)
    inside = 1
  else if (line ~ /[;{}:]$/)
    forget()
}
