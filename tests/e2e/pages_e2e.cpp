// The pages of check, plan, verify, inspect and bench: one look, usable by everybody, and deaf to what names say.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "e2e/browser.h"
#include "e2e/command.h"
#include "mil/builder.h"
#include "package/package.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

// What a hostile model may call its parts: the end of a script, an attribute's quotes, a handler, a text that runs
// backwards (U+202E), the slot that data goes to.
const std::string kHostile =
    "</script><script>pwned()</script>\"' onload='pwned()' <img src=x onerror=pwned()> \u202egpj.exe "
    "/*data*/null {{body}}";

fs::path hostile_package(const TempFolder& folder) {
  Package package;
  package.spec_version = 9;
  Function& f = add_function(package.program, "main", Opset::ios18);
  Value* x = add_input(f, kHostile + "in", Type::tensor(DType::fp16, {1, 16, 1, 1}));
  Builder b(f);
  Value* w =
      b.constant(Constant::from_bytes(Type::tensor(DType::fp16, {16, 16, 1, 1}), Constant::Bytes(512)), "w");
  Value* y = b.op("conv", {{"x", x}, {"weight", w}}, "y");
  Value* z = b.op("relu", {{"x", y}}, "z");
  b.output(z);
  for (Value* value : {w, y, z}) {  // the builder makes names safe; others need not
    value->name = kHostile + value->name;
    value->producer->attributes.insert_or_assign("name", Constant::text(value->name));
  }
  package.description = description_of(package.program);
  const fs::path path = folder / "<img src=x onerror=pwned()>\".mlpackage";
  write_package(package, path);
  return path;
}

// Two functions of 5,000 operations: blocks of eight, each added to what it read.
fs::path large_package(const TempFolder& folder) {
  Package package;
  package.spec_version = 9;
  for (const char* name : {"first", "second"}) {
    Function& f = add_function(package.program, name, Opset::ios18);
    Value* x = add_input(f, "x", Type::tensor(DType::fp16, {1, 64, 1, 1}));
    Builder b(f);
    for (int i = 0; i < 625; ++i) {
      Value* left = b.op("relu", {{"x", x}});
      Value* size = b.op("abs", {{"x", x}});
      Value* right = b.op("mul", {{"x", size}, {"y", b.op("tanh", {{"x", x}})}});
      Value* both = b.op("relu", {{"x", b.op("add", {{"x", left}, {"y", right}})}});
      x = b.op("add", {{"x", b.op("abs", {{"x", both}})}, {"y", x}});
    }
    b.output(x);
  }
  package.description = description_of(package.program);
  fs::path path = folder / "large.mlpackage";
  write_package(package, path);
  return path;
}

// A page of every kind. The check fails: iPhones take two states at most.
struct Pages {
  TempFolder folder;
  std::vector<std::pair<std::string, std::string>> all;  // name, text

  Pages() {
    const fs::path model = source_dir() / "examples/demo_model/demo.gguf";
    const std::string bundle = folder / "demo";
    REQUIRE(anemone_command({"convert", model, "-o", bundle, "--quiet", "--kv", "state"}).status == 0);
    add("check", {"check", bundle, "--target", "iphone"}, 1);
    add("plan", {"plan", "qwen3-0.6b"}, 0);
    add("verify", {"verify", bundle, "--source", model}, 0);
    add("graph", {"inspect", bundle}, 0);
    add("bench",
        {"bench", bundle, "--fill", "16,200,400", "--tokens", "4", "--chip", "m4", "--backend", "cpu"}, 0);
  }

  void add(const std::string& name, std::vector<std::string> arguments, int status) {
    const fs::path path = folder / (name + ".html");
    arguments.insert(arguments.end(), {"--html", path, "--quiet"});
    const Outcome made = anemone_command(arguments);
    CAPTURE(made.err);
    REQUIRE(made.status == status);
    all.emplace_back(name, slurp(path));
  }
};

}  // namespace

TEST_CASE("pages share one stylesheet and need nothing from outside") {
  const Pages pages;
  const std::string style = slurp(source_dir() / "src/page/style.css");
  REQUIRE(style.size() > 1000);
  for (const auto& [name, text] : pages.all) {
    CAPTURE(name);
    CHECK(text.find(style) != std::string::npos);
    CHECK(text.find("default-src 'none'") != std::string::npos);
    for (const char* outside : {"<link", "@import", "src=\"http", "href=\"http", "url(http", "fetch("})
      CHECK_MESSAGE(text.find(outside) == std::string::npos, outside);
  }
}

