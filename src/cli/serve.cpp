// `anemone serve`: bundles behind OpenAI's API.
#include "serve/app.h"

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/signals.h"
#include "cli/backend.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/source.h"

namespace anemone::cli {
namespace {

struct Args {
  std::vector<std::string> bundles, aliases, hosts;
  std::string host = "127.0.0.1", key_file, cors, template_file, cache_dir;
  int64_t port = 8080, parallel = 4, queue = 64, cache_mib = 1024, cache_disk_mib = 4096,
          max_connections = 1024, max_per_client = 0, max_body_mib = 16, max_new = -1, timeout = 600,
          stop_seconds = 10, seed = kNotSaid, top_k = 40;
  double temperature = 0.8, top_p = 0.95, min_p = 0.05, idle_minutes = 0;
  bool log_json = false, log_prompts = false, no_page = false;
  BackendFlags backend;
};

std::atomic<serve::App*> running = nullptr;

int64_t within(const char* flag, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw errorf("{} is out of range", flag)
        .found(fmt::format("{}", value))
        .expected(fmt::format("{} to {}", least, most));
  return value;
}

std::vector<std::string> keys_of(const std::string& file) {
  std::vector<std::string> keys;
  for (std::string line : lines_of(read_text(file))) {
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.pop_back();
    if (!line.empty() && !line.starts_with('#')) keys.push_back(line);
  }
  if (keys.empty()) throw errorf("the file has no key").at(file).hint("one key on each line");
  return keys;
}

std::vector<serve::ModelShelf::Entry> models_of(const Args& args) {
  if (args.aliases.size() > args.bundles.size())
    throw errorf("there are more names than bundles").hint("one --alias for each BUNDLE, in the same order");
  std::vector<serve::ModelShelf::Entry> out;
  for (size_t i = 0; i < args.bundles.size(); ++i) {
    const std::filesystem::path path = args.bundles[i];
    const std::filesystem::path name =
        path.filename().empty() ? path.parent_path().filename() : path.filename();
    out.push_back({i < args.aliases.size() ? args.aliases[i] : name.string(), path});
  }
  return out;
}

// Texts that are seen whole may be under way together. Where text is generated, one call waits for the other anyhow,
// and Core ML answers synchronous ones sooner.
std::function<std::shared_ptr<const Backend>(BundleKind)> backends_of(const BackendFlags& flags,
                                                                      const Common& common) {
  const auto one = flags.open(common);
  if (!flags.core_ml()) return [one](BundleKind) { return one; };
  BackendFlags for_many = flags;
  for_many.in_flight = BackendFlags::kInFlight;
  return [one, many = for_many.open(common)](BundleKind kind) {
    return kind == BundleKind::generate ? one : many;
  };
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

serve::AppOptions options_of(const Args& args, const Common& common) {
  serve::AppOptions o;
  o.http.host = args.host;
  o.http.port = static_cast<int>(within("--port", args.port, 0, 65535));
  o.http.most_connections =
      static_cast<size_t>(within("--max-connections", args.max_connections, 1, 1'000'000));
  o.http.most_per_client = static_cast<size_t>(within("--max-per-client", args.max_per_client, 0, 1'000'000));
  o.http.limits.body_bytes = static_cast<size_t>(within("--max-body", args.max_body_mib, 1, 4096)) << 20;
  o.http.stop_seconds = static_cast<double>(within("--stop-seconds", args.stop_seconds, 0, 3600));
  o.models = models_of(args);
  o.shelf.scheduler = {
      .slots = static_cast<size_t>(within("--parallel", args.parallel, 1, 256)),
      .queue = static_cast<size_t>(within("--queue", args.queue, 0, 100'000)),
      .cache_bytes = static_cast<uint64_t>(within("--cache-memory", args.cache_mib, 0, 1 << 20)) << 20,
      .answer_seconds = static_cast<double>(within("--timeout", args.timeout, 1, 1'000'000)),
      .store = {.folder = args.cache_dir,
                .most_bytes = static_cast<uint64_t>(within("--cache-disk", args.cache_disk_mib, 1, 1 << 24))
                              << 20,
                .say = [common](const std::string& line) { note(common, line); }}};
  o.shelf.backend_for = backends_of(args.backend, common);
  if (!(args.idle_minutes >= 0 && args.idle_minutes <= 1e6))
    throw errorf("--idle-minutes is out of range")
        .found(fmt::format("{}", args.idle_minutes))
        .expected("0 to 1000000");
  o.shelf.idle_seconds = 60 * args.idle_minutes;
  if (!args.template_file.empty()) o.shelf.chat_template = read_text(args.template_file);
  o.defaults = {.temperature = args.temperature,
                .top_p = args.top_p,
                .min_p = args.min_p,
                .top_k = args.top_k,
                .most_new = args.max_new,
                .seed = {}};
  if (args.seed != kNotSaid)
    o.defaults.seed = static_cast<uint64_t>(within("--seed", args.seed, 0, INT64_MAX));
  SamplerOptions{
      .temperature = args.temperature, .top_k = args.top_k, .top_p = args.top_p, .min_p = args.min_p}
      .check();
  if (!args.key_file.empty()) o.keys = keys_of(args.key_file);
  o.cors = args.cors;
  o.only_known_hosts = is_loopback(args.host) && o.keys.empty();
  o.hosts = args.hosts;
  o.say = [common](const std::string& fault) { note(common, "fault: " + fault); };
  o.page = !args.no_page;
  o.log_prompts = args.log_prompts;
  if (args.log_json || args.log_prompts)
    o.log = [](const nlohmann::ordered_json& line) { fmt::print(stderr, "{}\n", json_text(line)); };
  return o;
}

int serve_models(const Args& args, const Common& common) {
  serve::AppOptions options = options_of(args, common);
  if (!is_loopback(args.host) && options.keys.empty())
    note(common,
         fmt::format("{} can be reached from other machines, and there is no --api-key-file", args.host));
  serve::App app(std::move(options));
  running = &app;
  std::signal(SIGPIPE, SIG_IGN);
  const std::string host = args.host.find(':') == std::string::npos ? args.host : "[" + args.host + "]";
  app.run([&](int port) {
    // From here on a signal stops the server in order. Before, while the model loads, it ends the process.
    call_instead_of_signal_exit([] {
      if (serve::App* one = running) one->stop();
    });
    fmt::print("listening on http://{}:{}\n", host, port);
    std::fflush(stdout);
  });
  call_instead_of_signal_exit(nullptr);
  running = nullptr;
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone serve smollm2 --port 8080\n"
    "  anemone serve smollm2 minilm --alias chat --alias vectors --parallel 8 --api-key-file keys.txt";

void declare_limits(Options& o, Args& args) {
  o.group("Limits");
  o.integer("--queue", "N", args.queue, "requests that may wait for a slot; more are answered 503 (64)");
  o.integer("--timeout", "SECONDS", args.timeout, "most time for one answer (600)");
  o.integer("--max-new", "N", args.max_new,
            "most tokens of one answer; without it, to the end of the context");
  o.integer("--max-body", "MIB", args.max_body_mib, "most MiB of one request (16)");
  o.integer("--max-connections", "N", args.max_connections,
            "most open connections; more are closed at once (1024)");
  o.integer("--max-per-client", "N", args.max_per_client,
            "most open connections from one address; 0: no such limit");
  o.integer("--cache-memory", "MIB", args.cache_mib, "memory for texts that may be continued later (1024)");
  o.text("--cache-dir", "FOLDER", args.cache_dir,
         "also save such texts as files there: they survive a restart (none)");
  o.integer("--cache-disk", "MIB", args.cache_disk_mib, "most MiB of files in --cache-dir (4096)");
  o.real("--idle-minutes", "X", args.idle_minutes, "drop a model that nobody used for so long; 0: never");
  o.integer("--stop-seconds", "N", args.stop_seconds,
            "time for answers under way when the server is stopped (10)");
}

void declare_defaults(Options& o, Args& args) {
  o.group("What holds where a request says nothing");
  o.real("--temperature", "X", args.temperature, "0 always takes the best token (0.8)").also("--temp");
  o.integer("--top-k", "N", args.top_k, "sample among the N best (40); 0: all");
  o.real("--top-p", "X", args.top_p,
         "sample among the most likely tokens with a total probability of X (0.95)");
  o.real("--min-p", "X", args.min_p,
         "drop tokens with less than X times the probability of the best one (0.05)");
  o.integer("--seed", "N", args.seed, "without it each answer uses a new seed").also("-s");
  o.text("--template", "FILE", args.template_file,
         "a chat template (Jinja) to use instead of the models' own")
      .streams();
}

}  // namespace

extern const Command kServe{
    "serve", "Answer requests over HTTP, as OpenAI's API does", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positionals("BUNDLE", args->bundles,
                    "what convert wrote; the first is loaded at once, others when asked for")
          .takes(kBundle);
      o.text("--host", "ADDRESS", args->host, "the address to listen on (127.0.0.1: this machine alone)");
      o.integer("--port", "N", args->port, "the port to listen on (8080); 0 takes a free one");
      o.texts("--alias", "NAME", args->aliases,
              "the name of a model for clients; one for each BUNDLE, in their order")
          .also("-a");
      o.integer("--parallel", "N", args->parallel, "answers that are written side by side (4)").also("-np");
      o.text("--api-key-file", "FILE", args->key_file, "ask for a key; the file has one on each line")
          .reads();
      o.text("--cors", "ORIGIN", args->cors,
             "let pages of this origin call the server from a browser; * for all");
      o.texts("--allow-host", "NAME", args->hosts,
              "a name that clients may use for this machine, as a proxy before it does; may be repeated");
      o.flag("--no-page", args->no_page, "leave out the page at /");
      o.flag("--log-json", args->log_json,
             "one line of JSON for each request, without its text, on standard error");
      o.flag("--log-prompts", args->log_prompts, "the same, with the text of the requests");
      declare_limits(o, *args);
      declare_defaults(o, *args);
      args->backend.usual = "fast";
      args->backend.declare(o, ": the maths, rounded as on the device, or 8-bit activations");
      return [args](const Common& common) { return serve_models(*args, common); };
    }};

}  // namespace anemone::cli
