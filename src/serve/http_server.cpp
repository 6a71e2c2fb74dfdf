#include "serve/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "serve/http_connection.h"

namespace anemone::serve {
namespace {

constexpr size_t kMostAhead = 1 << 16;  // bytes of next requests that are read while one is answered
constexpr int kMostAccepts = 256;       // between two looks at the others: a flood of clients holds up nobody
constexpr double kDrainSeconds = 2, kFarewellSeconds = 10;
// A client makes room for a new one when it has said nothing for so long, has been idle between requests, or has taken
// its time with a request.
constexpr double kSilentSeconds = 0.5, kSpareSeconds = 5;

void set_flags(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

std::string address_text(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text, sizeof text);
  else
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  return text;
}

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

int listening_socket(const std::string& host, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  const std::string service = std::to_string(port);
  if (const int e = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &found))
    throw errorf("the host '{}' has no address", host).found(::gai_strerror(e));
  int fd = -1, problem = 0;
  for (const addrinfo* a = found; a && fd < 0; a = a->ai_next) {
    fd = ::socket(a->ai_family, a->ai_socktype, a->ai_protocol);
    if (fd < 0) continue;
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(fd, a->ai_addr, a->ai_addrlen) == 0 && ::listen(fd, 512) == 0) break;
    problem = errno;
    ::close(fd);
    fd = -1;
  }
  ::freeaddrinfo(found);
  if (fd < 0)
    throw errorf("cannot listen on {} port {}", host, port)
        .found(std::strerror(problem))
        .hint(problem == EADDRINUSE ? "another program has this port: choose another with --port"
                                    : "see --host and --port");
  set_flags(fd);
  return fd;
}

// Every connection is a file descriptor.
void raise_file_limit(size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::string refusal_of_a_connection() {
  constexpr std::string_view kBody =
      R"({"error":{"message":"the server has too many connections","type":"unavailable_error",)"
      R"("param":null,"code":503}})";
  return fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: "
      "1\r\nContent-Length: "
      "{}\r\nConnection: close\r\n\r\n{}",
      kBody.size(), kBody);
}

}  // namespace

HttpServer::HttpServer(HttpOptions options, Handler handler)
    : options_(std::move(options)), handler_(std::move(handler)) {
  raise_file_limit(options_.most_connections + 256);
  listener_ = listening_socket(options_.host, options_.port);
  port_ = port_of(listener_);
  if (::pipe(wake_) != 0) throw errorf("cannot make a pipe").found(std::strerror(errno));
  set_flags(wake_[0]);
  set_flags(wake_[1]);
}

HttpServer::~HttpServer() {
  for (const auto& connection : connections_) connection->leave();
  for (const int fd : {listener_, wake_[0], wake_[1]})
    if (fd >= 0) ::close(fd);
}

void HttpServer::wake() {
  const char byte = 0;
  [[maybe_unused]] const ssize_t n = ::write(wake_[1], &byte, 1);
}

void HttpServer::stop() {
  stop_ = true;
  wake();
}

void HttpServer::accept_some() {
  for (int i = 0; i < kMostAccepts; ++i) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    const int fd = ::accept(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    if (fd < 0) {
      if (errno == EINTR) continue;
      if (errno == EMFILE || errno == ENFILE)
        ::usleep(10'000);  // the system is full: others may end meanwhile
      return;
    }
    set_flags(fd);
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
#ifdef SO_NOSIGPIPE
    ::setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    const std::string peer = address_text(address);
    const size_t most_here = options_.most_per_client ? options_.most_per_client : options_.most_connections;
    const auto from_here = [&] {
      const auto known = per_client_.find(peer);
      return known == per_client_.end() ? 0 : known->second;
    };
    if (options_.most_per_client && from_here() >= most_here) make_room(&peer);
    if (connections_.size() >= options_.most_connections) make_room(nullptr);
    if (connections_.size() >= options_.most_connections || from_here() >= most_here) {
      ++turned_away_;
      static const std::string kFull = refusal_of_a_connection();
      [[maybe_unused]] const ssize_t n = ::send(fd, kFull.data(), kFull.size(), 0);
      ::close(fd);
      continue;
    }
    ++per_client_[peer];
    connections_.push_back(std::make_shared<HttpConnection>(fd, peer, options_.limits, options_.most_unread,
                                                            [this] { wake(); }));
  }
}

// The client that has waited longest beyond its patience goes, if there is one; `peer`: of these alone. Where there is
// none, nobody is looked at again before there can be one: a flood of clients costs no look at all others each.
void HttpServer::make_room(const std::string* peer) {
  const Clock::time_point now = Clock::now();
  if (!peer && now < no_room_until_) return;
  double soonest = kSilentSeconds;  // who is busy now, or comes now, gets there no sooner
  std::shared_ptr<HttpConnection> idlest;
  double most = 0;
  for (const auto& c : connections_) {
    if (c->busy() || c->draining() || c->waiting_to_send() || (peer && c->peer() != *peer)) continue;
    if (c->answered()) c->since = now;
    const double over = std::chrono::duration<double>(now - c->since).count() -
                        (c->silent() ? kSilentSeconds : kSpareSeconds);
    soonest = std::min(soonest, -over);
    if (over <= most) continue;
    most = over;
    idlest = c;
  }
  if (!idlest) {
    if (!peer)
      no_room_until_ =
          now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(soonest));
    return;
  }
  idlest->leave();
  close_overdue();
}

