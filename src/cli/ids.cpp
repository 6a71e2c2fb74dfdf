#include "cli/ids.h"

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/npy.h"
#include "bundle/bundle_info.h"

namespace anemone::cli {

std::vector<int32_t> read_ids(const std::filesystem::path& path) {
  const Array array = read_npy(path);
  std::vector<int32_t> out;
  for (const int64_t id : array.to_int()) {
    if (id < 0 || id > INT32_MAX)
      throw errorf("a token id is outside the vocabulary").at(path.string()).found(fmt::format("{}", id));
    out.push_back(static_cast<int32_t>(id));
  }
  if (out.empty()) throw errorf("there are no ids").at(path.string());
  return out;
}

TokenTable read_token_table(const std::filesystem::path& path, const char* what, int64_t most) {
  const Array array = read_npy(path);
  TokenTable out{array.shape(), {}};
  const std::vector<int64_t> values = array.to_int();
  if (out.shape.empty() || out.shape.size() > 2 || values.empty())
    throw errorf("{}s are [tokens] or [texts, tokens]", what)
        .at(path.string())
        .found(fmt::format("{} axes, {} numbers", out.shape.size(), values.size()));
  for (const int64_t value : values) {
    if (value < 0 || value > most)
      throw errorf("a number is no {}", what)
          .at(path.string())
          .found(fmt::format("{} in place {}", value, out.values.size()))
          .expected(fmt::format("0 to {}", most));
    out.values.push_back(static_cast<int32_t>(value));
  }
  return out;
}

std::shared_ptr<const Tokenizer> tokenizer_of(const std::filesystem::path& source) {
  if (!is_bundle(source)) return Tokenizer::load(source);
  const BundleInfo info = BundleInfo::read(source);
  if (info.tokenizer.empty())
    throw errorf("has no tokenizer")
        .at(source.string())
        .hint("convert a checkpoint that comes with one, or give token ids");
  return Tokenizer::load(source / info.tokenizer);
}

std::vector<int32_t> text_ids(const std::filesystem::path& source, const std::filesystem::path& file) {
  const auto text = MappedFile::open(file);
  std::vector<int32_t> ids = tokenizer_of(source)->encode(text->text(), {.add_special = true});
  if (ids.empty()) throw errorf("the text has no tokens").at(file.string());
  return ids;
}

}  // namespace anemone::cli