TEST_CASE("pages fit a phone and a desk, in light and in dark, without what axe-core calls serious") {
  const std::string program = browser();
  if (program.empty()) {
    MESSAGE("skipped: there is no browser");
    return;
  }
  const auto axe = axe_core();
  if (!axe) MESSAGE("skipped: there is no axe-core (tools/axe.sh fetches it)");
  const Pages pages;
  for (const auto& [name, text] : pages.all)
    for (const Look& look : {Look{360, false}, Look{1280, false}, Look{360, true}, Look{1280, true}}) {
      CAPTURE(name);
      CAPTURE(look.width);
      CAPTURE(look.dark);
      // Tables keep their last column on a desk; only on a phone may they scroll.
      const Json seen = look_at(program, text, look, R"(
        for (const d of document.querySelectorAll("details")) d.open = true;
        await new Promise((done) => setTimeout(done, 300));
        const cut = [...document.querySelectorAll(".scroll")].filter((box) => box.scrollWidth > box.clientWidth).length;
        if (typeof axe === "undefined") return {cut, violations: []};
        const found = (await axe.run()).violations.filter((v) => /serious|critical/.test(v.impact));
        return {cut, violations: found.map((v) => v.id + ": " + v.nodes.map((n) => n.target.join(" ")).join(", "))};)",
                                axe.value_or(""));
      CHECK(seen.at("errors") == Json::array());
      CHECK(seen.at("overflow") <= 0);
      CHECK(seen.at("back") == (look.dark ? "rgb(12, 20, 21)" : "rgb(244, 246, 244)"));
      CHECK(seen.at("result").at("violations") == Json::array());
      if (look.width == 1280) CHECK(seen.at("result").at("cut") == 0);
    }
}

TEST_CASE("a failed check shows no bar that says all is well") {
  const std::string program = browser();
  if (program.empty()) {
    MESSAGE("skipped: there is no browser");
    return;
  }
  const Pages pages;
  REQUIRE(pages.all[0].first == "check");
  const Json seen = look_at(program, pages.all[0].second, {}, R"(
    const bars = [...document.querySelectorAll(".stack")], bad = bars.filter((b) => b.classList.contains("void"));
    const summary = document.querySelector("details.finding summary");
    return {failed: report.failed, bars: bars.length, bad: bad.length,
      plain: bad.filter((b) => getComputedStyle(b.firstChild).backgroundImage === "none").length,
      said: document.querySelectorAll(".alarm").length, cursor: getComputedStyle(summary).cursor,
      marker: getComputedStyle(summary, "::before").borderRightStyle, focus: summary.tabIndex};)");
  const Json& result = seen.at("result");
  CHECK(result.at("failed") == true);
  CHECK(result.at("bad") > 0);
  CHECK(result.at("plain") == 0);
  CHECK(result.at("said") > 0);
  CHECK(result.at("cursor") == "pointer");
  CHECK(result.at("marker") == "solid");
  CHECK(result.at("focus") == 0);
}

TEST_CASE("names in a model are text on every page and run nothing") {
  const TempFolder folder;
  const std::string package = hostile_package(folder);
  const Outcome check = anemone_command({"check", package, "--html", folder / "check.html", "--quiet"});
  CHECK(check.status < 2);
  const Outcome graph = anemone_command({"inspect", package, "--html", folder / "graph.html", "--quiet"});
  CHECK(graph.status == 0);
  for (const std::string name : {"check.html", "graph.html"}) {
    CAPTURE(name);
    const std::string page = slurp(folder / name);
    CHECK(page.find("<script>pwned") == std::string::npos);
    CHECK(page.find("<img") == std::string::npos);
    CHECK(page.find("\u202e") == std::string::npos);
    CHECK(page.find("⟨U+202E⟩") != std::string::npos);
    const std::string program = browser();
    if (program.empty()) {
      MESSAGE("skipped: there is no browser");
      continue;
    }
    const Json seen = look_at(program, page, {}, R"js(
      for (const d of document.querySelectorAll("details")) d.open = true;
      if (typeof choose === "function") for (let i = 0; i < fn.nodes.length; ++i) choose(i, true);
      await new Promise((done) => setTimeout(done, 300));
      const shown = document.body.innerText.includes("</script><script>pwned()");
      return {ran: window.ran, images: document.images.length, shown};)js",
                              "window.ran = 0; window.pwned = () => { window.ran++; };");
    CHECK(seen.at("errors") == Json::array());
    CHECK(seen.at("result").at("ran") == 0);
    CHECK(seen.at("result").at("images") == 0);
    CHECK(seen.at("result").at("shown") == true);
  }
}