void HttpServer::read_from(const std::shared_ptr<HttpConnection>& connection) {
  char buffer[16384];
  const ssize_t n = ::recv(connection->fd(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (n <= 0) return connection->leave();
  if (connection->draining()) return;
  if (connection->parser().idle()) connection->since = Clock::now();
  connection->parser().feed({buffer, static_cast<size_t>(n)});
}

// Hands on the next request that is whole, one at a time.
void HttpServer::serve_next(const std::shared_ptr<HttpConnection>& connection) {
  if (connection->busy() || connection->draining() || connection->gone()) return;
  if (connection->should_close()) return connection->half_close();
  HttpParser& parser = connection->parser();
  if (parser.idle()) return;
  const HttpParser::Step step = parser.next();
  if (parser.wants_continue()) connection->send("HTTP/1.1 100 Continue\r\n\r\n");
  if (step == HttpParser::Step::more) return;
  HttpRequest request;
  if (step == HttpParser::Step::request) request = parser.take();
  connection->since = Clock::now();
  connection->set_busy();
  if (stop_ || step == HttpParser::Step::refused) request.keep_alive = false;
  auto exchange = std::make_shared<HttpExchange>(std::move(request), connection, options_.headers);
  if (step == HttpParser::Step::request) return handler_(std::move(exchange));
  exchange->reply(
      parser.status(), "application/json",
      fmt::format(R"({{"error":{{"message":"{}","type":"invalid_request_error","param":null,"code":{}}}}})",
                  parser.reason(), parser.status()));
}

void HttpServer::close_overdue() {
  const Clock::time_point now = Clock::now();
  const auto over = [&](Clock::time_point since, double seconds) {
    return std::chrono::duration<double>(now - since).count() > seconds;
  };
  for (const auto& c : connections_) {
    const bool sending = c->waiting_to_send();
    if (sending && over(c->progress(), options_.stall_seconds)) c->leave();
    if (c->draining() && over(c->since, kDrainSeconds)) c->leave();
    if (c->busy() || sending || c->draining()) continue;
    if (c->answered()) c->since = now;  // the time between requests begins with the end of an answer
    if (over(c->since, c->parser().idle() ? options_.idle_seconds : options_.request_seconds)) c->leave();
    if (stop_ && c->parser().idle()) c->leave();
  }
  const auto left = std::stable_partition(connections_.begin(), connections_.end(),
                                          [](const auto& c) { return !c->gone(); });
  for (auto it = left; it != connections_.end(); ++it)
    if (--per_client_[(*it)->peer()] == 0) per_client_.erase((*it)->peer());
  connections_.erase(left, connections_.end());
  open_ = connections_.size();
}

bool HttpServer::finished() {
  if (!stop_) return false;
  if (stop_at_ == Clock::time_point{})
    stop_at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(options_.stop_seconds + kFarewellSeconds));
  return connections_.empty() || Clock::now() > stop_at_;
}

void HttpServer::run() {
  std::vector<pollfd> polled;
  while (!finished()) {
    polled.assign({{wake_[0], POLLIN, 0}, {stop_ ? -1 : listener_, POLLIN, 0}});
    for (const auto& c : connections_) {
      const bool room = !c->busy() || c->parser().buffered() < kMostAhead;
      const int events = (room ? POLLIN : 0) | (c->waiting_to_send() ? POLLOUT : 0);
      polled.push_back({c->fd(), static_cast<short>(events), 0});
    }
    ::poll(polled.data(), static_cast<nfds_t>(polled.size()), stop_ ? 50 : 1000);
    char drop[512];
    while (::read(wake_[0], drop, sizeof drop) > 0) {
    }
    for (size_t i = 2; i < polled.size(); ++i) {
      const auto& connection = connections_[i - 2];
      if (polled[i].revents & POLLOUT) connection->send_more();
      if (polled[i].revents & POLLIN) read_from(connection);
      if (polled[i].revents & (POLLERR | POLLNVAL) ||
          (polled[i].revents & POLLHUP && !(polled[i].revents & POLLIN)))
        connection->leave();
      serve_next(connection);
    }
    close_overdue();
    if (polled[1].revents & POLLIN) accept_some();
  }
  for (const auto& c : connections_) c->leave();
  connections_.clear();
}

}  // namespace anemone::serve
