// The server on Core ML, which runs one call after the other on a state, and a few at once without: several clients,
// many texts, a client that leaves, a prediction that fails.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "convert/convert.h"
#include "coreml/double_fixture.h"
#include "engine/cpu_backend.h"
#include "serve/app.h"
#include "support/data.h"
#include "support/tiny_encoder.h"

using namespace anemone;
using namespace anemone::test;
using Json = nlohmann::json;

namespace {

using Backends = std::function<std::shared_ptr<const Backend>(BundleKind)>;

// As `anemone serve --backend coreml` opens them.
Backends core_ml(const DoubleFixture& fixture) {
  CoreMlOptions many = fixture.options();
  many.in_flight = 3;
  return [one = fixture.backend(), many = coreml_backend(many)](BundleKind kind) {
    return kind == BundleKind::generate ? one : many;
  };
}

Backends cpu() {
  return [one = cpu_backend({.arithmetic = Arithmetic::fp16, .threads = 1})](BundleKind) { return one; };
}

class Socket {
 public:
  explicit Socket(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0);
  }
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void post(const std::string& path, const std::string& body) const {
    const std::string bytes =
        "POST " + path +
        " HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\n\r\n" + body;
    REQUIRE(::send(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  std::string all() const {
    std::string out;
    char bytes[4096];
    for (ssize_t n = 0; (n = ::recv(fd_, bytes, sizeof(bytes), 0)) > 0;)
      out.append(bytes, static_cast<size_t>(n));
    return out;
  }

 private:
  int fd_;
};

// A server in this process, on a port of its own.
class Running {
 public:
  Running(const std::filesystem::path& bundle, Backends backends)
      : app_(options(bundle, std::move(backends))) {
    std::promise<int> ready;
    thread_ = std::thread([&, this] {
      try {
        app_.run([&](int port) { ready.set_value(port); });
      } catch (...) {
        ready.set_exception(std::current_exception());
      }
    });
    port_ = ready.get_future().get();
  }
  ~Running() {
    app_.stop();
    thread_.join();
  }

  int port() const { return port_; }
  Json post(const std::string& path, const Json& body) const {
    const Socket socket(port_);
    socket.post(path, body.dump());
    const std::string answer = socket.all();
    Json out = Json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
    out["status"] = std::stoi(answer.substr(9, 3));
    return out;
  }
  // The same from several clients at once.
  std::vector<Json> post_all(const std::string& path, const std::vector<Json>& bodies) const {
    std::vector<Json> out(bodies.size());
    std::vector<std::thread> clients;
    for (size_t i = 0; i < bodies.size(); ++i)
      clients.emplace_back([&, i] { out[i] = post(path, bodies[i]); });
    for (std::thread& client : clients) client.join();
    return out;
  }

 private:
  static serve::AppOptions options(const std::filesystem::path& bundle, Backends backends) {
    serve::AppOptions out;
    out.http.port = 0;
    out.models = {{"model", bundle}};
    out.shelf.backend_for = std::move(backends);
    return out;
  }

  serve::App app_;
  std::thread thread_;
  int port_ = 0;
};

// Vectors of texts of 8 and 16 tokens. The server wants a tokenizer; the tests send tokens.
struct Embedder {
  TempFolder folder;

  Embedder() {
    TinyEncoder("BertModel", "bert").write(folder / "model");
    Json vocabulary;
    for (int i = 0; i < TinyEncoder::kVocab; ++i) vocabulary["w" + std::to_string(i)] = i;
    const Json tokenizer = {{"version", "1.0"},
                            {"added_tokens", Json::array()},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                            {"post_processor", nullptr},
                            {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                            {"model",
                             {{"type", "WordPiece"},
                              {"unk_token", "w1"},
                              {"continuing_subword_prefix", "##"},
                              {"max_input_chars_per_word", 100},
                              {"vocab", vocabulary}}}};
    spill(folder / "model/tokenizer.json", tokenizer.dump());
    convert(folder / "model", bundle(),
            {.tokens = {{8, 8}, {16, 16}}, .precision = Precision::fp16, .threads = 1});
  }
  std::filesystem::path bundle() const { return folder / "bundle"; }

  static Json request(int first, int texts) {
    Json input = Json::array();
    for (int i = 0; i < texts; ++i) {
      Json ids = Json::array();
      for (int t = 0; t < 3 + (first + i) % 12; ++t) ids.push_back(3 + (7 * i + 5 * t + first) % 30);
      input.push_back(ids);
    }
    return {{"input", input}};
  }
};

}  // namespace

TEST_CASE("the server gives the CPU engine's vectors with Core ML, a few texts of each client under way") {
  const Embedder embedder;
  std::vector<Json> bodies;
  for (int i = 0; i < 3; ++i) bodies.push_back(Embedder::request(5 * i, 20));
  const std::vector<Json> expected = Running(embedder.bundle(), cpu()).post_all("/v1/embeddings", bodies);
  REQUIRE(expected[0]["data"].size() == 20);
  const DoubleFixture fixture;
  {
    const Running server(embedder.bundle(), core_ml(fixture));
    CHECK(server.post_all("/v1/embeddings", bodies) == expected);
  }
  CHECK(apple_double::seen().most_in_flight > 1);
  CHECK(apple_double::seen().most_in_flight <= 3);
}

TEST_CASE("the server: a prediction that fails ends its request, and the next one is answered") {
  const Embedder embedder;
  const Json body = Embedder::request(0, 12);
  const DoubleFixture fixture;
  const Running server(embedder.bundle(), core_ml(fixture));
  const Json expected = server.post("/v1/embeddings", body);
  CHECK(expected["status"] == 200);
  apple_double::switches().fail_at = apple_double::seen().predictions + 5;
  apple_double::switches().fail_count = 1000;
  const Json failed = server.post("/v1/embeddings", body);
  CHECK(failed["status"] == 500);
  CHECK(failed["error"]["message"].get<std::string>().find("a prediction failed") != std::string::npos);
  apple_double::switches().fail_at = 0;
  CHECK(server.post("/v1/embeddings", body) == expected);
}

TEST_CASE("the server: nothing more begins for a client that has left") {
  const Embedder embedder;
  const DoubleFixture fixture;
  constexpr int kTexts = 200;
  int64_t before = 0;
  {
    const Running server(embedder.bundle(), core_ml(fixture));
    server.post("/v1/embeddings", Embedder::request(0, 12));  // loads both functions
    apple_double::switches().late_ms = 20;
    before = apple_double::seen().predictions;
    {
      const Socket socket(server.port());
      socket.post("/v1/embeddings", Embedder::request(0, kTexts).dump());
      while (apple_double::seen().predictions == before) std::this_thread::yield();
    }
    // It answers others meanwhile and afterwards.
    CHECK(server.post("/v1/embeddings", Embedder::request(0, 2))["status"] == 200);
  }
  CHECK(apple_double::seen().predictions - before < kTexts / 2);
}

TEST_CASE("the server redacts many texts with Core ML as with the CPU engine, in their order") {
  Json texts = Json::array();
  for (int i = 0; i < 9; ++i)
    texts.push_back("Anna Berg " + std::to_string(i) + ", call +49 30 12345" + std::to_string(i) +
                    " or write to anna" + std::to_string(i) + "@example.org. Then again to anna" +
                    std::to_string(i) + "@example.org.");
  texts.push_back("");
  const TempFolder folder;
  convert(source_dir() / "examples/demo_model/demo.gguf", folder / "demo",
          {.context = {32}, .tokens = {{1, 1}}, .threads = 1});
  // Numbers of values begin anew in each text.
  const Json body = {{"input", texts}, {"replace", "number"}};
  const Json expected = Running(folder / "demo", cpu()).post("/v1/redact", body);
  REQUIRE(expected["data"].size() == 10);
  for (size_t i = 0; i < 9; ++i) {
    CHECK(expected["data"][i]["index"] == i);
    const std::string text = expected["data"][i]["text"];
    CHECK(text.find("@example.org") == std::string::npos);
    CHECK(text.find("[EMAIL_1]. Then again to [EMAIL_1].") != std::string::npos);
  }
  CHECK(expected["data"][9]["text"] == "");
  const DoubleFixture fixture;
  {
    const Running server(folder / "demo", core_ml(fixture));
    for (const Json& found : server.post_all("/v1/redact", {body, body})) CHECK(found == expected);
  }
  CHECK(apple_double::seen().most_in_flight > 1);
  CHECK(apple_double::seen().most_in_flight <= 3);
}

TEST_CASE("the server writes four answers side by side with Core ML, each as if it were alone") {
  const TempFolder folder;
  convert(source_dir() / "examples/demo_model/demo.gguf", folder / "demo",
          {.context = {64}, .tokens = {{1, 1}, {8, 8}}, .threads = 1});
  std::vector<Json> bodies;
  for (const char* prompt : {"One morning Mara went to", "Once upon a time", "The crab said", "In the water"})
    bodies.push_back({{"prompt", prompt}, {"max_tokens", 16}, {"temperature", 0}});
  const auto texts = [&](const Running& server) {
    std::vector<std::string> out;
    for (const Json& answer : server.post_all("/v1/completions", bodies))
      out.push_back(answer.at("choices").at(0).at("text"));
    return out;
  };
  const std::vector<std::string> expected = texts(Running(folder / "demo", cpu()));
  const DoubleFixture fixture;  // counts two predictions on one state
  const Running server(folder / "demo", core_ml(fixture));
  CHECK(texts(server) == expected);
  CHECK(texts(server) == expected);  // from sessions that are known
  // The device's fault, not the client's.
  apple_double::switches().fail_at = apple_double::seen().predictions + 20;
  apple_double::switches().fail_count = 1000;
  for (const Json& answer : server.post_all("/v1/completions", bodies)) CHECK(answer["status"] == 500);
  apple_double::switches().fail_at = 0;
  CHECK(texts(server) == expected);
}
