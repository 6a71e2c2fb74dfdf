#include "support/loopback_hub.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/sha256.h"
#include "hub/url.h"

namespace anemone::test {
namespace {

using Json = nlohmann::ordered_json;

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

bool send_all(int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::string read_head(int socket) {
  std::string text;
  char buffer[4096];
  while (text.find("\r\n\r\n") == text.npos && text.size() < 65536) {
    const ssize_t n = ::recv(socket, buffer, sizeof buffer, 0);
    if (n <= 0) return "";
    text.append(buffer, static_cast<size_t>(n));
  }
  return text;
}

LoopbackHub::Seen parse(const std::string& head) {
  LoopbackHub::Seen out;
  const size_t a = head.find(' '), b = head.find(' ', a + 1);
  out.method = head.substr(0, a);
  out.target = head.substr(a + 1, b - a - 1);
  for (size_t at = head.find("\r\n") + 2; at < head.size();) {
    const size_t end = head.find("\r\n", at), colon = head.find(':', at);
    if (end == head.npos || colon == head.npos || colon > end) break;
    std::string name = head.substr(at, colon - at);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    out.headers[name] = head.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  return out;
}

// "a/b/resolve/main/x" cut at a word: what stands before it and after the revision behind it.
std::optional<std::pair<std::string, std::string>> around(const std::string& path, const std::string& word) {
  const size_t at = path.find(word);
  if (at == path.npos) return std::nullopt;
  const size_t slash = path.find('/', at + word.size());
  return std::pair(path.substr(0, at), slash == path.npos ? "" : hub::unescape(path.substr(slash + 1)));
}

}  // namespace

LoopbackHub::LoopbackHub() {
  // A proxy of the machine must not come between.
  ::setenv("no_proxy", "127.0.0.1,localhost", 1);
  listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw Error("no port on 127.0.0.1 for the test's hub");
  port_ = ntohs(address.sin_port);
  server_ = std::thread([this] { serve(); });
}

LoopbackHub::~LoopbackHub() {
  stop_ = true;
  server_.join();
  for (std::thread& worker : workers_) worker.join();
  ::close(listener_);
}

void LoopbackHub::serve() {
  while (!stop_) {
    pollfd waiting{.fd = listener_, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, 20) <= 0) continue;
    const int socket = ::accept(listener_, nullptr, nullptr);
    if (socket >= 0)
      workers_.emplace_back([this, socket] {
        handle(socket);
        ::shutdown(socket, SHUT_RDWR);
        ::close(socket);
      });
  }
}

void LoopbackHub::handle(int socket) {
  const std::string head = read_head(socket);
  if (head.empty()) return;
  const Seen request = parse(head);
  std::optional<Trouble> trouble;
  Answer out;
  {
    const std::lock_guard lock(mutex_);
    seen_.push_back(request);
    for (Trouble& t : troubles_)
      if (t.times > 0 && request.target.find(t.at) != std::string::npos) {
        --t.times;
        trouble = t;
        break;
      }
    std::string target = request.target;
    if (target.starts_with("http://")) target = target.substr(target.find('/', 7));  // as proxies are asked
    out = answer(request, target);
  }
  reply(socket, request, std::move(out), trouble ? &*trouble : nullptr);
}

void LoopbackHub::reply(int socket, const Seen& request, Answer a, const Trouble* trouble) {
  const auto is = [&](Kind kind) { return trouble && trouble->kind == kind; };
  if (is(status)) a = {.status = trouble->code, .headers = {trouble->text}, .body = "no", .etag = ""};
  if (is(redirect)) a = {.status = 302, .headers = {"Location: " + trouble->text}, .body = "", .etag = ""};
  if (is(body)) a = {.status = 200, .headers = {}, .body = trouble->text, .etag = ""};
  if (is(wrong_bytes) && !a.body.empty()) a.body[0] = static_cast<char>(a.body[0] ^ 1);
  const auto range = request.headers.find("range");
  const auto condition = request.headers.find("if-range");
  const bool same = condition == request.headers.end() || condition->second == a.etag;
  if (a.ranged && a.status == 200 && range != request.headers.end() && same && !is(ignore_range)) {
    const size_t from = std::strtoull(range->second.c_str() + 6, nullptr, 10);  // "bytes=5-"
    if (from >= a.body.size()) {
      a.status = 416;
      a.body.clear();
    } else {
      const size_t sent = is(other_range) ? from / 2 : from, whole = a.body.size();
      a.status = 206;
      a.body = a.body.substr(sent);
      a.headers.push_back(fmt::format("Content-Range: bytes {}-{}/{}", sent, whole - 1, whole));
    }
  }
  std::string head = fmt::format("HTTP/1.1 {} -\r\nConnection: close\r\n", a.status);
  for (const std::string& line : a.headers)
    if (!line.empty()) head += line + "\r\n";
  if (!a.etag.empty()) head += "ETag: " + a.etag + "\r\n";
  if (is(more_bytes))
    a.body += std::string(1000, 'x');
  else
    head += fmt::format("Content-Length: {}\r\n", a.body.size());
  if (!send_all(socket, head + "\r\n") || request.method == "HEAD") return;
  const bool partly = is(cut) || is(stall);
  send_all(socket, std::string_view(a.body).substr(0, partly ? trouble->after : a.body.size()));
  for (int i = 0; is(stall) && !stop_ && i < 3000; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

LoopbackHub::Answer LoopbackHub::answer(const Seen& request, const std::string& target) const {
  const std::string path = target.substr(1, target.find('?') - 1);
  const Answer unknown{.status = 404, .headers = {}, .body = "not found", .etag = ""};
  if (path.starts_with("api/models")) return api(target, request);
  if (path.starts_with("files/")) {
    const auto file = plain_.find(path.substr(6));
    if (file == plain_.end()) return unknown;
    return {.headers = {}, .body = file->second, .ranged = true, .etag = '"' + hash_of(file->second) + '"'};
  }
  if (path.starts_with("cdn/")) {
    for (const auto& [repo, files] : repos_)
      for (const auto& [name, file] : files)
        if (file.sha256 == path.substr(4))
          return {.headers = {}, .body = file.bytes, .ranged = true, .etag = "\"of-the-cdn\""};
    return unknown;
  }
  if (const auto found = around(path, "/resolve/")) {
    if (Answer no = refuse(request, found->first); no.status != 200) return no;
    return resolved(found->first, found->second);
  }
  return unknown;
}

LoopbackHub::Answer LoopbackHub::refuse(const Seen& request, const std::string& repo) const {
  if (!repos_.contains(repo))
    return {
        .status = 401, .headers = {"X-Error-Code: RepoNotFound"}, .body = "Repository not found", .etag = ""};
  const auto gate = gates_.find(repo);
  const auto token = request.headers.find("authorization");
  if (gate == gates_.end() || (token != request.headers.end() && token->second == "Bearer " + gate->second))
    return {};
  return {.status = 403, .headers = {"X-Error-Code: GatedRepo"}, .body = "gated", .etag = ""};
}

LoopbackHub::Answer LoopbackHub::resolved(const std::string& repo, const std::string& path) const {
  const auto& files = repos_.at(repo);
  const auto file = files.find(path);
  if (file == files.end())
    return {.status = 404, .headers = {"X-Error-Code: EntryNotFound"}, .body = "", .etag = ""};
  const std::string& bytes = file->second.bytes;
  const std::string commit = "X-Repo-Commit: " + commit_of(repo);
  if (file->second.size == small)
    return {.headers = {commit},
            .body = bytes,
            .ranged = true,
            .etag = '"' + file->second.sha256.substr(0, 40) + '"'};
  return {.status = 302,
          .headers = {commit, "Location: " + other_host() + "/cdn/" + file->second.sha256,
                      "X-Linked-ETag: \"" + file->second.sha256 + "\"",
                      fmt::format("X-Linked-Size: {}", bytes.size())},
          .body = "",
          .etag = "\"of-the-redirect\""};
}

LoopbackHub::Answer LoopbackHub::api(const std::string& target, const Seen& request) const {
  const std::string path = target.substr(0, target.find('?'));
  Json out = Json::array();
  if (path == "/api/models") {
    const size_t author = target.find("author=");
    const std::string owner = target.substr(author + 7, target.find('&') - author - 7) + "/";
    for (const auto& [repo, files] : repos_)
      if (repo.starts_with(owner)) out.push_back({{"id", repo}});
    return {.headers = {"Content-Type: application/json"}, .body = out.dump(), .etag = ""};
  }
  const auto revision = around(path.substr(12), "/revision/"), tree = around(path.substr(12), "/tree/");
  const std::string repo = revision ? revision->first : tree ? tree->first : path.substr(12);
  if (Answer no = refuse(request, repo); no.status != 200) return no;
  const std::string word = revision ? "/revision/" : "/tree/";
  const std::string asked = (revision || tree) ? path.substr(path.find(word) + word.size()) : "main";
  const std::string commit = commit_of(repo);
  if (asked != "main" && asked != commit)
    return {.status = 404, .headers = {"X-Error-Code: RevisionNotFound"}, .body = "", .etag = ""};
  for (const auto& [name, file] : repos_.at(repo)) {
    Json entry = {{tree ? "path" : "rfilename", name}};
    if (tree) entry["type"] = "file";
    if (details_ || tree) entry["size"] = file.bytes.size();
    if (details_ || tree) entry[tree ? "oid" : "blobId"] = file.sha256.substr(0, 40);
    if ((details_ || tree) && file.size == large)
      entry["lfs"] = {
          {tree ? "oid" : "sha256", file.sha256}, {"size", file.bytes.size()}, {"pointerSize", 134}};
    out.push_back(entry);
  }
  if (!tree) out = Json{{"id", repo}, {"sha", commit}, {"siblings", out}};
  return {.headers = {"Content-Type: application/json"}, .body = out.dump(), .etag = ""};
}

void LoopbackHub::add(const std::string& repo, const std::string& file, std::string bytes, Size size) {
  const std::lock_guard lock(mutex_);
  std::string hash = sha256(bytes);
  repos_[repo][file] = {std::move(bytes), std::move(hash), size};
}

void LoopbackHub::add_plain(const std::string& name, std::string bytes) {
  const std::lock_guard lock(mutex_);
  plain_[name] = std::move(bytes);
}

void LoopbackHub::gate(const std::string& repo, const std::string& token) {
  const std::lock_guard lock(mutex_);
  gates_[repo] = token;
}

void LoopbackHub::trouble(Trouble t) {
  const std::lock_guard lock(mutex_);
  troubles_.push_back(std::move(t));
}

std::string LoopbackHub::commit_of(const std::string& repo) const {
  Sha256 hash;
  for (const auto& [name, file] : repos_.at(repo)) hash.add(name + " " + file.sha256 + "\n");
  return hash.hex().substr(0, 40);
}

std::string LoopbackHub::commit(const std::string& repo) const {
  const std::lock_guard lock(mutex_);
  return commit_of(repo);
}

std::string LoopbackHub::hash_of(std::string_view bytes) { return sha256(bytes).substr(0, 40); }

std::vector<LoopbackHub::Seen> LoopbackHub::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

int LoopbackHub::count(const std::string& method, const std::string& part) const {
  const std::vector<Seen> all = seen();
  return static_cast<int>(std::count_if(all.begin(), all.end(), [&](const Seen& s) {
    return s.method == method && s.target.find(part) != std::string::npos;
  }));
}

void LoopbackHub::forget() {
  const std::lock_guard lock(mutex_);
  seen_.clear();
}

}  // namespace anemone::test
