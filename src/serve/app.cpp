#include "serve/app.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "base/error.h"
#include "base/json_text.h"
#include "serve/page.h"

namespace anemone::serve {
namespace {

// Without port, a last dot and capitals, which say nothing.
std::string host_name(std::string_view host) {
  std::string out(host.substr(0, host.find(':')));
  if (out.ends_with('.')) out.pop_back();
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

bool is_free(const std::string& path) { return path == "/health" || path == "/v1/health"; }

}  // namespace

// Takes the same time wherever two keys differ, and for every key that is given.
bool App::same_key(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < key.size(); ++i)
    difference |=
        static_cast<unsigned char>(key[i]) ^ static_cast<unsigned char>(i < given.size() ? given[i] : 0);
  return difference == 0;
}

const std::map<std::string, std::pair<std::string, App::Route>>& App::routes() {
  static const auto all = [] {
    std::map<std::string, std::pair<std::string, Route>> out;
    // Clients leave the /v1 out, or put it in.
    const auto both = [&](const std::string& path, const char* method, Route route) {
      out[path] = {method, route};
      out["/v1" + path] = {method, route};
    };
    both("/health", "GET", &App::health);
    both("/models", "GET", &App::models);
    both("/chat/completions", "POST", &App::chat);
    both("/chat/completions/input_tokens", "POST", &App::count_input);
    both("/responses", "POST", &App::responses);
    both("/embeddings", "POST", &App::embeddings);
    both("/redact", "POST", &App::redact_texts);
    out["/v1/completions"] = {"POST", &App::completions};
    out["/completions"] = out["/completion"] = {"POST", &App::plain_completion};
    out["/tokenize"] = {"POST", &App::tokenize};
    out["/detokenize"] = {"POST", &App::detokenize};
    out["/apply-template"] = {"POST", &App::apply_template};
    out["/props"] = {"GET", &App::props};
    out["/slots"] = {"GET", &App::slots};
    out["/metrics"] = {"GET", &App::metrics};
    out["/bundle"] = {"GET", &App::bundle};
    out["/bundle/graph"] = {"GET", &App::bundle_graph};
    return out;
  }();
  return all;
}

App::App(AppOptions options) : options_(std::move(options)) {
  for (std::string& host : options_.hosts) host = host_name(host);
  shelf_ = std::make_unique<ModelShelf>(options_.models, options_.shelf);
  http_ = std::make_unique<HttpServer>(
      options_.http, [this](std::shared_ptr<HttpExchange> exchange) { take(std::move(exchange)); });
  work_ = std::make_unique<WorkQueue>(options_.workers, options_.most_requests);
  slow_ = std::make_unique<WorkQueue>(options_.slow_workers, options_.most_requests);
}

App::~App() {
  work_->stop();
  slow_->stop();
  shelf_->drop_all();  // schedulers end before the sockets that they write to
}

// Ends answers that take too long once the server stops.
void App::end_late_answers(const std::atomic<bool>& done) {
  std::optional<std::chrono::steady_clock::time_point> since;
  while (!done) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (!http_->stopping()) continue;
    const auto now = std::chrono::steady_clock::now();
    if (!since) since = now;
    if (std::chrono::duration<double>(now - *since).count() < options_.http.stop_seconds) continue;
    ending_ = true;
    return shelf_->stop_answers();
  }
}

// A thread of its own: a model that is dropped may have texts to save.
void App::drop_idle_models(const std::atomic<bool>& done) {
  for (int tick = 1; !done; ++tick) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (tick % 20 == 0 && !http_->stopping()) shelf_->drop_idle();
  }
}

void App::run(const std::function<void(int port)>& ready) {
  std::atomic<bool> done = false;
  std::exception_ptr problem;
  // The first model is loaded while /health already answers that it is.
  std::thread keeper([&] {
    try {
      shelf_->get("");
      ready_ = true;
      ready(http_->port());
    } catch (...) {
      problem = std::current_exception();
      http_->stop();
    }
    end_late_answers(done);
  });
  std::thread dropper([&] { drop_idle_models(done); });
  http_->run();
  done = true;
  keeper.join();
  dropper.join();
  work_->stop();
  slow_->stop();
  shelf_->drop_all();
  if (problem) std::rethrow_exception(problem);
}

