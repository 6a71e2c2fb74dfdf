// HttpConnection: one client's socket. The server's thread reads from it and closes it; any thread may send.
//     connection->send("HTTP/1.1 200 OK\r\n…");
//     connection->finish(true);                  // the answer is whole; the next request may come
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "serve/http_parser.h"

namespace anemone::serve {

class HttpConnection {
 public:
  using Clock = std::chrono::steady_clock;

  HttpConnection(int fd, std::string peer, HttpLimits limits, size_t most_unread, std::function<void()> wake);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Sends at once what the socket takes and keeps the rest.
  void send(std::string_view bytes);
  void finish(bool keep_alive);
  bool gone() const { return gone_; }

  // For the server's thread alone.
  int fd() const { return fd_; }
  const std::string& peer() const { return peer_; }
  HttpParser& parser() { return parser_; }
  bool waiting_to_send();
  // Whether an answer ended since this was asked last.
  bool answered() { return answered_.exchange(false); }
  void send_more();
  bool busy() const { return busy_; }
  void set_busy() { busy_ = true, spoke_ = true; }
  bool silent() const { return !spoke_ && parser_.idle(); }  // not a byte has come
  // The last answer is out, and no other may follow.
  bool should_close();
  // Says goodbye: no more is sent, and what still comes is thrown away for a moment, so that the client sees the
  // answer.
  void half_close();
  bool draining() const { return draining_; }
  void leave() { gone_ = true; }
  Clock::time_point since{};  // the start of what it does now: idle, sending a request, draining
  Clock::time_point progress();

 private:
  void try_to_send();

  const int fd_;
  const std::string peer_;
  const size_t most_unread_;
  const std::function<void()> wake_;
  HttpParser parser_;
  std::mutex mutex_;
  std::string out_;
  size_t sent_ = 0;  // of out_
  Clock::time_point progress_;
  std::atomic<bool> busy_ = false, answered_ = false, last_ = false, gone_ = false;
  bool draining_ = false, spoke_ = false;
};

}  // namespace anemone::serve
