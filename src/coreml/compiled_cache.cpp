#include "coreml/compiled_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/sha256.h"
#include "base/staged.h"
#include "bundle/files.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

uint64_t bytes_in(const fs::path& path) {
  return fs::is_regular_file(path) ? fs::file_size(path) : folder_bytes(path);
}

std::vector<fs::path> files_of(const fs::path& package) {
  if (!fs::is_directory(package)) return {package};
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(package))
    if (entry.is_regular_file()) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

std::string short_hash(const std::string& text) {
  Sha256 hash;
  hash.add(text);
  return hash.hex().substr(0, 16);
}

// Names, sizes and times: what changes when a file does.
std::string fingerprint(const fs::path& package, const std::vector<fs::path>& files) {
  std::string out;
  for (const fs::path& file : files)
    out += fmt::format("{} {} {}\n", file.lexically_relative(package).generic_string(), fs::file_size(file),
                       fs::last_write_time(file).time_since_epoch().count());
  return out;
}

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

constexpr std::string_view kDigits = "0123456789", kHex = "0123456789abcdef";

// Takes the characters of a set off the front of a text; how many there were.
size_t skip(std::string_view& text, std::string_view set) {
  const size_t count = std::min(text.find_first_not_of(set), text.size());
  text.remove_prefix(count);
  return count;
}

bool skip_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

// The end of a name is what write_beside() adds while it writes: ".77.0x7ffc0123".
bool is_beside(std::string_view tail) {
  return skip_word(tail, ".") && skip(tail, kDigits) && skip_word(tail, ".0x") && skip(tail, kHex) &&
         tail.empty();
}

// The end of a name is what StagedOutput adds: ".partial-77-0".
bool is_staged(std::string_view tail) {
  return skip_word(tail, ".partial-") && skip(tail, kDigits) && skip_word(tail, "-") && skip(tail, kDigits) &&
         (tail.empty() || tail == ".old");
}

// "24E248", "24A5264n", or what core_ml_device() says where it does not know.
bool is_build(const fs::path& folder) {
  const std::string name = folder.filename().string();
  std::string_view rest = name;
  return name == "unknown" ||
         (skip(rest, kDigits) && skip(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 1 && skip(rest, kDigits) &&
          skip(rest, "abcdefghijklmnopqrstuvwxyz") <= 1 && rest.empty());
}

// Names that this file gives: 16 hex digits and an ending, or such a name while it is being written.
bool is_ours(const fs::path& path) {
  const std::string name = path.filename().string();
  std::string_view rest = name;
  std::error_code error;
  const auto kind = fs::symlink_status(path, error).type();
  const bool hidden = skip_word(rest, ".");
  if (skip(rest, kHex) != 16) return false;
  if (kind == fs::file_type::directory)
    return skip_word(rest, ".mlmodelc") && (hidden ? is_staged(rest) : rest.empty());
  if (kind != fs::file_type::regular || hidden) return false;
  return (skip_word(rest, ".json") || skip_word(rest, ".findings.json")) && (rest.empty() || is_beside(rest));
}

// A file of key(): 16 hex digits, named by 16 others.
bool is_our_key(const fs::path& path) {
  const std::string name = path.filename().string();
  std::string_view rest = name;
  std::error_code error;
  if (fs::symlink_status(path, error).type() != fs::file_type::regular) return false;
  if (skip(rest, kHex) != 16) return false;
  if (!rest.empty()) return is_beside(rest);
  const std::string text = read_all(path);
  std::string_view known = text;
  return skip(known, kHex) == 16 && known.starts_with('\n');
}

// The files of ours in a folder, and the folder when nothing else is in it. The bytes that it gave back.
uint64_t remove_ours(const fs::path& folder, bool (*ours)(const fs::path&)) {
  uint64_t bytes = 0;
  std::error_code error;
  std::vector<fs::path> gone;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (ours(it->path())) gone.push_back(it->path());
  for (const fs::path& path : gone) {
    const uint64_t held = bytes_in(path);
    fs::remove_all(path, error);
    if (error) throw errorf("cannot be removed: {}", error.message()).at(path.string());
    bytes += held;
  }
  if (!gone.empty()) fs::remove(folder, error);  // fails where somebody else's files are
  return bytes;
}

}  // namespace

