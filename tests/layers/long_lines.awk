# Lines of more than `most` columns. Of a page (.md) tables and sessions (indented by 4) do not count, of code strings
# that go over several lines.
FNR == 1 { page = FILENAME ~ /\.md$/; string_end = ""; fenced = 0 }
page && /^ *```/ { fenced = !fenced }
page && (fenced || /^\|/ || /^    /) { next }
string_end != "" {
  if (index($0, string_end)) string_end = ""
  next
}
!page && match($0, /R"[A-Za-z_]*\(/) {
  end = ")" substr($0, RSTART + 2, RLENGTH - 3) "\""
  if (!index(substr($0, RSTART + RLENGTH), end)) string_end = end
}
{
  line = $0
  gsub(/[\200-\277]/, "", line)  # UTF-8: the bytes after a character's first
  if (length(line) > most) printf "%s:%d: %d columns; at most %d\n", FILENAME, FNR, length(line), most
}
