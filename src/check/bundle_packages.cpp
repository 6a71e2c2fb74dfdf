#include "check/bundle_packages.h"

#include <algorithm>
#include <map>

#include "anemone/package.h"
#include "base/error.h"
#include "bundle/check_ports.h"
#include "bundle/files.h"

namespace anemone {
namespace {

// Every function of the program is in the description. Where one is not, description_faults tells it.
bool all_described(const Package& package) {
  const auto& listed = package.description.functions;
  return listed.empty() || std::ranges::all_of(package.program.functions, [&](const auto& f) {
           return std::ranges::find(listed, f->name, &Interface::name) != listed.end();
         });
}

}  // namespace

std::vector<std::shared_ptr<const Package>> open_packages(const BundleInfo& info,
                                                          const std::filesystem::path& bundle) {
  std::map<std::string, std::shared_ptr<const Package>> opened;
  for (const std::string& name : info.packages()) opened[name] = open_package(find_inside(bundle, name));
  PortCheck check(info);
  for (const Stage& stage : info.stages) {
    const Package& package = *opened.at(stage.package);
    if (!all_described(package)) continue;
    try {
      check.stage(stage, signatures(package));
    } catch (Error& e) {
      e.within(bundle.string());
      if (e.hint().empty()) e.hint("bundle.json and the packages are not of one conversion; convert again");
      throw;
    }
  }
  std::vector<std::shared_ptr<const Package>> out;
  for (const std::string& name : info.packages()) out.push_back(opened.at(name));
  return out;
}

}  // namespace anemone
