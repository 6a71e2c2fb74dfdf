#include "page/page.h"

#include <doctest/doctest.h>

using namespace anemone;

TEST_CASE("text for HTML keeps its signs, and marks of direction have names") {
  CHECK(html_escaped("a < b && c > \"d\" 'e'") == "a &lt; b &amp;&amp; c &gt; &quot;d&quot; &#39;e&#39;");
  CHECK(html_escaped("x\u202ey\u2066z\u200f\u061c") == "x⟨U+202E⟩y⟨U+2066⟩z⟨U+200F⟩⟨U+061C⟩");
  CHECK(html_escaped("Größe 漢字 👩\u200d💻 …") ==
        "Größe 漢字 👩\u200d💻 …");  // a joiner is a part of its picture
  CHECK(html_escaped("cut \xe2\x80") == "cut \xe2\x80");
}

TEST_CASE("data cannot leave its script") {
  const std::string body =
      with_data("<script>const d = /*data*/null;</script>", R"({"a": "</script><!--", "b": "/*data*/null"})");
  CHECK(body ==
        "<script>const d = {\"a\": \"\\u003c/script>\\u003c!--\", \"b\": \"/*data*/null\"};</script>");
}

TEST_CASE("a page is whole, and no name is taken for a slot") {
  const std::string page = page_text({"{{body}}", "{{kit}}", "<b>"}, "BODY {{title}}");
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.ends_with("</html>\n"));
  CHECK(page.find("<title>{{body}}</title>") != std::string::npos);
  CHECK(page.find("<h1>{{kit}}<span>&lt;b&gt;</span></h1>") != std::string::npos);
  CHECK(page.find("BODY {{title}}</body>") != std::string::npos);
}
