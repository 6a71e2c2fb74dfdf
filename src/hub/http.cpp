#include "hub/http.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <exception>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "hub/libcurl.h"
#include "hub/url.h"

namespace anemone::hub {
namespace {

constexpr int kMostRedirects = 10;
constexpr size_t kMostBody = size_t{64} << 20;       // a list of files
constexpr size_t kMostErrorBody = size_t{64} << 10;  // a page that nobody reads
constexpr size_t kMostHeaders = 200;

// What the callbacks of one hop share. They are called from C: what is thrown in them is kept for later.
struct Exchange {
  CURL* curl = nullptr;
  Response response;
  Sink* sink = nullptr;
  bool begun = false;
  std::exception_ptr thrown;

  void body(std::span<const std::byte> bytes) {
    long status = 0;
    libcurl().easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    response.status = static_cast<int>(status);
    if (sink && response.good()) {
      begin();
      sink->write(bytes);
      return;
    }
    const bool good = response.good();
    if (good && response.body.size() + bytes.size() > kMostBody)
      throw Error("the answer is longer than it could be").expected("at most 64 MB");
    const size_t room = good ? bytes.size() : kMostErrorBody - std::min(kMostErrorBody, response.body.size());
    response.body.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
  }
  void begin() {
    if (!std::exchange(begun, true)) sink->begin(response);
  }
};

size_t on_body(char* data, size_t, size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  try {
    exchange.body(std::as_bytes(std::span(data, count)));
    return count;
  } catch (...) {
    exchange.thrown = std::current_exception();
    return 0;  // ends the transfer
  }
}

size_t on_header(char* data, size_t, size_t count, void* user) {
  auto& headers = static_cast<Exchange*>(user)->response.headers;
  const std::string_view line(data, count);
  if (line.starts_with("HTTP/")) headers.clear();  // of an answer before this one: 100, or a proxy's
  const size_t colon = line.find(':');
  if (colon == line.npos || headers.size() >= kMostHeaders) return count;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.front()))) value.remove_prefix(1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back()))) value.remove_suffix(1);
  headers[std::move(name)] = value;
  return count;
}

// Why a transfer failed, in our words where people meet it often.
std::string reason(CURLcode code, const char* detail, const std::string& host) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST: return fmt::format("the host {} is not found", host);
    case CURLE_COULDNT_RESOLVE_PROXY: return "the proxy is not found";
    case CURLE_COULDNT_CONNECT: return fmt::format("no connection to {}", host);
    case CURLE_OPERATION_TIMEDOUT: return fmt::format("{} does not answer any more", host);
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR: return fmt::format("the connection to {} was cut", host);
    default: return fmt::format("{}: {}", host, *detail ? detail : libcurl().easy_strerror(code));
  }
}

// Another attempt would end the same way.
bool final_failure(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_OUT_OF_MEMORY;
}

}  // namespace

std::string Response::header(const std::string& name) const {
  const auto at = headers.find(name);
  return at == headers.end() ? "" : at->second;
}

std::optional<uint64_t> Response::number(const std::string& name) const {
  const std::string text = header(name);
  uint64_t value = 0;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || problem != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

struct HttpClient::Handle {
  CURL* curl = nullptr;

  Handle() {
    curl = libcurl().easy_init();
    if (!curl) throw Error("libcurl cannot be started");
  }
  ~Handle() { libcurl().easy_cleanup(curl); }
};

HttpClient::HttpClient(Settings settings, Note note)
    : settings_(std::move(settings)), note_(std::move(note)), handle_(std::make_unique<Handle>()) {
  const std::string& token = settings_.token;
  // A line break in it would begin a header of its own.
  if (std::any_of(token.begin(), token.end(), [](unsigned char c) { return c <= ' ' || c == 127; }))
    throw Error("HF_TOKEN holds spaces or control characters, as no token does").hint("copy it again");
  try {
    Url::parse(settings_.endpoint);
  } catch (Error& e) {
    throw e.within("HF_ENDPOINT");
  }
}
HttpClient::~HttpClient() = default;

Response HttpClient::hop(const Request& request, const std::string& url, bool with_token) {
  CURL* const curl = handle_->curl;
  libcurl().easy_reset(curl);  // connections are kept
  Exchange exchange{.curl = curl, .response = {}, .sink = request.sink, .begun = false, .thrown = {}};
  char detail[CURL_ERROR_SIZE] = "";
  const auto set = [&](CURLoption option, auto value) { libcurl().easy_setopt(curl, option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_ERRORBUFFER, detail);
  set(CURLOPT_USERAGENT, "anemone");
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_NOBODY, request.method == "HEAD" ? 1L : 0L);
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(settings_.connect_s));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(settings_.stall_s));
  if (!settings_.certificates.empty()) set(CURLOPT_CAINFO, settings_.certificates.c_str());
  set(CURLOPT_WRITEFUNCTION, &on_body);
  set(CURLOPT_WRITEDATA, &exchange);
  set(CURLOPT_HEADERFUNCTION, &on_header);
  set(CURLOPT_HEADERDATA, &exchange);
  std::vector<std::string> lines = request.headers;
  lines.emplace_back("Accept-Encoding: identity");  // sizes are those of the files
  if (with_token) lines.push_back("Authorization: Bearer " + settings_.token);
  curl_slist* list = nullptr;
  for (const std::string& line : lines) list = libcurl().slist_append(list, line.c_str());
  const std::unique_ptr<curl_slist, void (*)(curl_slist*)> owner(list, libcurl().slist_free_all);
  set(CURLOPT_HTTPHEADER, list);

  const CURLcode code = libcurl().easy_perform(curl);
  if (exchange.thrown) std::rethrow_exception(exchange.thrown);
  if (code != CURLE_OK) {
    const std::string why = reason(code, detail, Url::parse(url).shown_host());
    if (final_failure(code)) throw Error(why).at(url);
    throw Broken(why, code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
                          code == CURLE_COULDNT_CONNECT);
  }
  long status = 0;
  libcurl().easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  exchange.response.status = static_cast<int>(status);
  exchange.response.url = url;
  if (exchange.sink && exchange.response.good()) exchange.begin();  // a file without a byte
  return std::move(exchange.response);
}

