// The answer to one request: whole, or in chunks.
#include <fmt/format.h>

#include "serve/http_connection.h"
#include "serve/http_server.h"

namespace anemone::serve {

std::string_view status_text(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Unknown";
  }
}

HttpExchange::HttpExchange(HttpRequest request, std::shared_ptr<HttpConnection> connection,
                           const HttpHeaders& always)
    : request_(std::move(request)), connection_(std::move(connection)), always_(always) {}

HttpExchange::~HttpExchange() {
  if (!done_) connection_->finish(false);
}

bool HttpExchange::gone() const { return connection_->gone(); }

void HttpExchange::send_head(int status, std::string_view type, const HttpHeaders& more,
                             const std::string& length) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, status_text(status));
  if (!type.empty()) head += fmt::format("Content-Type: {}\r\n", type);
  for (const HttpHeaders* headers : {&always_, &more})
    for (const auto& [name, value] : *headers) head += fmt::format("{}: {}\r\n", name, value);
  if (!length.empty())
    head += fmt::format("Content-Length: {}\r\n", length);
  else if (chunked_)
    head += "Transfer-Encoding: chunked\r\n";
  if (!request_.keep_alive) head += "Connection: close\r\n";
  begun_ = true;
  connection_->send(head + "\r\n");
}

void HttpExchange::reply(int status, std::string_view type, std::string_view body, const HttpHeaders& more) {
  if (begun_) return;
  send_head(status, type, more, status == 204 || status == 304 ? "" : std::to_string(body.size()));
  if (request_.method != "HEAD" && status != 204 && status != 304) connection_->send(body);
  done_ = true;
  connection_->finish(request_.keep_alive);
}

void HttpExchange::begin(int status, std::string_view type, const HttpHeaders& more) {
  if (begun_) return;
  chunked_ = !request_.old;
  if (!chunked_) request_.keep_alive = false;
  send_head(status, type, more, "");
}

void HttpExchange::write(std::string_view piece) {
  if (piece.empty() || done_ || request_.method == "HEAD") return;
  connection_->send(chunked_ ? fmt::format("{:x}\r\n{}\r\n", piece.size(), piece) : std::string(piece));
}

void HttpExchange::end() {
  if (done_) return;
  if (chunked_ && request_.method != "HEAD") connection_->send("0\r\n\r\n");
  done_ = true;
  connection_->finish(request_.keep_alive);
}

}  // namespace anemone::serve
