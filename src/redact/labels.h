// LabelScheme: the labels of a token classifier as kinds of spans: "B-private_person" begins one of private_person.
//     LabelScheme scheme(info.labels);
//     scheme.kinds()[scheme.kind(17)];                       // "private_person"
// Labels are O, and B, I, E, S (begin, inside, end, single) of each kind; or B and I alone, where a span ends before
// whatever is no I of its kind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace anemone::redact {

enum class Tag : uint8_t { outside, begin, inside, end, single };

class LabelScheme {
 public:
  // Error for labels of another form.
  explicit LabelScheme(const std::vector<std::string>& labels);

  size_t size() const { return tags_.size(); }
  Tag tag(size_t label) const { return tags_[label]; }
  int kind(size_t label) const { return kinds_of_[label]; }  // -1: none
  const std::vector<std::string>& kinds() const { return kinds_; }
  // B and I alone.
  bool open_ended() const { return open_ended_; }
  // What may begin a text, follow a label, and end a text.
  bool may_start(size_t label) const { return tags_[label] != Tag::inside && tags_[label] != Tag::end; }
  bool may_follow(size_t before, size_t label) const;
  bool may_finish(size_t label) const {
    return open_ended_ || (tags_[label] != Tag::begin && tags_[label] != Tag::inside);
  }

 private:
  std::vector<Tag> tags_;
  std::vector<int> kinds_of_;
  std::vector<std::string> kinds_;
  bool open_ended_ = false;
};

// "PERSON" of "private_person": what stands in a redacted text.
std::string short_name(std::string_view kind);

}  // namespace anemone::redact
