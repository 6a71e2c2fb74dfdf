// Which files a run reads and writes.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/paths.h"
#include "redact/batch.h"

namespace anemone::redact {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHead = 8192;

bool is_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string head(kHead, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(in.gcount()));
  return !looks_binary(head);
}

class Planner {
 public:
  Planner(const BatchPlan& plan, std::vector<Skipped>& skipped) : plan_(plan), skipped_(skipped) {}

  std::vector<BatchItem> run() {
    for (const std::string& input : plan_.inputs)
      if (!plan_.recursive && input != "-" && fs::is_directory(input))
        throw errorf("is a folder").at(input).hint("-r takes all files in it");
    const bool several =
        plan_.inputs.size() > 1 || (plan_.inputs.size() == 1 && fs::is_directory(plan_.inputs[0]));
    const bool into_folder =
        plan_.write && !plan_.output.empty() && (several || fs::is_directory(plan_.output));
    if (several && plan_.write && plan_.output.empty())
      throw errorf("several files need a folder to be written to").hint("give one with -o");
    if (into_folder && std::ranges::find(plan_.inputs, "-") != plan_.inputs.end())
      throw errorf("standard input has no name that a file in a folder could get")
          .hint("redact it by itself, with -o FILE");
    if (into_folder && fs::exists(plan_.output) && !fs::is_directory(plan_.output))
      throw errorf("is no folder, and several files need one").at(plan_.output);
    for (const std::string& input : plan_.inputs) {
      if (input != "-" && !fs::exists(input)) throw missing_path(input);
      if (input != "-" && fs::is_directory(input))
        add_folder(input);
      else
        add(input,
            into_folder ? (fs::path(plan_.output) / fs::path(input).filename()).string() : plan_.output);
    }
    expect_apart_from_inputs();
    return std::move(items_);
  }

 private:
  void add(const std::string& input, const std::string& output) {
    std::error_code problem;
    const uint64_t bytes = input == "-" ? 0 : fs::file_size(input, problem);
    const std::string target = !plan_.write ? "" : output.empty() ? "-" : output;
    if (!target.empty() && target != "-" && fs::exists(target)) {
      if (fs::is_directory(target)) throw errorf("is a folder").at(target).expected("a file to write to");
      if (!plan_.overwrite) throw errorf("exists already").at(target).hint("--overwrite replaces it");
    }
    items_.push_back({input, target, problem ? 0 : bytes});
  }

  void add_folder(const std::string& input) {
    if (plan_.write && !plan_.output.empty()) anemone::expect_apart(input, plan_.output);
    // With several folders each keeps its name.
    fs::path target = plan_.output;
    if (plan_.inputs.size() > 1) target /= fs::path(input).lexically_normal().filename();
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(input, fs::directory_options::skip_permission_denied)) {
      if (entry.is_directory() && !entry.is_symlink()) continue;
      if (entry.is_symlink() || !entry.is_regular_file())
        skipped_.push_back({entry.path().string(), "no plain file"});
      else if (!is_text(entry.path()))
        skipped_.push_back({entry.path().string(), "no text"});
      else
        files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) add(file.string(), (target / file.lexically_relative(input)).string());
  }

  void expect_apart_from_inputs() const {
    std::vector<std::string> outputs;
    for (const BatchItem& item : items_) {
      if (item.output.empty() || item.output == "-") continue;
      outputs.push_back(fs::weakly_canonical(item.output).string());
      if (item.input != "-") anemone::expect_apart(item.input, item.output);
    }
    std::sort(outputs.begin(), outputs.end());
    if (const auto twice = std::adjacent_find(outputs.begin(), outputs.end()); twice != outputs.end())
      throw errorf("two inputs would be written to one file").at(*twice);
  }

  const BatchPlan& plan_;
  std::vector<Skipped>& skipped_;
  std::vector<BatchItem> items_;
};

}  // namespace

std::vector<BatchItem> plan_batch(const BatchPlan& plan, std::vector<Skipped>& skipped) {
  return Planner(plan, skipped).run();
}

}  // namespace anemone::redact