Response HttpClient::attempt(const Request& request) {
  std::string url = request.url;
  expect_protected(Url::parse(url), settings_.endpoint);
  bool with_token =
      !settings_.token.empty() && Url::parse(url).origin() == Url::parse(settings_.endpoint).origin();
  for (int redirects = 0;; ++redirects) {
    Response response = hop(request, url, with_token);
    if (response.status < 300 || response.status >= 400 || response.status == 304) return response;
    if (request.stop_at_linked_file && !response.header("x-linked-etag").empty()) return response;
    char* next = nullptr;
    libcurl().easy_getinfo(handle_->curl, CURLINFO_REDIRECT_URL, &next);
    if (!next) throw errorf("the server answers {} and does not say where to go", response.status).at(url);
    if (redirects == kMostRedirects)
      throw Error("the server sends us in circles")
          .at(request.url)
          .found(fmt::format("{} redirects", redirects + 1));
    const Url from = Url::parse(url), to = Url::parse(next);
    expect_protected_redirect(from, to, settings_.endpoint);
    // Once away it stays away, also where the other host leads back.
    with_token = with_token && from.origin() == to.origin();
    url = to.text;
  }
}

Response HttpClient::send(const Request& request) {
  for (Patience patience(*this, Url::parse(request.url).shown_host());;) {
    std::optional<double> asked_s;
    try {
      Response response = attempt(request);
      const std::optional<Broken> later = busy(response);
      if (!later) return response;
      asked_s = retry_after(response);
      throw *later;
    } catch (const Broken& why) {
      patience.pause(why, asked_s);
    }
  }
}

void Patience::pause(const Broken& why, std::optional<double> asked_s) {
  const Settings& s = http_.settings();
  const int most = why.never_connected() ? std::min(2, s.attempts) : s.attempts;
  const auto give_up = [&](Broken last) {
    if (last.where().empty() && last.message().find(what_) == std::string::npos) last.at(what_);
    throw last;
  };
  if (++failed_ >= most) give_up(why);
  std::chrono::milliseconds pause =
      std::min(s.first_pause * (1 << std::min(failed_ - 1, 10)), s.longest_pause);
  if (asked_s) pause = std::chrono::milliseconds(static_cast<int64_t>(*asked_s * 1000));
  if (pause > s.longest_pause) {
    Broken last(fmt::format("the server asks to wait for {:.0f} seconds", *asked_s));
    last.hint("try again later; with HF_TOKEN the limits of the hub are higher");
    give_up(last);
  }
  const bool named = why.message().find(what_) != std::string::npos;
  http_.note(fmt::format("{}{}; attempt {} of {} in {:.0f} s", named ? "" : what_ + ": ", why.message(),
                         failed_ + 1, most, std::max(1.0, static_cast<double>(pause.count()) / 1000)));
  std::this_thread::sleep_for(pause);
}

std::optional<Broken> busy(const Response& response) {
  switch (response.status) {
    case 408:
    case 500:
    case 502:
    case 503:
    case 504: return Broken(fmt::format("the server has trouble (status {})", response.status));
    case 429: return Broken("the server asks for fewer requests (status 429)");
    default: return std::nullopt;
  }
}

std::optional<double> retry_after(const Response& response) {
  const std::optional<uint64_t> seconds = response.number("retry-after");
  return seconds ? std::optional<double>(static_cast<double>(std::min<uint64_t>(*seconds, 1'000'000)))
                 : std::nullopt;
}

}  // namespace anemone::hub
