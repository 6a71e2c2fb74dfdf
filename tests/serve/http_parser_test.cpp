// HTTP requests as they come: in pieces, one behind the other, malformed. The rules are those of RFC 9112.
#include "serve/http_parser.h"

#include <doctest/doctest.h>

using namespace anemone::serve;

namespace {

using Step = HttpParser::Step;

HttpRequest whole(const std::string& text) {
  HttpParser parser;
  parser.feed(text);
  REQUIRE(parser.next() == Step::request);
  return parser.take();
}

int refused(const std::string& text, HttpLimits limits = {}) {
  HttpParser parser(limits);
  parser.feed(text);
  return parser.next() == Step::refused ? parser.status() : 0;
}

}  // namespace

TEST_CASE("a request is read with its path, query, headers and body") {
  const HttpRequest r = whole(
      "\r\nPOST /v1/chat%20x?a=1&b=%20 HTTP/1.1\r\nHost: x\r\nX-Thing:  a b \r\nContent-Length: "
      "5\r\n\r\nhello");
  CHECK(r.method == "POST");
  CHECK(r.path == "/v1/chat x");
  CHECK(r.query == "a=1&b=%20");
  CHECK(r.header("x-thing") == "a b");
  CHECK(r.header("none").empty());
  CHECK(r.body == "hello");
  CHECK(r.keep_alive);
  CHECK(!whole("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, CLOSE\r\n\r\n").keep_alive);
  CHECK(!whole("GET / HTTP/1.0\r\n\r\n").keep_alive);
  CHECK(whole("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
  CHECK(whole("GET http://host:80/x?y HTTP/1.1\r\nHost: x\r\n\r\n").path == "/x");
}

TEST_CASE("a request that comes byte by byte, and two in one piece, are read alike") {
  const std::string one =
      "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;note=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-Trailer: y\r\n\r\n";
  HttpParser slow;
  for (const char c : one.substr(0, one.size() - 1)) {
    slow.feed({&c, 1});
    REQUIRE(slow.next() == Step::more);
  }
  slow.feed("\n");
  REQUIRE(slow.next() == Step::request);
  CHECK(slow.take().body == "abc0123456789");
  CHECK(slow.idle());

  HttpParser two;
  two.feed(one + "GET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  REQUIRE(two.next() == Step::request);
  CHECK(two.take().path == "/a");
  REQUIRE(two.next() == Step::request);
  CHECK(two.take().path == "/b");
  CHECK(two.next() == Step::more);
}

TEST_CASE("a client that waits for leave to send its body is heard once") {
  HttpParser parser;
  parser.feed("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  CHECK(parser.next() == Step::more);
  CHECK(parser.wants_continue());
  CHECK(!parser.wants_continue());
  parser.feed("hi");
  CHECK(parser.next() == Step::request);
}

TEST_CASE("what is malformed, ambiguous or too large is refused with its status") {
  const std::string host = "Host: x\r\n";
  CHECK(refused("hello\r\n\r\n") == 400);
  CHECK(refused("GET /\r\n\r\n") == 400);
  CHECK(refused("GET / HTTP/2.0\r\n" + host + "\r\n") == 505);
  CHECK(refused("G ET / HTTP/1.1\r\n" + host + "\r\n") == 400);
  CHECK(refused("GET /%zz HTTP/1.1\r\n" + host + "\r\n") == 400);
  CHECK(refused("GET /%00 HTTP/1.1\r\n" + host + "\r\n") == 400);
  CHECK(refused("GET x HTTP/1.1\r\n" + host + "\r\n") == 400);
  CHECK(refused("GET / HTTP/1.1\r\n\r\n") == 400);
  CHECK(refused("GET / HTTP/1.1\r\n" + host + host + "\r\n") == 400);
  CHECK(refused("GET / HTTP/1.1\r\n" + host + " folded: x\r\n\r\n") == 400);
  CHECK(refused("GET / HTTP/1.1\r\n" + host + "A B: x\r\n\r\n") == 400);
  CHECK(refused("GET / HTTP/1.1\r\n" + host + "A: x\ny\r\n\r\n") == 400);
  CHECK(refused("POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n") == 400);
  CHECK(refused("POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n") ==
        400);
  CHECK(refused("POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n") == 400);
  CHECK(refused("POST / HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999\r\n\r\n") == 400);
  CHECK(refused("POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n") == 501);
  CHECK(refused("POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\n") == 400);
  CHECK(refused("POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n") == 400);
  const HttpLimits small{.head_bytes = 200, .headers = 3, .body_bytes = 10};
  CHECK(refused("POST / HTTP/1.1\r\n" + host + "Content-Length: 11\r\n\r\n", small) == 413);
  CHECK(refused("POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n6\r\n123456\r\n5\r\n",
                small) == 413);
  CHECK(refused("GET /" + std::string(300, 'a'), small) == 431);
  CHECK(refused("GET / HTTP/1.1\r\n" + host + "A: 1\r\nB: 2\r\nC: 3\r\n\r\n", small) == 431);
}
