// HttpClient: requests over libcurl. Redirects are followed here, so that the token stays
// with the host that it is for and no hop is unprotected.
//     HttpClient http(settings);
//     Response r = http.send({.url = "https://huggingface.co/api/models/gpt2/revision/main"});
//     if (r.status == 200) use(r.body);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "anemone/error.h"
#include "hub/settings.h"

namespace anemone::hub {

struct Response {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in small letters
  std::string body;                            // where there was no sink; of an error its first part
  std::string url;                             // after redirects

  // "" for one that is not there.
  std::string header(const std::string& name) const;
  std::optional<uint64_t> number(const std::string& name) const;
  bool good() const { return status >= 200 && status < 300; }
};

// Where the bytes of a good answer go.
class Sink {
 public:
  virtual ~Sink() = default;
  // Before the first byte: status and headers are known.
  virtual void begin(const Response& head) = 0;
  virtual void write(std::span<const std::byte> bytes) = 0;
};

struct Request {
  std::string url;
  std::string method = "GET";        // or HEAD
  std::vector<std::string> headers;  // "Range: bytes=5-"
  Sink* sink = nullptr;              // null: into Response::body
  bool stop_at_linked_file = false;  // a redirect that names hash and size of the file is the answer
};

// The connection broke, or was never made: another attempt may help.
class Broken : public Error {
 public:
  explicit Broken(std::string message, bool never_connected = false)
      : Error(std::move(message)), never_connected_(never_connected) {}

  // There was no connection at all: less patience is needed.
  bool never_connected() const { return never_connected_; }

 private:
  bool never_connected_;
};

using Note = std::function<void(const std::string& text)>;

class HttpClient {
 public:
  HttpClient(Settings settings, Note note);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  const Settings& settings() const { return settings_; }

  // One attempt. Broken where no whole answer came; any status is an answer.
  Response attempt(const Request& request);
  // Several attempts, with pauses, as long as the answer is Broken or "later" (429, 5xx). For requests without a sink.
  Response send(const Request& request);
  void note(const std::string& text) const {
    if (note_) note_(text);
  }

 private:
  struct Handle;
  Response hop(const Request& request, const std::string& url, bool with_token);

  Settings settings_;
  Note note_;
  std::unique_ptr<Handle> handle_;
};

// Patience: the pauses between attempts; ends them with the last reason.
//     for (Patience patience(http, what);; patience.pause(reason)) …
class Patience {
 public:
  Patience(const HttpClient& http, std::string what) : http_(http), what_(std::move(what)) {}

  // Throws `why` once all attempts are used.
  void pause(const Broken& why, std::optional<double> asked_s = std::nullopt);
  // There was progress: begin to count anew.
  void reset() { failed_ = 0; }

 private:
  const HttpClient& http_;
  std::string what_;
  int failed_ = 0;
};

// An answer that means "ask again later", as what to do about it; nothing for others.
std::optional<Broken> busy(const Response& response);
// Seconds that a server asks to wait: Retry-After, as a number.
std::optional<double> retry_after(const Response& response);

}  // namespace anemone::hub