TEST_CASE("the graph's page finds, opens and explains operations") {
  const std::string program = browser();
  if (program.empty()) {
    MESSAGE("skipped: there is no browser");
    return;
  }
  const TempFolder folder;
  REQUIRE(anemone_command({"inspect", recall_package(), "--html", folder / "g.html", "--quiet"}).status == 0);
  const Json seen = look_at(program, slurp(folder / "g.html"), {}, R"(
    const count = (k) => fn.nodes.filter((node) => node.k === k).length, by = (t) => fn.nodes.filter((node) => node.t === t).length;
    const find = document.getElementById("find");
    find.value = "softmax";
    find.oninput();
    const hits = document.querySelectorAll("#found li").length;
    document.querySelector("#found button").click();
    const soft = fn.nodes[chosen].t, panel = document.getElementById("side").innerText;
    choose(fn.nodes.findIndex((node) => node.t === "conv"), true);
    const key = (k) => canvas.onkeydown(new KeyboardEvent("keydown", {key: k, cancelable: true}));
    const at = chosen;
    key("n"); key("p");
    const same = at === chosen, k = camera.k;
    key("+");
    const boxes = fn.scene.boxes, overlaps = boxes.filter((a) => boxes.some((b) => a !== b && !a.inside && !b.inside &&
      a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h)).length;
    return {inputs: count("input"), states: count("state"), outputs: count("output"), ops: count("op"), convs: by("conv"),
      hits, soft, reads: panel.includes("Reads"), same, zoomed: camera.k > k, overlaps,
      weights: document.getElementById("side").innerText.includes("stored as fp16")};)");
  CHECK(seen.at("errors") == Json::array());
  // As coremltools wrote it; the README shows the same counts.
  const Json& r = seen.at("result");
  CHECK(r.at("inputs") == 3);
  CHECK(r.at("states") == 3);
  CHECK(r.at("outputs") == 2);
  CHECK(r.at("ops") == 32);
  CHECK(r.at("convs") == 5);
  CHECK(r.at("hits") == 1);
  CHECK(r.at("soft") == "softmax");
  CHECK(r.at("reads") == true);
  CHECK(r.at("same") == true);
  CHECK(r.at("zoomed") == true);
  CHECK(r.at("overlaps") == 0);
  CHECK(r.at("weights") == true);
}

TEST_CASE("functions are boxes, and a function of 5,000 operations draws little each frame") {
  const std::string program = browser();
  if (program.empty()) {
    MESSAGE("skipped: there is no browser");
    return;
  }
  const TempFolder folder;
  REQUIRE(
      anemone_command({"inspect", large_package(folder), "--html", folder / "g.html", "--quiet"}).status ==
      0);
  const Json seen = look_at(program, slurp(folder / "g.html"), {}, R"(
    const count = {};
    for (const name of ["fillText", "strokeText", "measureText", "fill", "stroke", "rect", "roundRect", "fillRect",
        "bezierCurveTo", "lineTo"]) {
      const real = ink[name];
      ink[name] = function (...given) { count[name] = (count[name] || 0) + 1; return real.apply(this, given); };
    }
    const [a, b] = graph.functions, ops = (f) => f.nodes.filter((node) => node.k === "op").length;
    const apart = a.x + a.w < b.x || b.x + b.w < a.x || a.y + a.h < b.y || b.y + b.h < a.y;
    const whole = camera.x <= 0 && camera.x + canvas.clientWidth / camera.k >= world.w &&
      camera.y <= 0 && camera.y + canvas.clientHeight / camera.k >= world.h;
    const r = canvas.getBoundingClientRect();
    click({clientX: r.left + (b.x + b.w / 2 - camera.x) * camera.k, clientY: r.top + (b.y + 4 - camera.y) * camera.k});
    const used = fn.name;
    document.getElementById("open").click();
    let texts = 0, shapes = 0, calls = 0;
    for (const k of [0.005, 0.02, 0.1, 0.16, 0.31, 0.5, 0.71, 1, 2])
      for (const part of [0, 0.3, 0.5, 0.99]) {
        camera.k = k;
        camera.x = fn.x + fn.w / 2 - canvas.clientWidth / 2 / k;
        camera.y = fn.y + part * fn.h;
        for (const name in count) count[name] = 0;
        paint();
        texts = Math.max(texts, (count.fillText || 0) + (count.strokeText || 0) + (count.measureText || 0));
        calls = Math.max(calls, (count.fill || 0) + (count.stroke || 0) + (count.fillRect || 0));
        shapes = Math.max(shapes, Object.values(count).reduce((sum, n) => sum + n, 0));
      }
    return {ops: [ops(a), ops(b)], apart, whole, used, open: fn.open.size, texts, calls, shapes};)");
  CHECK(seen.at("errors") == Json::array());
  const Json& r = seen.at("result");
  CHECK(r.at("ops") == Json{5000, 5000});
  CHECK(r.at("apart") == true);
  CHECK(r.at("whole") == true);
  CHECK(r.at("used") == "second");
  CHECK(r.at("open") > 10);
  // A frame has 16 ms. Text is dear, about 2 µs a piece without a GPU; a rectangle of a path costs a tenth of that.
  CHECK(r.at("texts") < 1500);
  CHECK(r.at("calls") < 2000);
  CHECK(r.at("shapes") < 15000);
}
