// Damage of files: flipped bytes and bits, cut files, a file of another bundle. Hashes do not fit then. The same flips
// once more with hashes that fit, as if the converter had written them.
#include "base/error.h"
#include "mutation/bytes.h"
#include "mutation/graph.h"
#include "support/temp_folder.h"

namespace anemone::mutation {
namespace {

constexpr int kPlacesPerFile = 8;

class Sites {
 public:
  Sites(const Subject& subject, Rng& rng) : subject_(subject), rng_(rng) {}

  std::vector<Mutation> find() {
    for (const std::string& file : subject_.files) {
      file_ = file;
      size_ = static_cast<int64_t>(fs::file_size(subject_.bundle / file));
      if (size_ == 0) continue;
      for (int i = 0; i < kPlacesPerFile; ++i) flips();
      damage();
    }
    return std::move(out_);
  }

 private:
  using Edit = std::function<void(std::string&)>;

  Mutation& add(const std::string& kind, const std::string& where, const Edit& change) {
    Mutation m;
    m.group = "files";
    m.kind = kind;
    m.place = file_ + " " + where;
    m.expected = {{file_, fs::path(file_).filename().string(), fs::path(file_).begin()->string()}, 6};
    m.counts = Counts::any_bit;
    m.rehash = false;
    m.apply = [file = file_, change](Workspace& w) { w.edit_bytes(file, change); };
    out_.push_back(std::move(m));
    return out_.back();
  }

  // With hashes that fit nobody can tell which file it was: only what the bytes mean can be named.
  void add_fitting(const std::string& kind, size_t at, const std::string& where, const Edit& change) {
    if (file_ == kBundleFile) return;  // it has no hash
    Mutation& m = add(kind + ", hash fits", where, change);
    m.counts = Counts::results;
    m.rehash = true;
    m.expected.places.insert(m.expected.places.end(), {"tokenizer", "token", "template", "embedding"});
    if (file_.ends_with("model.mlmodel"))
      m.expected.places.insert(m.expected.places.end(), {"layer", "head", "logits", "cache", "chunks"});
    for (std::string& name : weight_names_at(subject_, file_, at))
      m.expected.places.push_back(std::move(name));
  }

  void flips() {
    const auto at = static_cast<size_t>(rng_.below(size_));
    const int bit = static_cast<int>(rng_.below(8));
    const auto by = static_cast<char>(1 + rng_.below(255));
    const std::string byte = fmt::format("byte {}", at), one = fmt::format("byte {} bit {}", at, bit);
    const Edit flip = [=](std::string& b) { flip_bit(b, at, bit); };
    const Edit change = [=](std::string& b) { b[at] = static_cast<char>(b[at] ^ by); };
    add("bit flipped", one, flip);
    add("byte changed", byte, change);
    add_fitting("bit flipped", at, one, flip);
    add_fitting("byte changed", at, byte, change);
  }

  void damage() {
    add("cut short", "", [](std::string& b) { b.resize(b.size() - 1 - b.size() / 7); });
    add("one byte more", "", [](std::string& b) { b += '\0'; });
    const size_t page = static_cast<size_t>(rng_.below(size_)) / 4096 * 4096;
    add("page zeroed", fmt::format("byte {}", page),
        [=](std::string& b) { zero(b, {page, std::min(page + 4096, b.size())}); });
    // Two files of one kind mixed up.
    for (const std::string& other : subject_.files)
      if (other != file_ && fs::path(other).filename() == fs::path(file_).filename())
        add("taken from another package", "of " + other,
            [from = subject_.bundle / other](std::string& b) { b = slurp(from); });
  }

  const Subject& subject_;
  Rng& rng_;
  std::string file_;
  int64_t size_ = 0;
  std::vector<Mutation> out_;
};

}  // namespace

std::vector<Mutation> file_sites(const Subject& subject, Rng& rng) { return Sites(subject, rng).find(); }

}  // namespace anemone::mutation
