#include "corpus/corpus.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/npy.h"
#include "base/shape.h"

namespace anemone {

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream in(path);
  REQUIRE_MESSAGE(in.good(), path.string());
  return nlohmann::json::parse(in);
}

std::map<std::string, Array> read_arrays(const std::filesystem::path& folder) {
  std::map<std::string, Array> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".npy") out.emplace(entry.path().stem().string(), read_npy(entry.path()));
  return out;
}

std::vector<std::filesystem::path> folders_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_directory()) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

std::string difference(const Array& got, const Array& expected, double atol, double rtol, bool compare_shapes,
                       double may_differ) {
  // A scalar may come back as one element.
  const bool scalars = got.size() == 1 && expected.size() == 1;
  if (compare_shapes && !scalars && got.shape() != expected.shape())
    return fmt::format("shape {}, expected {}", shape_text(got.shape()), shape_text(expected.shape()));
  if (got.size() != expected.size())
    return fmt::format("{} elements, expected {}", got.size(), expected.size());
  const std::vector<float> a = got.to_float(), b = expected.to_float();
  double worst = 0;
  size_t where = 0, count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if ((std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i]) continue;
    const double error = std::abs(static_cast<double>(a[i]) - b[i]);
    if (error <= atol + rtol * std::abs(static_cast<double>(b[i]))) continue;
    ++count;
    if (!(error <= worst)) {
      worst = error;
      where = i;
    }
  }
  if (static_cast<double>(count) <= may_differ * static_cast<double>(a.size())) return "";
  return fmt::format("{} of {} values differ, most at {}: {} instead of {}", count, a.size(), where, a[where],
                     b[where]);
}

void Tally::add(const std::string& what, const std::string& problem) {
  ++(problem.empty() ? passed : failed);
  CHECK_MESSAGE(problem.empty(), what << ": " << problem);
}

void Tally::know(const std::string& what, const std::string& reason) {
  ++known;
  fmt::print("known difference: {}: {}\n", what, reason);
}

Tally::~Tally() {
  fmt::print("{}: {} passed, {} failed{}\n", name, passed, failed,
             known ? fmt::format(", {} known", known) : "");
}

}  // namespace anemone
