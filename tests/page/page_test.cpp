#include "page/page.h"

#include <doctest/doctest.h>

#include <fstream>

#include "base/error.h"
#include "support/temp_folder.h"

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

TEST_CASE("a page replaces a file, but no folder and no device") {
  const TempFolder folder;
  const auto text_of = [](const std::filesystem::path& path) {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  write_page(folder / "page.html", "one");
  write_page(folder / "page.html", "two");
  CHECK(text_of(folder / "page.html") == "two");

  std::filesystem::create_directory(folder / "kept");
  std::ofstream(folder / "kept/notes") << "mine";
  CHECK_THROWS_WITH_AS(write_page(folder / "kept", "page"), doctest::Contains("a folder has this name"),
                       Error);
  CHECK(text_of(folder / "kept/notes") == "mine");

  std::filesystem::create_symlink("/dev/null", folder / "null");
  CHECK_THROWS_WITH_AS(write_page(folder / "null", "page"), doctest::Contains("a device has this name"),
                       Error);
  CHECK(std::filesystem::is_symlink(folder / "null"));
  CHECK_THROWS_WITH_AS(write_page(folder / "none/page.html", "page"),
                       doctest::Contains("folder does not exist"), Error);
}
