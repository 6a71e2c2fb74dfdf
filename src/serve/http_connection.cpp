#include "serve/http_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace anemone::serve {
namespace {

#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
#else
constexpr int kSendFlags = MSG_DONTWAIT;  // the socket has SO_NOSIGPIPE
#endif

}  // namespace

HttpConnection::HttpConnection(int fd, std::string peer, HttpLimits limits, size_t most_unread,
                               std::function<void()> wake)
    : since(Clock::now()),
      fd_(fd),
      peer_(std::move(peer)),
      most_unread_(most_unread),
      wake_(std::move(wake)),
      parser_(limits),
      progress_(Clock::now()) {}

HttpConnection::~HttpConnection() { ::close(fd_); }

void HttpConnection::try_to_send() {
  while (sent_ < out_.size()) {
    const ssize_t n = ::send(fd_, out_.data() + sent_, out_.size() - sent_, kSendFlags);
    if (n > 0) {
      sent_ += static_cast<size_t>(n);
      progress_ = Clock::now();
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else {
      if (!(n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))) gone_ = true;
      break;
    }
  }
  if (sent_ == out_.size() || gone_) {
    out_.clear();
    sent_ = 0;
  } else if (sent_ > (1u << 16)) {
    out_.erase(0, sent_);
    sent_ = 0;
  }
}

void HttpConnection::send(std::string_view bytes) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (gone_) return;
    if (out_.empty()) progress_ = Clock::now();
    out_ += bytes;
    try_to_send();
    if (out_.size() - sent_ > most_unread_) {
      gone_ = true;
      out_.clear();
      sent_ = 0;
    }
    wake = !out_.empty() || gone_;
  }
  if (wake) wake_();
}

void HttpConnection::finish(bool keep_alive) {
  if (!keep_alive) last_ = true;
  answered_ = true;
  busy_ = false;
  wake_();
}

bool HttpConnection::waiting_to_send() {
  const std::lock_guard lock(mutex_);
  return !out_.empty();
}

void HttpConnection::send_more() {
  const std::lock_guard lock(mutex_);
  try_to_send();
}

bool HttpConnection::should_close() { return last_ && !busy_ && !draining_ && !waiting_to_send(); }

void HttpConnection::half_close() {
  ::shutdown(fd_, SHUT_WR);
  draining_ = true;
  since = Clock::now();
}

HttpConnection::Clock::time_point HttpConnection::progress() {
  const std::lock_guard lock(mutex_);
  return progress_;
}

}  // namespace anemone::serve
