#include "predict/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace anemone {
namespace {

std::string quoted(const std::string& text) { return json_text(nlohmann::json(text)); }

const char* level_name(Timeline::Level level) {
  static constexpr const char* kNames[] = {"tokens", "call", "step", "part"};
  return kNames[static_cast<size_t>(level)];
}

}  // namespace

uint32_t Timeline::word(std::string_view text) {
  if (const auto it = numbers_.find(text); it != numbers_.end()) return it->second;
  const auto number = static_cast<uint32_t>(words_.size());
  words_.emplace_back(text);
  numbers_.emplace(text, number);
  return number;
}

void Timeline::add(Level level, std::string_view kind, std::string_view name, int64_t begin_ns,
                   int64_t end_ns) {
  std::lock_guard lock(mutex_);
  push(level, kind, name, begin_ns, end_ns);
}

void Timeline::push(Level level, std::string_view kind, std::string_view name, int64_t begin_ns,
                    int64_t end_ns) {
  const auto thread =
      threads_.try_emplace(std::this_thread::get_id(), static_cast<uint32_t>(threads_.size())).first->second;
  slices_.push_back({level, word(kind), word(name), thread, begin_ns, end_ns});
}

void Timeline::begin_step(std::string_view kind) {
  std::lock_guard lock(mutex_);
  step_ = kind;
}

void Timeline::add_part(int64_t begin_ns, int64_t end_ns) {
  std::lock_guard lock(mutex_);
  push(Level::part, step_, "a part", begin_ns, end_ns);
}

std::vector<Timeline::Total> Timeline::totals() const {
  std::lock_guard lock(mutex_);
  std::map<std::pair<uint32_t, uint32_t>, Total> sums;
  for (const Slice& s : slices_) {
    if (s.level != Level::step) continue;
    Total& total = sums[{s.kind, s.name}];
    ++total.count;
    total.ms += 1e-6 * static_cast<double>(s.end_ns - s.begin_ns);
  }
  std::vector<Total> out;
  for (auto& [key, total] : sums) {
    total.kind = words_[key.first];
    total.name = words_[key.second];
    out.push_back(std::move(total));
  }
  std::stable_sort(out.begin(), out.end(), [](const Total& a, const Total& b) { return a.ms > b.ms; });
  return out;
}

double Timeline::calls_ms() const {
  std::lock_guard lock(mutex_);
  double ms = 0;
  for (const Slice& s : slices_)
    if (s.level == Level::call) ms += 1e-6 * static_cast<double>(s.end_ns - s.begin_ns);
  return ms;
}

std::string Timeline::trace() const {
  std::lock_guard lock(mutex_);
  int64_t start = INT64_MAX;
  for (const Slice& s : slices_) start = std::min(start, s.begin_ns);
  std::string out = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  out += R"({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "anemone"}})";
  for (const auto& [id, thread] : threads_)
    out += fmt::format(
        ",\n{{\"ph\": \"M\", \"pid\": 1, \"tid\": {}, \"name\": \"thread_name\", \"args\": {{\"name\": "
        "\"thread {}\"}}}}",
        thread + 1, thread + 1);
  // Slices that begin at the same time: the outer one first.
  std::vector<const Slice*> sorted;
  for (const Slice& s : slices_) sorted.push_back(&s);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Slice* a, const Slice* b) {
    return a->begin_ns != b->begin_ns ? a->begin_ns < b->begin_ns : a->level < b->level;
  });
  for (const Slice* s : sorted)
    out += fmt::format(
        ",\n{{\"ph\": \"X\", \"pid\": 1, \"tid\": {}, \"ts\": {:.3f}, \"dur\": {:.3f}, \"cat\": \"{}\", "
        "\"name\": {}, "
        "\"args\": {{\"name\": {}}}}}",
        s->thread + 1, 1e-3 * static_cast<double>(s->begin_ns - start),
        1e-3 * static_cast<double>(s->end_ns - s->begin_ns), level_name(s->level), quoted(words_[s->kind]),
        quoted(words_[s->name]));
  return out + "\n]}\n";
}

void Timeline::clear() {
  std::lock_guard lock(mutex_);
  slices_.clear();
}

}  // namespace anemone
