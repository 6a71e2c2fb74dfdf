// HttpParser: reads HTTP/1.1 requests from bytes as they come (RFC 9112).
//     HttpParser parser(limits);
//     parser.feed(bytes);
//     while (parser.next() == HttpParser::Step::request) handle(parser.take());
// Strict where laxity has been used for attacks: no folded headers, no length and chunks together, no second length, no
// control characters. What comes behind one request stays for the next.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace anemone::serve {

struct HttpRequest {
  std::string method, path, query;                           // the path with %XX undone
  std::vector<std::pair<std::string, std::string>> headers;  // names in small letters
  std::string body;
  bool old = false;  // HTTP/1.0: no chunks in the answer
  bool keep_alive = true;

  // The value, or an empty text.
  std::string_view header(std::string_view name) const;
};

struct HttpLimits {
  size_t head_bytes = 32 << 10;
  size_t headers = 100;
  size_t body_bytes = 16 << 20;
};

class HttpParser {
 public:
  enum class Step { more, request, refused };

  explicit HttpParser(HttpLimits limits = {}) : limits_(limits) {}

  void feed(std::string_view bytes) { buffer_ += bytes; }
  // Goes as far as the bytes reach. After `refused` nothing more is read.
  Step next();
  HttpRequest take();

  // For `refused`: the status to answer with, and why.
  int status() const { return status_; }
  const std::string& reason() const { return reason_; }
  // The head is there, the body is not, and the client waits for "100 Continue" before it sends it. Once.
  bool wants_continue();
  // Nothing of a request has come yet.
  bool idle() const { return where_ == Where::head && buffer_.empty(); }
  size_t buffered() const { return buffer_.size(); }

 private:
  enum class Where { head, body, chunk_size, chunk, chunk_end, trailers, done, broken };

  Step refuse(int status, std::string reason);
  Step read_head();
  Step read_line(std::string_view line);
  Step read_headers(std::string_view text);
  Step choose_body();
  Step read_body();
  Step too_large();
  Step read_chunk_size();
  bool split_target(std::string_view target);

  HttpLimits limits_;
  Where where_ = Where::head;
  std::string buffer_;
  HttpRequest request_;
  size_t left_ = 0;  // bytes of the body or chunk that are still to come
  size_t trailer_bytes_ = 0;
  bool continue_ = false;
  int status_ = 0;
  std::string reason_;
};

// The value of "name=value" in a query, with %XX undone; empty when it is not there.
std::string query_value(std::string_view query, std::string_view name);
// "a%20b" → "a b"; false for a % without two digits behind it.
bool percent_decoded(std::string_view text, std::string& out);

}  // namespace anemone::serve
