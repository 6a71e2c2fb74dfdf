// App: the server as a whole: routes, keys, logs, models behind HTTP.
//     App app(options);
//     app.run([&](int port) { print("listening on port {}", port); });      // until stop()
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/generation_request.h"
#include "serve/http_server.h"
#include "serve/reply.h"
#include "serve/served_model.h"
#include "serve/work_queue.h"

namespace anemone::redact {
class RedactModel;
}  // namespace anemone::redact

namespace anemone::serve {

struct AppOptions {
  HttpOptions http;
  std::vector<ModelShelf::Entry> models;
  ShelfOptions shelf;
  ServeDefaults defaults;
  std::vector<std::string> keys;  // any of them opens the API; empty: it is open
  std::string cors;               // origins that a browser may call from: "*", or one of them; empty: none
  // The server is for this machine and open: it answers to addresses, to names without a dot and to these names. A page
  // of the web whose name was turned to this machine's address (DNS rebinding) gives another.
  bool only_known_hosts = false;
  std::vector<std::string> hosts;
  bool page = true;  // at /
  // Threads for requests that take a moment, and for those that may take long: texts to encode or to redact, a model to
  // load. The second never hold up the first.
  size_t workers = 4, slow_workers = 4, most_requests = 256;
  bool log_prompts = false;
  std::function<void(const Json& line)> log;  // one call for each request; may be empty
  std::function<void(const std::string& fault)>
      say;  // of the server's own, with all that is known; may be empty
};

class App {
 public:
  explicit App(AppOptions options);
  ~App();

  // `ready` is called when /health says so. Returns after stop().
  void run(const std::function<void(int port)>& ready);
  // From any thread or a signal handler.
  void stop() { http_->stop(); }
  int port() const { return http_->port(); }

 private:
  // One request on its way.
  struct Call {
    std::shared_ptr<HttpExchange> exchange;
    HttpHeaders headers;
    std::chrono::steady_clock::time_point start;
    bool slow = false;  // in a thread that may take long
    const HttpRequest& request() const { return exchange->request(); }
  };
  using Route = void (App::*)(const Call& call);
  struct WouldTakeLong {};  // thrown in a quick thread: the request moves to a slow one

  void end_late_answers(const std::atomic<bool>& done);
  void drop_idle_models(const std::atomic<bool>& done);
  void take(std::shared_ptr<HttpExchange> exchange);
  void serve(const Call& call, Route route);
  void queue(const Call& call, Route route);
  // Where a request has gone on for too long, or nobody waits for it any more.
  std::function<bool()> patience(const Call& call) const;
  void end_unfinished(const Call& call) const;
  HttpHeaders cors_headers(const HttpRequest& request) const;
  bool knows_host(const HttpRequest& request) const;
  static bool same_key(std::string_view given, std::string_view key);
  bool has_key(const HttpRequest& request) const;
  bool has_ticket(const HttpRequest& request) const;
  std::string graph_address(const std::string& model);
  void reply(const Call& call, const Json& body, int status = 200);
  void refuse(const Call& call, const ApiError& error);
  void log(const Call& call, int status, const Json& about);
  Json body_of(const Call& call) const;
  std::shared_ptr<ServedModel> model_named(const Call& call, const std::string& name);
  std::shared_ptr<ServedModel> model_of(const Call& call, const Json& body);
  std::shared_ptr<ServedModel> text_model(const Call& call, const Json& body);
  ReplySetup setup_for(const Call& call, std::shared_ptr<ServedModel> model, GenerationRequest request) const;
  void submit(ServedModel& model, std::vector<AnswerTask> tasks);

  // routes_text.cpp
  void chat(const Call& call);
  void completions(const Call& call);
  void plain_completion(const Call& call);
  void responses(const Call& call);
  void count_input(const Call& call);
  // routes_small.cpp
  void health(const Call& call);
  void models(const Call& call);
  void embeddings(const Call& call);
  void tokenize(const Call& call);
  void detokenize(const Call& call);
  void apply_template(const Call& call);
  void props(const Call& call);
  void slots(const Call& call);
  void metrics(const Call& call);
  // routes_bundle.cpp
  void bundle(const Call& call);
  void bundle_graph(const Call& call);
  // routes_redact.cpp
  void redact_texts(const Call& call);
  std::shared_ptr<const anemone::redact::RedactModel> redact_model(const Call& call, const Json& body,
                                                                   std::string& name);

  static const std::map<std::string, std::pair<std::string, Route>>& routes();  // path → method, what it does

  AppOptions options_;
  std::unique_ptr<ModelShelf> shelf_;
  std::atomic<bool> ready_ = false, ending_ = false;
  std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
  mutable std::mutex mutex_;
  std::map<int, uint64_t> answers_;  // by status
  std::deque<std::string> tickets_;  // of graphs
  uint64_t redacted_texts_ = 0, redacted_bytes_ = 0;
  std::mutex redact_mutex_;
  std::shared_ptr<const anemone::redact::RedactModel> redact_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<WorkQueue> work_, slow_;
};

}  // namespace anemone::serve
