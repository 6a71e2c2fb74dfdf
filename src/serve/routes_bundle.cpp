// The page's view of a bundle: its stages, where Core ML is predicted to run them, the graph.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "check/check.h"
#include "check/graph_page.h"
#include "check/report.h"
#include "serve/app.h"

namespace anemone::serve {
namespace {

constexpr size_t kMostTickets = 64;

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += std::isalnum(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) < 128
               ? std::string(1, c)
               : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
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

std::shared_ptr<const CheckReport> report_of(ServedModel& model) {
  try {
    return model.report();
  } catch (const std::exception& problem) {
    throw fault_of_server("the bundle cannot be checked", problem);
  }
}

}  // namespace

// A frame cannot send a key: who may see the bundle gets an address that opens its graph.
std::string App::graph_address(const std::string& model) {
  std::string ticket = random_id("");
  {
    const std::lock_guard lock(mutex_);
    tickets_.push_back(ticket);
    if (tickets_.size() > kMostTickets) tickets_.pop_front();
  }
  return fmt::format("/bundle/graph?model={}&ticket={}", percent_encoded(model), ticket);
}

bool App::has_ticket(const HttpRequest& request) const {
  const std::string given = query_value(request.query, "ticket");
  const std::lock_guard lock(mutex_);
  bool known = false;
  for (const std::string& ticket : tickets_) known |= same_key(given, ticket);
  return request.path == "/bundle/graph" && known;
}

void App::bundle(const Call& call) {
  const std::shared_ptr<ServedModel> model = model_named(call, query_value(call.request().query, "model"));
  const BundleInfo& info = model->info();
  const std::shared_ptr<const CheckReport> known = report_of(*model);
  const CheckReport& report = *known;
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
               {"graph", graph_address(model->name())},
               {"stages", stages}});
}

// A page of its own, which may run the scripts that it carries and reaches nothing.
void App::bundle_graph(const Call& call) {
  const std::shared_ptr<ServedModel> model = model_named(call, query_value(call.request().query, "model"));
  HttpHeaders headers = {{"Content-Security-Policy",
                          "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src "
                          "'unsafe-inline'; img-src data:; frame-ancestors 'self'"},
                         {"X-Content-Type-Options", "nosniff"}};
  call.exchange->reply(200, "text/html; charset=utf-8", graph_html(*report_of(*model)), headers);
}

}  // namespace anemone::serve
