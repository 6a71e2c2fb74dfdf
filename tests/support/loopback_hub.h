// LoopbackHub: a small hub on 127.0.0.1 that answers as Hugging Face's does, and misbehaves when told to.
//     LoopbackHub hub;
//     hub.add("tiny/model", "model.safetensors", bytes, LoopbackHub::large);
//     hub.trouble({.at = "/cdn/", .kind = LoopbackHub::cut, .after = 100});    // the next such answer ends early
//     settings.endpoint = hub.endpoint();
// Large files lie on another host, as the real one's do: the same server by its other name, localhost.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace anemone::test {

class LoopbackHub {
 public:
  enum Size { small, large };  // in git, or beside it with a SHA-256
  enum Kind {
    status,        // answer `code` with the header lines `text`
    cut,           // end after `after` bytes of the body
    stall,         // fall silent after `after` bytes of the body
    ignore_range,  // send all, whatever was asked for
    other_range,   // send another part than was asked for
    wrong_bytes,   // change the first byte
    more_bytes,    // send more than the file has, and do not say how much
    redirect,      // to `text`
    body,          // answer 200 with `text`
  };
  struct Trouble {
    std::string at;  // a part of the address
    Kind kind = cut;
    int times = 1;
    uint64_t after = 0;
    int code = 500;
    std::string text = {};
  };
  struct Seen {
    std::string method, target;                  // the target as it was sent
    std::map<std::string, std::string> headers;  // names in small letters
  };

  LoopbackHub();
  ~LoopbackHub();
  LoopbackHub(const LoopbackHub&) = delete;
  LoopbackHub& operator=(const LoopbackHub&) = delete;

  int port() const { return port_; }
  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string other_host() const { return "http://localhost:" + std::to_string(port_); }

  // Files of the main branch of "owner/repo". The commit changes with them.
  void add(const std::string& repo, const std::string& file, std::string bytes, Size size = small);
  // A file anywhere: GET /files/NAME.
  void add_plain(const std::string& name, std::string bytes);
  // Only who sends "Bearer TOKEN" may read it.
  void gate(const std::string& repo, const std::string& token);
  // Lists without sizes and hashes, as some mirrors give them.
  void hide_details() { details_ = false; }
  void trouble(Trouble t);

  std::string commit(const std::string& repo) const;
  static std::string hash_of(std::string_view bytes);  // the ETag of a small file
  std::vector<Seen> seen() const;
  // How many requests had this in their targets.
  int count(const std::string& method, const std::string& part) const;
  void forget();

 private:
  struct File {
    std::string bytes, sha256;
    Size size = small;
  };
  struct Answer {
    int status = 200;
    std::vector<std::string> headers;
    std::string body;
    bool ranged = false;  // a file: parts of it may be asked for
    std::string etag;
  };

  void serve();
  void handle(int socket);
  void reply(int socket, const Seen& request, Answer answer, const Trouble* trouble);
  Answer answer(const Seen& request, const std::string& target) const;
  Answer api(const std::string& path, const Seen& request) const;
  Answer resolved(const std::string& repo, const std::string& path) const;
  Answer refuse(const Seen& request, const std::string& repo) const;
  std::string commit_of(const std::string& repo) const;  // while the lock is held

  int listener_ = -1, port_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> details_ = true;
  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::string, File>> repos_;
  std::map<std::string, std::string> plain_, gates_;
  std::vector<Trouble> troubles_;
  std::vector<Seen> seen_;
  std::thread server_;
  std::vector<std::thread> workers_;
};

}  // namespace anemone::test