HttpHeaders App::cors_headers(const HttpRequest& request) const {
  const std::string origin(request.header("origin"));
  if (options_.cors.empty() || origin.empty() || (options_.cors != "*" && options_.cors != origin)) return {};
  return {{"Access-Control-Allow-Origin", origin},
          {"Access-Control-Allow-Credentials", "true"},
          {"Vary", "Origin"}};
}

bool App::knows_host(const HttpRequest& request) const {
  if (!options_.only_known_hosts || request.header("host").starts_with('[')) return true;
  const std::string host = host_name(request.header("host"));
  const size_t dot = host.rfind('.');
  if (dot == std::string::npos || host.ends_with(".localhost")) return true;
  const std::string last = host.substr(dot + 1);  // no domain of the web ends in a number
  return std::ranges::all_of(last, [](char c) { return c >= '0' && c <= '9'; }) ||
         std::ranges::find(options_.hosts, host) != options_.hosts.end();
}

bool App::has_key(const HttpRequest& request) const {
  if (options_.keys.empty()) return true;
  std::string_view given = request.header("authorization");
  if (given.substr(0, 7) == "Bearer " || given.substr(0, 7) == "bearer ")
    given.remove_prefix(7);
  else
    given = request.header("x-api-key");
  bool right = false;
  for (const std::string& key : options_.keys) right |= same_key(given, key);
  return right;
}

// In the server's thread: only what takes no time.
void App::take(std::shared_ptr<HttpExchange> exchange) {
  const HttpRequest& request = exchange->request();
  Call call{std::move(exchange), cors_headers(request), std::chrono::steady_clock::now()};
  const std::string& method = request.method;
  if (!knows_host(request))
    return refuse(
        call, ApiError(403, fmt::format("this server does not answer to the name '{}': ask for 127.0.0.1, "
                                        "start it with --allow-host, or with --api-key-file",
                                        request.header("host"))));
  if (method == "OPTIONS") {
    HttpHeaders headers = call.headers;
    // To browsers a star does not mean Authorization: they hear the names that they asked for.
    const std::string asked(request.header("access-control-request-headers"));
    const bool browser = request.header("origin").find("://") != std::string_view::npos;
    if (!headers.empty())
      headers.insert(headers.end(),
                     {{"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
                      {"Access-Control-Allow-Headers", browser && !asked.empty() ? asked : "*"},
                      {"Access-Control-Max-Age", "600"}});
    return call.exchange->reply(200, "", "", headers);
  }
  const bool get = method == "GET" || method == "HEAD";
  if (options_.page && get)
    if (const PageFile* file = find_page_file(request.path))
      return call.exchange->reply(200, file->type, file->text, page_headers());
  if (!is_free(request.path) && !has_key(request) && !has_ticket(request))
    return refuse(call, ApiError(401, "the API key is missing or wrong"));
  const auto route = routes().find(request.path);
  if (route == routes().end()) return refuse(call, ApiError(404, "there is nothing at this address"));
  if (route->second.first != (get ? "GET" : method))
    return refuse(call, ApiError(405, fmt::format("this address takes {}", route->second.first)));
  if (!ready_ && request.path != "/metrics") {
    ApiError loading(503, "the model is loading");
    loading.retry_after = 1;
    return refuse(call, loading);
  }
  // Looking at the server must work also when it is busy.
  const Route does = route->second.second;
  if (does == &App::health || does == &App::slots || does == &App::metrics || does == &App::models)
    return serve(call, does);
  call.slow = does == &App::embeddings || does == &App::redact_texts || does == &App::bundle ||
              does == &App::bundle_graph;
  queue(call, does);
}

void App::queue(const Call& call, Route route) {
  if ((call.slow ? slow_ : work_)->add([this, call, route] { serve(call, route); })) return;
  ApiError full(503, "the server is busy: too many requests wait");
  full.retry_after = 1;
  refuse(call, full);
}

void App::serve(const Call& call, Route route) {
  try {
    if (ending_) throw ApiError(503, "the server stops");
    (this->*route)(call);
  } catch (const WouldTakeLong&) {
    Call slow = call;
    slow.slow = true;
    queue(slow, route);
  } catch (const std::exception& problem) {
    refuse(call, as_api_error(problem));
  }
}

void App::reply(const Call& call, const Json& body, int status) {
  call.exchange->reply(status, "application/json", json_text(body), call.headers);
  log(call, status, Json::object());
}

void App::refuse(const Call& call, const ApiError& error) {
  HttpHeaders headers = call.headers;
  if (error.retry_after > 0) headers.emplace_back("Retry-After", std::to_string(error.retry_after));
  if (error.status() == 401) headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.status() == 501) headers.emplace_back("x-should-retry", "false");
  call.exchange->reply(error.status(), "application/json", json_text(error.body()), headers);
  log(call, error.status(), error.inside.empty() ? Json::object() : Json{{"fault", error.inside}});
}

