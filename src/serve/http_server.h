// HttpServer: answers HTTP on a socket. One thread waits for all connections; answers may be written from any thread,
// and a client that reads slowly holds up nobody.
//     HttpServer server({.port = 8080}, [](std::shared_ptr<HttpExchange> x) { x->reply(200, "text/plain", "hello"); });
//     server.run();                               // until stop(), which a signal handler may call
// Its own poll loop and not a thread per connection: thousands of idle clients cost a file descriptor each.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/http_parser.h"

namespace anemone::serve {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8080;  // 0: any that is free
  size_t most_connections = 1024;
  size_t most_per_client = 0;     // connections from one address; 0: as many as in all
  double idle_seconds = 120;      // between requests
  double request_seconds = 30;    // from the first byte of a request to its last
  double stall_seconds = 60;      // a client that takes nothing of an answer for so long is left
  double stop_seconds = 10;       // what answers get when the server stops, and then a second to be taken
  size_t most_unread = 16 << 20;  // bytes of an answer that wait for a slow reader
  HttpLimits limits;
  HttpHeaders headers;  // of every answer
};

class HttpConnection;

// One request and its answer. Any thread may write; after the client is gone writing does nothing.
class HttpExchange {
 public:
  HttpExchange(HttpRequest request, std::shared_ptr<HttpConnection> connection, const HttpHeaders& always);
  ~HttpExchange();  // an answer that nobody finished is cut off

  const HttpRequest& request() const { return request_; }
  // A whole answer.
  void reply(int status, std::string_view type, std::string_view body, const HttpHeaders& more = {});
  // An answer that comes in pieces.
  void begin(int status, std::string_view type, const HttpHeaders& more = {});
  void write(std::string_view piece);
  void end();
  bool begun() const { return begun_; }
  // The client hung up, or was left.
  bool gone() const;

 private:
  void send_head(int status, std::string_view type, const HttpHeaders& more, const std::string& length);

  HttpRequest request_;
  std::shared_ptr<HttpConnection> connection_;
  const HttpHeaders& always_;
  bool begun_ = false, chunked_ = false, done_ = false;
};

class HttpServer {
 public:
  // Called in the server's own thread: it hands the exchange to somebody and returns.
  using Handler = std::function<void(std::shared_ptr<HttpExchange>)>;

  // Binds at once; Error when the address is taken.
  HttpServer(HttpOptions options, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }
  void run();
  // From any thread or a signal handler: no new requests; answers under way may end.
  void stop();
  bool stopping() const { return stop_; }
  size_t connections() const { return open_; }
  uint64_t turned_away() const { return turned_away_; }

 private:
  friend class HttpConnection;
  using Clock = std::chrono::steady_clock;

  void accept_some();
  void make_room(const std::string* peer);
  void read_from(const std::shared_ptr<HttpConnection>& connection);
  void serve_next(const std::shared_ptr<HttpConnection>& connection);
  void close_overdue();
  bool finished();
  void wake();

  HttpOptions options_;
  Handler handler_;
  int listener_ = -1, port_ = 0, wake_[2] = {-1, -1};
  std::atomic<bool> stop_ = false;
  std::atomic<size_t> open_ = 0;
  std::atomic<uint64_t> turned_away_ = 0;
  std::map<std::string, size_t> per_client_;
  std::vector<std::shared_ptr<HttpConnection>> connections_;
  Clock::time_point stop_at_{}, no_room_until_{};
};

std::string_view status_text(int status);

}  // namespace anemone::serve
