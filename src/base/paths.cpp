#include "base/paths.h"

#include "base/error.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

// Without links, "." and "..", and without a slash at the end; what is not there keeps its name.
fs::path resolved(const fs::path& path) {
  std::error_code why;
  fs::path out = fs::weakly_canonical(path, why);
  if (why) out = fs::absolute(path, why).lexically_normal();
  return out.has_filename() || !out.has_relative_path() ? out : out.parent_path();
}

// Also under two names, as hard links and file systems that do not tell cases apart give them.
bool same(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return a == b || fs::equivalent(a, b, ignored);
}

bool lies_in(const fs::path& inner, const fs::path& outer) {
  for (fs::path at = inner; at.has_relative_path(); at = at.parent_path())
    if (same(at, outer)) return true;
  return same("/", outer);
}

}  // namespace

Error missing_path(const std::string& path) { return Error("there is no such file or folder").at(path); }

void expect_apart(const fs::path& input, const fs::path& output) {
  const fs::path in = resolved(input), out = resolved(output);
  if (same(in, out))
    throw Error("the output would overwrite the input").at(output.string()).hint("give it another name");
  if (lies_in(out, in))
    throw errorf("the output would be inside the input {}", input.string())
        .at(output.string())
        .hint("give it a place outside");
  if (lies_in(in, out))
    throw errorf("the output would overwrite a folder that holds the input {}", input.string())
        .at(output.string())
        .hint("give it another name");
}

}  // namespace anemone