void App::log(const Call& call, int status, const Json& about) {
  {
    const std::lock_guard lock(mutex_);
    ++answers_[status];
  }
  if (about.contains("fault") && options_.say) options_.say(about["fault"].get<std::string>());
  if (!options_.log) return;
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - call.start).count();
  Json line = {
      {"time", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()},
      {"method", call.request().method},
      {"path", call.request().path},
      {"status", status},
      {"ms", std::round(ms * 10) / 10}};
  if (about.contains("fault"))
    line["fault"] = about["fault"];
  else if (!about.empty())
    line["usage"] = about;
  if (options_.log_prompts && call.request().method == "POST") line["request"] = call.request().body;
  const std::lock_guard lock(mutex_);
  options_.log(line);
}

Json App::body_of(const Call& call) const { return parse_body(call.request().body); }

std::function<bool()> App::patience(const Call& call) const {
  const auto end = call.start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                    std::chrono::duration<double>(options_.shelf.scheduler.answer_seconds));
  return [this, end, exchange = call.exchange] {
    return !ending_ && !exchange->gone() && std::chrono::steady_clock::now() < end;
  };
}

// For work that its patience ended: a client that is still there hears why.
void App::end_unfinished(const Call& call) const {
  if (call.exchange->gone()) return;
  if (ending_) throw ApiError(503, "the server stops");
  throw ApiError(400,
                 fmt::format("the request takes longer than the limit of {:.0f} seconds: send less at once",
                             options_.shelf.scheduler.answer_seconds),
                 "input");
}

std::shared_ptr<ServedModel> App::model_named(const Call& call, const std::string& name) {
  if (auto model = shelf_->loaded(name)) return model;
  if (!call.slow) throw WouldTakeLong{};
  try {
    return shelf_->get(name);
  } catch (const std::exception& problem) {
    throw fault_of_server("the model cannot be loaded", problem);
  }
}

std::shared_ptr<ServedModel> App::model_of(const Call& call, const Json& body) {
  return model_named(call, Fields(body).text("model").value_or(""));
}

std::shared_ptr<ServedModel> App::text_model(const Call& call, const Json& body) {
  std::shared_ptr<ServedModel> model = model_of(call, body);
  if (!model->scheduler())
    throw ApiError(400, fmt::format("the model '{}' gives vectors or classes, not text", model->name()),
                   "model");
  return model;
}

ReplySetup App::setup_for(const Call& call, std::shared_ptr<ServedModel> model,
                          GenerationRequest request) const {
  ReplySetup out;
  out.exchange = call.exchange;
  out.model = std::move(model);
  out.request = std::move(request);
  out.headers = call.headers;
  out.on_end = [app = const_cast<App*>(this), call](int status, const Json& about) {
    app->log(call, status, about);
  };
  return out;
}

void App::submit(ServedModel& model, std::vector<AnswerTask> tasks) {
  const SchedulerOptions& limits = model.scheduler()->options();
  if (tasks.size() > limits.queue + limits.slots)
    throw ApiError(400, fmt::format("the request asks for {} answers, and the server takes {} at once",
                                    tasks.size(), limits.queue + limits.slots));
  if (model.scheduler()->submit(std::move(tasks))) return;
  ApiError full(503, "the server is busy: too many requests wait");
  full.retry_after = 1;
  throw full;
}

}  // namespace anemone::serve
