#include "serve/http_parser.h"

#include <algorithm>

namespace anemone::serve {
namespace {

bool is_token_char(unsigned char c) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         kMarks.find(static_cast<char>(c)) != kMarks.npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return is_token_char(static_cast<unsigned char>(c)); });
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Digits of a base, at most `most`; false for anything else.
bool read_number(std::string_view text, int base, size_t most, size_t& out) {
  out = 0;
  if (text.empty() || text.size() > 16) return false;
  for (const char c : text) {
    const int digit = hex_digit(c);
    if (digit < 0 || digit >= base) return false;
    out = out * static_cast<size_t>(base) + static_cast<size_t>(digit);
  }
  if (out > most) out = most + 1;
  return true;
}

// A list such as "keep-alive, Upgrade" has a word.
bool lists(std::string_view header, std::string_view word) {
  const std::string all = lower(header);
  for (std::string_view rest = all; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    if (trimmed(rest.substr(0, comma)) == word) return true;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return false;
}

}  // namespace

bool percent_decoded(std::string_view text, std::string& out) {
  out.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1,
              low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low < 0) return false;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

HttpParser::Step HttpParser::refuse(int status, std::string reason) {
  where_ = Where::broken;
  status_ = status;
  reason_ = std::move(reason);
  buffer_.clear();
  return Step::refused;
}

HttpParser::Step HttpParser::next() {
  for (;;) {
    Step step = Step::more;
    const Where before = where_;
    switch (where_) {
      case Where::head: step = read_head(); break;
      case Where::chunk_size:
      case Where::chunk_end:
      case Where::trailers: step = read_chunk_size(); break;
      case Where::body:
      case Where::chunk: step = read_body(); break;
      case Where::done: return Step::request;
      case Where::broken: return Step::refused;
    }
    if (step == Step::refused || where_ == before) return step;
  }
}

HttpRequest HttpParser::take() {
  HttpRequest out = std::move(request_);
  request_ = {};
  where_ = Where::head;
  trailer_bytes_ = 0;
  continue_ = false;
  return out;
}

bool HttpParser::wants_continue() {
  const bool out = continue_ && where_ != Where::done && where_ != Where::broken;
  continue_ = false;
  return out;
}

HttpParser::Step HttpParser::read_head() {
  // Empty lines before a request are allowed (RFC 9112, 2.2).
  while (buffer_.starts_with("\r\n")) buffer_.erase(0, 2);
  const size_t end = buffer_.find("\r\n\r\n");
  if (end == buffer_.npos || end > limits_.head_bytes) {
    if (buffer_.size() > limits_.head_bytes) return refuse(431, "the head of the request is too large");
    return Step::more;
  }
  const std::string head = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  const size_t line = head.find("\r\n");
  if (const Step step = read_line(std::string_view(head).substr(0, line)); step == Step::refused) return step;
  if (const Step step = read_headers(std::string_view(head).substr(line + 2)); step == Step::refused)
    return step;
  return choose_body();
}

bool HttpParser::split_target(std::string_view target) {
  if (target == "*") return request_.path = "*", true;
  if (target.starts_with("http://")) {  // as sent to proxies
    const size_t slash = target.find('/', 7);
    target = slash == target.npos ? "/" : target.substr(slash);
  }
  if (!target.starts_with('/')) return false;
  const size_t mark = std::min(target.find('?'), target.size());
  request_.query = mark < target.size() ? std::string(target.substr(mark + 1)) : "";
  return percent_decoded(target.substr(0, mark), request_.path) &&
         request_.path.find('\0') == std::string::npos;
}

HttpParser::Step HttpParser::read_line(std::string_view line) {
  const size_t a = line.find(' '), b = line.rfind(' ');
  if (a == line.npos || a == b) return refuse(400, "the first line is not METHOD TARGET HTTP/1.1");
  request_.method = std::string(line.substr(0, a));
  const std::string_view target = line.substr(a + 1, b - a - 1), version = line.substr(b + 1);
  const bool plain = std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 127; });
  if (!is_token(request_.method) || !plain || !split_target(target))
    return refuse(400, "the first line is not METHOD TARGET HTTP/1.1");
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return version.starts_with("HTTP/") ? refuse(505, "only HTTP/1.1 and HTTP/1.0 are spoken here")
                                        : refuse(400, "the first line is not METHOD TARGET HTTP/1.1");
  request_.old = version == "HTTP/1.0";
  return Step::more;
}

