#include "checkpoint/json_file.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/json_problem.h"
#include "base/mapped_file.h"

namespace anemone {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{8} << 20;
constexpr int kMaxDepth = 64;
constexpr int kMaxKeys = 20000;

}  // namespace

nlohmann::ordered_json parse_json(std::string_view text, const std::string& name) {
  using Json = nlohmann::ordered_json;
  if (text.size() > kMaxBytes)
    throw Error("is too large for a JSON file of a model")
        .at(name)
        .found(fmt::format("{} bytes", text.size()))
        .expected(fmt::format("at most {}", kMaxBytes));
  std::vector<int> keys;  // of the objects that are open
  const auto guard = [&](int depth, Json::parse_event_t event, Json&) {
    if (depth > kMaxDepth) throw errorf("is nested more than {} levels deep", kMaxDepth).at(name);
    if (event == Json::parse_event_t::object_start) keys.push_back(0);
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && ++keys.back() > kMaxKeys)
      throw errorf("has an object of more than {} keys", kMaxKeys).at(name);
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), guard);
  } catch (const Json::exception& e) {
    throw json_error(e, text, "cannot be read as JSON").at(name).hint("was the download cut short?");
  }
}

nlohmann::ordered_json read_json_file(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return parse_json(file->text(), file->path());
}

}  // namespace anemone
