#include "convert/target.h"

#include <algorithm>

#include "base/error.h"

namespace anemone {
namespace {

// The first systems with states and with int8 weights that have a scale per channel.
constexpr int kFirstMacos = 15, kFirstIos = 18;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::string system_name(const Target& t) {
  const char* system = t.device == DeviceClass::mac    ? "macos"
                       : t.device == DeviceClass::ipad ? "ipados"
                                                       : "ios";
  return fmt::format("{}{}", system, t.os);
}

void check_system(const Target& t) {
  const int first = t.phone() ? kFirstIos : kFirstMacos;
  if (t.os && t.os < first)
    throw errorf("bundles need {} {} or newer", t.phone() ? "iOS" : "macOS", first)
        .found(system_name(t))
        .hint("older systems have no states and no int8 weights with a scale per channel");
}

}  // namespace

ConvertTarget parse_target(const std::string& text) {
  const size_t comma = text.find(',');
  Target a = find_target(trimmed(std::string_view(text).substr(0, comma)));
  if (comma != std::string::npos) {
    Target b = find_target(trimmed(std::string_view(text).substr(comma + 1)));
    if (a.oldest) std::swap(a, b);
    if (a.oldest || !b.oldest)
      throw errorf("--target takes a chip or a device, a system, or one of each")
          .found(text)
          .expected("such as \"a17-pro, ios18\"");
    if (a.phone() != b.phone() && !(a.chip->id.starts_with('m') && b.device == DeviceClass::ipad))
      throw errorf("{} does not run on the {}", system_name(b), a.chip->name).at("--target");
    a.device = b.device;
    a.os = b.os;
  }
  check_system(a);
  ConvertTarget out{a, ""};
  if (!a.oldest) out.name = a.chip->id;
  if (a.os) out.name += (out.name.empty() ? "" : ", ") + system_name(a);
  if (out.name.empty()) out.name = text;  // "mac", "iphone"
  return out;
}

std::vector<std::string> target_notes(const ConvertTarget& target, uint64_t largest_package,
                                      int64_t context) {
  std::vector<std::string> notes;
  const Target& t = target.hardware;
  const uint64_t most = most_shard_bytes(t.device);
  if (largest_package > most)
    notes.push_back(
        fmt::format("a package of {} MB: no package above {} MB is known to stay on the Neural Engine of {}; "
                    "leave out --whole, or lower --shard-mb",
                    largest_package / 1'000'000, most / 1'000'000, t.phone() ? "a phone" : "a Mac"));
  const AneLimits limits = t.chip->limits();
  if (const int64_t longest = std::min(limits.spatial, limits.inner); context > longest)
    notes.push_back(
        fmt::format("a context of {} rows: attention over more than {} leaves the Neural Engine of the {}{}",
                    context, longest, t.chip->name, t.oldest ? ", the oldest chip of that target" : ""));
  return notes;
}

}  // namespace anemone
