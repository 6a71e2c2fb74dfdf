#include "families/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace anemone {
namespace {

// Where each slice's parts are.
std::map<int64_t, std::vector<size_t>> by_slice(std::span<const StoredPart> parts) {
  std::map<int64_t, std::vector<size_t>> out;
  for (size_t i = 0; i < parts.size(); ++i) out[parts[i].slice].push_back(i);
  return out;
}

StoredPart bounds(std::span<const StoredPart> parts) {
  StoredPart all;
  for (const StoredPart& p : parts) {
    all.slice = std::max(all.slice, p.slice);
    all.line_end = std::max(all.line_end, p.line_end);
    all.end = std::max(all.end, p.end);
  }
  return all;
}

// The parts' borders cut a slice into cells, each of which is taken as a whole or not at all.
std::optional<StoredPart> gap_in_slice(std::span<const StoredPart> parts, const std::vector<size_t>& own,
                                       const StoredPart& whole) {
  std::set<int64_t> lines = {0, whole.line_end}, elements = {0, whole.end};
  for (const size_t i : own) {
    lines.insert({parts[i].line_begin, parts[i].line_end});
    elements.insert({parts[i].begin, parts[i].end});
  }
  for (auto line = lines.begin(); std::next(line) != lines.end(); ++line)
    for (auto element = elements.begin(); std::next(element) != elements.end(); ++element) {
      const StoredPart cell{whole.slice, *line, *std::next(line), *element, *std::next(element)};
      if (std::none_of(own.begin(), own.end(), [&](size_t i) { return parts[i].overlaps(cell); }))
        return cell;
    }
  return std::nullopt;
}

}  // namespace

bool StoredPart::overlaps(const StoredPart& other) const {
  return slice == other.slice && line_begin < other.line_end && other.line_begin < line_end &&
         begin < other.end && other.begin < end;
}

std::string StoredPart::text(bool is_vector) const {
  std::string out = slice < 0 ? "[" : fmt::format("[{}, ", slice);
  out += fmt::format("{}:{}", line_begin, line_end);
  return out + (is_vector ? "]" : fmt::format(", {}:{}]", begin, end));
}

StoredPart stored_part(const WeightRef& ref) {
  const int64_t column_end = ref.column_begin + ref.columns;
  if (ref.transposed) return {ref.slice, ref.column_begin, column_end, ref.row_begin, ref.row_end};
  return {ref.slice, ref.row_begin, ref.row_end, ref.column_begin, column_end};
}

std::vector<int64_t> least_shape(std::span<const StoredPart> parts, bool are_vectors) {
  const StoredPart whole = bounds(parts);
  std::vector<int64_t> shape;
  if (whole.slice >= 0) shape.push_back(whole.slice + 1);
  shape.push_back(whole.line_end);
  if (!are_vectors) shape.push_back(whole.end);
  return shape;
}

std::optional<std::pair<size_t, size_t>> find_overlap(std::span<const StoredPart> parts) {
  const auto slices = by_slice(parts);
  if (slices.size() > 1 && slices.contains(-1)) {
    const auto [a, b] = std::minmax(slices.at(-1).front(), std::next(slices.begin())->second.front());
    return std::pair(a, b);
  }
  std::optional<std::pair<size_t, size_t>> first;
  for (const auto& [slice, own] : slices)
    for (size_t b = 1; b < own.size(); ++b)
      for (size_t a = 0; a < b; ++a)
        if (parts[own[a]].overlaps(parts[own[b]]) && (!first || own[b] < first->second))
          first = {own[a], own[b]};
  return first;
}

std::optional<StoredPart> find_gap(std::span<const StoredPart> parts) {
  const StoredPart whole = bounds(parts);
  const auto slices = by_slice(parts);
  for (int64_t slice = std::min<int64_t>(whole.slice, 0); slice <= whole.slice; ++slice) {
    StoredPart all = whole;
    all.slice = slice;
    const auto own = slices.find(slice);
    if (own == slices.end()) return all;
    if (const auto gap = gap_in_slice(parts, own->second, all)) return gap;
  }
  return std::nullopt;
}

}  // namespace anemone