HttpParser::Step HttpParser::read_headers(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find("\r\n");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 2);
    const size_t colon = line.find(':');
    if (colon == line.npos || !is_token(line.substr(0, colon))) return refuse(400, "a header is malformed");
    const std::string_view value = trimmed(line.substr(colon + 1));
    const bool clean = std::all_of(value.begin(), value.end(), [](char c) {
      return static_cast<unsigned char>(c) >= ' ' ? c != 127 : c == '\t';
    });
    if (!clean) return refuse(400, "a header is malformed");
    if (request_.headers.size() >= limits_.headers) return refuse(431, "the request has too many headers");
    request_.headers.emplace_back(lower(line.substr(0, colon)), value);
  }
  return Step::more;
}

HttpParser::Step HttpParser::choose_body() {
  const auto count = [&](std::string_view name) {
    return std::count_if(request_.headers.begin(), request_.headers.end(),
                         [&](const auto& h) { return h.first == name; });
  };
  if (count("host") > 1 || (count("host") == 0 && !request_.old))
    return refuse(400, "there must be one Host header");
  const std::string_view connection = request_.header("connection");
  request_.keep_alive = request_.old ? lists(connection, "keep-alive") : !lists(connection, "close");
  const auto lengths = count("content-length"), codings = count("transfer-encoding");
  if (lengths > 1 || codings > 1 || (lengths && codings))
    return refuse(400, "the length of the body is said twice");
  continue_ = lower(request_.header("expect")) == "100-continue" && !request_.old;
  if (codings) {
    if (lower(request_.header("transfer-encoding")) != "chunked" || request_.old)
      return refuse(501, "of the transfer codings only chunked is known");
    where_ = Where::chunk_size;
    return Step::more;
  }
  left_ = 0;
  if (lengths && !read_number(request_.header("content-length"), 10, limits_.body_bytes, left_))
    return refuse(400, "the length of the body is no number");
  if (left_ > limits_.body_bytes) return too_large();
  where_ = left_ ? Where::body : Where::done;
  return left_ ? Step::more : Step::request;
}

std::string query_value(std::string_view query, std::string_view name) {
  for (std::string_view rest = query; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('&'));
    std::string value;
    if (part.size() > name.size() && part.starts_with(name) && part[name.size()] == '=' &&
        percent_decoded(part.substr(name.size() + 1), value))
      return value;
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  }
  return "";
}

HttpParser::Step HttpParser::too_large() {
  return refuse(413, "the body is larger than the limit of " + std::to_string(limits_.body_bytes) + " bytes");
}

HttpParser::Step HttpParser::read_body() {
  const size_t count = std::min(left_, buffer_.size());
  request_.body.append(buffer_, 0, count);
  buffer_.erase(0, count);
  left_ -= count;
  if (left_ == 0) where_ = where_ == Where::body ? Where::done : Where::chunk_end;
  return Step::more;
}

// A line between chunks: the end of one, the size of the next, or what comes behind the last.
HttpParser::Step HttpParser::read_chunk_size() {
  size_t end = buffer_.find("\r\n");
  for (; where_ == Where::trailers && end != buffer_.npos; end = buffer_.find("\r\n")) {
    trailer_bytes_ += end + 2;
    if (trailer_bytes_ > limits_.head_bytes) return refuse(431, "the trailers are too large");
    if (end == 0) where_ = Where::done;
    buffer_.erase(0, end + 2);
    if (where_ == Where::done) return Step::more;
  }
  if (end == buffer_.npos || end > 4096)
    return buffer_.size() > 4096 ? refuse(400, "a chunk of the body is malformed") : Step::more;
  const std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  if (where_ == Where::chunk_end) {
    if (!line.empty()) return refuse(400, "a chunk of the body is malformed");
    where_ = Where::chunk_size;
    return Step::more;
  }
  const std::string_view size = trimmed(std::string_view(line).substr(0, line.find(';')));
  if (!read_number(size, 16, limits_.body_bytes, left_))
    return refuse(400, "a chunk of the body is malformed");
  if (request_.body.size() + left_ > limits_.body_bytes) return too_large();
  where_ = left_ ? Where::chunk : Where::trailers;
  return Step::more;
}

}  // namespace anemone::serve
