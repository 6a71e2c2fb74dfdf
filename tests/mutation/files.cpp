// Damage behind the converter's back: flipped bytes and bits, cut files, a file of another bundle. Hashes do not fit.
#include "base/error.h"
#include "mutation/bytes.h"
#include "mutation/mutation.h"
#include "support/temp_folder.h"

namespace anemone::mutation {
namespace {

constexpr int kPlacesPerFile = 8;

}  // namespace

std::vector<Mutation> file_sites(const Subject& subject, Rng& rng) {
  std::vector<Mutation> out;
  const auto add = [&](const std::string& kind, const std::string& file, const std::string& where,
                       const std::function<void(std::string&)>& change) {
    Mutation m;
    m.group = "files";
    m.kind = kind;
    m.place = file + " " + where;
    m.expected = {{file, fs::path(file).filename().string(), fs::path(file).begin()->string()}, 6};
    m.counts = Counts::any_bit;
    m.rehash = false;
    m.apply = [=](Workspace& w) { w.edit_bytes(file, change); };
    out.push_back(std::move(m));
  };
  for (const std::string& file : subject.files) {
    const auto size = static_cast<int64_t>(fs::file_size(subject.bundle / file));
    if (size == 0) continue;
    for (int i = 0; i < kPlacesPerFile; ++i) {
      const auto at = static_cast<size_t>(rng.below(size));
      const int bit = static_cast<int>(rng.below(8));
      const auto by = static_cast<char>(1 + rng.below(255));
      add("bit flipped", file, fmt::format("byte {} bit {}", at, bit),
          [=](std::string& b) { flip_bit(b, at, bit); });
      add("byte changed", file, fmt::format("byte {}", at),
          [=](std::string& b) { b[at] = static_cast<char>(b[at] ^ by); });
    }
    add("cut short", file, "", [](std::string& b) { b.resize(b.size() - 1 - b.size() / 7); });
    add("one byte more", file, "", [](std::string& b) { b += '\0'; });
    const size_t page = static_cast<size_t>(rng.below(size)) / 4096 * 4096;
    add("page zeroed", file, fmt::format("byte {}", page),
        [=](std::string& b) { zero(b, {page, std::min(page + 4096, b.size())}); });
    // Two files of one kind mixed up.
    for (const std::string& other : subject.files)
      if (other != file && fs::path(other).filename() == fs::path(file).filename())
        add("taken from another package", file, "of " + other,
            [from = subject.bundle / other](std::string& b) { b = slurp(from); });
  }
  return out;
}

}  // namespace anemone::mutation
