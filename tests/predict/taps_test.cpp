// Values inside a function from a backend that gives outputs alone: the CPU engine, kept from tapping.
#include "predict/taps.h"

#include <doctest/doctest.h>

#include "engine/cpu_backend.h"
#include "mil/text.h"
#include "package/package.h"
#include "predict/arithmetic.h"
#include "support/made_model.h"
#include "support/temp_folder.h"
#include "verify/stepper.h"

using namespace anemone;
using namespace anemone::test;

namespace {

// As Core ML is: what is no output cannot be had.
class OutputsAlone : public Backend {
 public:
  explicit OutputsAlone(const PredictOptions& options) : cpu_(cpu_backend(options)) {}
  std::string_view name() const override { return "outputs alone"; }
  Arithmetic arithmetic() const override { return cpu_->arithmetic(); }
  double close_call() const override { return cpu_->close_call(); }
  bool can_tap() const override { return false; }
  std::unique_ptr<Predictor> open(std::shared_ptr<const Package> package, const std::string& function,
                                  const std::vector<std::string>& taps) const override {
    CHECK(taps.empty());
    return cpu_->open(std::move(package), function);
  }

 private:
  std::shared_ptr<const Backend> cpu_;
};

std::shared_ptr<const Package> chain() {
  auto p = std::make_shared<Package>();
  p->program = parse_mil(
      "program(1.3)\n{ func main<ios18>(tensor<fp32, [2]> x) {"
      "tensor<fp32, [2]> a = relu(x = x)[name = string(\"a\")];"
      "tensor<bool, [2]> m = greater(x = x, y = a)[name = string(\"m\")];"
      "tensor<fp32, [2]> b = square(x = a)[name = string(\"b\")];"
      "tensor<fp32, [2]> y = exp(x = b)[name = string(\"y\")];} -> (y);"
      " func other<ios18>(tensor<fp32, [2]> x) {"
      "tensor<fp32, [2]> a = square(x = x)[name = string(\"a\")];"
      "tensor<fp32, [2]> y = exp(x = a)[name = string(\"y\")];} -> (y); }",
      "t");
  p->description = description_of(p->program);
  p->spec_version = 9;
  return p;
}

}  // namespace

TEST_CASE("values inside a function become outputs of a copy, also of one that is written") {
  const auto package = chain();
  const std::map<std::string, Array> in = {{"x", Array::from<float>({2}, {-1, 3})}};
  const TempFolder folder;
  const auto tapped = with_taps(*package, "main", {"b", "a", "y"});
  write_package(*tapped, folder / "tapped.mlpackage");
  for (const auto& copy : {tapped, open_package(folder / "tapped.mlpackage")}) {
    const Prediction out = make_predictor(copy, "main")->predict(in);
    CHECK(out.outputs.size() == 3);
    CHECK(out.at("a").to_float() == std::vector<float>{0, 3});
    CHECK(out.at("b").to_float() == std::vector<float>{0, 9});
    // The other function, and the package that it came from, are as they were.
    CHECK(make_predictor(copy, "other")->predict(in).outputs.size() == 1);
    CHECK(copy->description.interface("main").outputs.size() == 3);
  }
  CHECK(make_predictor(package, "main")->predict(in).outputs.size() == 1);
  CHECK(make_predictor(with_taps(*package, "other", {"a"}), "other")->predict(in).at("a").to_float() ==
        std::vector<float>{1, 9});

  CHECK(error_of([&] { with_taps(*package, "main", {"z"}); }).find("no value 'z' in the function 'main'") !=
        std::string::npos);
  CHECK(error_of([&] { with_taps(*package, "none", {"a"}); }).find("no function 'none'") !=
        std::string::npos);
  CHECK(error_of([&] { with_taps(*package, "main", {"m"}); }).find("'m' cannot be an output") !=
        std::string::npos);
}

TEST_CASE("the stepper sees the same values through a backend that cannot tap") {
  MadeModel made(small_decoder(3, 1));
  const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9};
  for (const bool whole : {false, true}) {
    const auto path =
        made.write({.context = {16}, .tokens = {{1, 1}, {4, 4}}, .whole = whole, .shard_bytes = 1});
    const Stepper taps(Bundle::open(path, cpu_backend({.threads = 1})), {.taps = true}),
        outputs(Bundle::open(path, std::make_shared<OutputsAlone>(PredictOptions{.threads = 1})),
                {.taps = true});
    for (const CallShape& shape : taps.shapes()) {
      Caches one = taps.empty_caches(shape), other = outputs.empty_caches(shape);
      for (int64_t at = 0; at + shape.most_tokens <= 6; at += shape.most_tokens) {
        const auto part =
            std::span(ids).subspan(static_cast<size_t>(at), static_cast<size_t>(shape.most_tokens));
        const StepResult a = taps.step(shape, part, at, one), b = outputs.step(shape, part, at, other);
        CHECK(a.inner.size() > 20);
        CHECK(a.inner == b.inner);
        CHECK(a.logits == b.logits);
      }
    }
  }
}

TEST_CASE("arithmetics are known by their names") {
  for (const std::string& name : arithmetic_names()) CHECK(arithmetic_name(parse_arithmetic(name)) == name);
  CHECK(arithmetic_names() == std::vector<std::string>{"fp32", "fp16", "fast"});
  CHECK(error_of([] { parse_arithmetic("fp8"); }) ==
        "there is no arithmetic 'fp8'; expected fp32, fp16, fast");
}