void move_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return;
  const auto failed = [&](const std::string& why) {
    return errorf("the compiled package cannot be moved there: {}", why).at(to.string());
  };
  if (!fs::exists(to)) {
    if (error != std::errc::cross_device_link) throw failed(error.message());
    try {
      StagedOutput staged(to, true);
      fs::copy(from, staged.path(), fs::copy_options::recursive);
      staged.commit();
    } catch (const fs::filesystem_error& e) {
      throw failed(e.code().message());
    }
  }
  fs::remove_all(from, error);  // or somebody was faster
}

bool write_beside(const fs::path& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return false;
  const fs::path beside = path.string() + fmt::format(".{}.{}", ::getpid(), static_cast<const void*>(&error));
  {
    std::ofstream out(beside, std::ios::binary);
    out << text;
    out.close();
    if (!out) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(beside, path, error);
  if (!error) return true;
  fs::remove(beside, error);
  return false;
}

fs::path CompiledCache::default_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string given = variable("ANEMONE_COREML_CACHE"); !given.empty()) return given;
#ifdef __APPLE__
  return fs::path(variable("HOME")) / "Library/Caches/anemone/coreml";
#else
  const std::string xdg = variable("XDG_CACHE_HOME");
  return (xdg.empty() ? fs::path(variable("HOME")) / ".cache" : fs::path(xdg)) / "anemone/coreml";
#endif
}

std::string CompiledCache::key(const fs::path& package) const {
  const std::vector<fs::path> files = files_of(package);
  const std::string now = fingerprint(package, files);
  const fs::path remembered =
      folder_ / "keys" / short_hash(fs::absolute(package).lexically_normal().string());
  const std::string known = read_all(remembered);
  if (known.size() == now.size() + 17 && known.substr(17) == now) return known.substr(0, 16);
  Sha256 hash;
  for (const fs::path& file : files)
    hash.add(fmt::format("{} {}\n", file.lexically_relative(package).generic_string(), file_hash(file)));
  const std::string key = hash.hex().substr(0, 16);
  write_beside(remembered, key + "\n" + now);
  return key;
}

std::optional<fs::path> CompiledCache::find(const std::string& key) const {
  const fs::path path = folder_ / build_ / (key + ".mlmodelc");
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::nullopt;
  return path;
}

fs::path CompiledCache::put(const fs::path& compiled, const std::string& key,
                            const std::string& package) const {
  const fs::path to = folder_ / build_ / (key + ".mlmodelc");
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  if (error)
    throw errorf("the cache of compiled packages cannot be written: {}", error.message())
        .at(folder_.string());
  move_folder(compiled, to);
  const nlohmann::ordered_json note = {{"package", package}, {"bytes", bytes_in(to)}};
  write_beside(folder_ / build_ / (key + ".json"), note.dump(2) + "\n");
  return to;
}

std::vector<CompiledEntry> CompiledCache::entries() const {
  std::vector<CompiledEntry> out;
  std::error_code error;
  for (fs::directory_iterator build(folder_, error), end; !error && build != end; build.increment(error)) {
    if (!build->is_directory() || !is_build(build->path())) continue;
    std::error_code unreadable;
    for (const auto& one : fs::directory_iterator(build->path(), unreadable)) {
      if (one.path().extension() != ".mlmodelc" || !is_ours(one.path())) continue;
      CompiledEntry entry{one.path(), build->path().filename().string(), "", bytes_in(one.path())};
      fs::path note = one.path();
      const auto json = nlohmann::json::parse(read_all(note.replace_extension(".json")), nullptr, false);
      if (json.is_object() && json.contains("package") && json["package"].is_string())
        entry.package = json["package"];
      out.push_back(std::move(entry));
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return out;
}

// The folder may be one that other things are in, too: they stay.
uint64_t CompiledCache::clean(bool all) const {
  uint64_t bytes = 0;
  std::error_code error;
  std::vector<fs::path> builds;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error))
    if (it->is_directory() && is_build(it->path()) && (all || it->path().filename() != build_))
      builds.push_back(it->path());
  for (const fs::path& build : builds) bytes += remove_ours(build, is_ours);
  if (all) bytes += remove_ours(folder_ / "keys", is_our_key);
  return bytes;
}

}  // namespace anemone
