#include "cli/input.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "base/error.h"

namespace anemone::cli {
namespace {

std::string read_all(std::istream& in) { return {std::istreambuf_iterator<char>(in), {}}; }

}  // namespace

std::shared_ptr<const MappedFile> open_input(const std::string& path) {
  if (path == "-") return MappedFile::from_bytes("standard input", read_all(std::cin));
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || (!S_ISFIFO(info.st_mode) && !S_ISCHR(info.st_mode)))
    return MappedFile::open(path);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw errorf("cannot be opened").at(path);
  return MappedFile::from_bytes(path, read_all(in));
}

std::string read_text(const std::string& path) { return std::string(open_input(path)->text()); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    out.push_back(line);
  }
  return out;
}

std::string without_last_break(std::string text) {
  for (const std::string_view end : {"\r\n", "\n"})
    if (text.ends_with(end)) return text.substr(0, text.size() - end.size());
  return text;
}

std::optional<std::string> piped_text(const Common& common) {
  struct stat info {};
  if (::fstat(STDIN_FILENO, &info) != 0) return std::nullopt;
  if (!S_ISFIFO(info.st_mode) && !S_ISREG(info.st_mode) && !S_ISSOCK(info.st_mode)) return std::nullopt;
  pollfd fd{STDIN_FILENO, POLLIN, 0};
  if (::poll(&fd, 1, 2000) == 0)
    note(common, "waiting for standard input; < /dev/null behind the call says that there is none");
  return read_all(std::cin);
}

std::string given_text(const std::string& argument, const std::string& file, const Common& common) {
  if (!argument.empty() && !file.empty()) throw errorf("give a text or --file, not both");
  if (!file.empty()) return without_last_break(read_text(file));
  if (argument.empty() || argument == "-") return without_last_break(read_text("-"));
  return joined_texts(argument, without_last_break(piped_text(common).value_or("")));
}

std::string joined_texts(const std::string& first, const std::string& second) {
  return first.empty() || second.empty() ? first + second : first + "\n\n" + second;
}

}  // namespace anemone::cli
