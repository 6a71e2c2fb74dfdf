// The page's view of a bundle: its stages, where Core ML is predicted to run them, the graph.
#include <fmt/format.h>

#include "check/check.h"
#include "check/graph_page.h"
#include "check/report.h"
#include "serve/app.h"

namespace anemone::serve {
namespace {

std::string model_in(const std::string& query) {
  constexpr std::string_view kKey = "model=";
  for (std::string_view rest = query; !rest.empty();) {
    const size_t end = std::min(rest.find('&'), rest.size());
    std::string value;
    if (rest.starts_with(kKey) && percent_decoded(rest.substr(kKey.size(), end - kKey.size()), value))
      return value;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return "";
}

// Operations by device, of the first function: the others of a package are the same with other sizes.
Json placement_of(const CheckReport& report, const std::string& package) {
  for (const PackageReport& p : report.packages) {
    if (p.name != package || p.functions.empty()) continue;
    int all = 0, ane = 0, unknown = 0;
    for (const auto& [kind, r] : p.functions.front().residency) {
      all += r.all;
      ane += r.on_ane;
      unknown += r.unknown;
    }
    return {{"ane", ane}, {"cpu", all - ane - unknown}, {"unknown", unknown}};
  }
  return nullptr;
}

uint64_t bytes_of(const BundleInfo& info, const std::string& package) {
  uint64_t out = 0;
  for (const BundleFile& file : info.files)
    if (file.path.starts_with(package + "/")) out += file.bytes;
  return out;
}

}  // namespace

void App::bundle(const Call& call) {
  const std::shared_ptr<ServedModel> model = shelf_->get(model_in(call.request().query));
  const BundleInfo& info = model->info();
  const CheckReport report = check(model->bundle().path(), {});
  Json stages = Json::array();
  uint64_t all = 0;
  for (const BundleFile& file : info.files) all += file.bytes;
  for (const Stage& stage : info.stages) {
    Json functions = Json::array();
    for (const StageFunction& f : stage.functions) {
      const std::string tokens = f.least_tokens == f.most_tokens
                                     ? fmt::format("{}", f.most_tokens)
                                     : fmt::format("{} to {}", f.least_tokens, f.most_tokens);
      functions.push_back({{"name", f.name}, {"tokens", tokens}, {"context", f.context}});
    }
    stages.push_back({{"package", stage.package},
                      {"first_layer", stage.first_layer},
                      {"last_layer", stage.last_layer},
                      {"bytes", bytes_of(info, stage.package)},
                      {"functions", functions},
                      {"placement", placement_of(report, stage.package)}});
  }
  reply(call, {{"name", info.name},
               {"family", info.family},
               {"kind", kind_name(info.kind)},
               {"precision", info.precision},
               {"hidden", info.hidden},
               {"layers", info.layers},
               {"heads", info.heads},
               {"kv_heads", info.kv_heads},
               {"vocab", info.vocab},
               {"context", model->context()},
               {"bytes", all},
               {"target", report.target_text},
               {"verdict", verdict_text(report, false)},
               {"graph", options_.keys.empty()},
               {"stages", stages}});
}

// A page of its own, which may run the scripts that it carries and reaches nothing.
void App::bundle_graph(const Call& call) {
  const std::shared_ptr<ServedModel> model = shelf_->get(model_in(call.request().query));
  HttpHeaders headers = {{"Content-Security-Policy",
                          "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src "
                          "'unsafe-inline'; img-src data:; frame-ancestors 'self'"},
                         {"X-Content-Type-Options", "nosniff"}};
  call.exchange->reply(200, "text/html; charset=utf-8", graph_html(check(model->bundle().path(), {})),
                       headers);
}

}  // namespace anemone::serve
