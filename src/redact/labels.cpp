#include "redact/labels.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace anemone::redact {

LabelScheme::LabelScheme(const std::vector<std::string>& labels) {
  bool ends = false;
  size_t outside = 0;
  for (const std::string& label : labels) {
    constexpr std::string_view kTags = "BIES";
    const size_t tag = label.size() > 2 && label[1] == '-' ? kTags.find(label[0]) : std::string_view::npos;
    if (tag == std::string_view::npos) {
      if (label != "O")
        throw errorf("a label of the model begins no span")
            .found(fmt::format("'{}'", label))
            .expected("O, or B-, I-, E- or S- before the name of a kind")
            .hint("redact takes models that label tokens, such as OpenAI's privacy filter");
      ++outside;
      tags_.push_back(Tag::outside);
      kinds_of_.push_back(-1);
      continue;
    }
    const std::string kind = label.substr(2);
    auto at = std::find(kinds_.begin(), kinds_.end(), kind);
    if (at == kinds_.end()) at = kinds_.insert(kinds_.end(), kind);
    tags_.push_back(static_cast<Tag>(tag + 1));
    kinds_of_.push_back(static_cast<int>(at - kinds_.begin()));
    ends |= tag >= 2;
  }
  if (outside != 1 || kinds_.empty())
    throw errorf("the labels of the model name no spans").found(fmt::format("{}", fmt::join(labels, ", ")));
  open_ended_ = !ends;
}

bool LabelScheme::may_follow(size_t before, size_t label) const {
  const bool same = kinds_of_[before] == kinds_of_[label];
  const bool inner = tags_[label] == Tag::inside || tags_[label] == Tag::end;
  const bool open = tags_[before] == Tag::begin || tags_[before] == Tag::inside;
  if (inner) return open && same;
  return !open || open_ended_;
}

std::string short_name(std::string_view kind) {
  if (kind.starts_with("private_")) kind.remove_prefix(8);
  if (kind == "account_number") kind = "account";
  std::string out;
  for (const char c : kind)
    out += std::isalnum(static_cast<unsigned char>(c))
               ? static_cast<char>(std::toupper(static_cast<unsigned char>(c)))
               : '_';
  return out;
}

}  // namespace anemone::redact
