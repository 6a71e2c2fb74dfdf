#include "mil/verify.h"

#include <doctest/doctest.h>

#include "mil/text.h"

using namespace anemone;

namespace {

std::vector<Fault> faults(
    const std::string& body, const std::string& outputs = "y", const std::string& opset = "ios18",
    const std::string& inputs = "tensor<fp16, [1, 4]> x, state<tensor<fp16, [1, 4]>> s") {
  return verify(parse_mil(
      "program(1.3)\n{ func main<" + opset + ">(" + inputs + ") {" + body + "} -> (" + outputs + "); }",
      "t"));
}

std::string first(const std::vector<Fault>& found) {
  return found.empty() ? "" : found[0].rule + " " + found[0].op;
}

}  // namespace

TEST_CASE("the verifier names the operation and the rule") {
  const std::string good = "tensor<fp16, [1, 4]> y = relu(x = x)[name = string(\"y\")];";
  CHECK(faults(good).empty());
  CHECK(first(faults("tensor<fp16, [1, 4]> y = wobble(x = x)[name = string(\"y\")];")) == "V04 'y' (wobble)");
  CHECK(first(faults("tensor<fp16, [1, 4]> y = slice_update(x = x)[name = string(\"y\")];", "y", "ios17",
                     "tensor<fp16, [1, 4]> x")) == "V04 'y' (slice_update)");
  CHECK(first(faults("tensor<fp16, [1, 4]> y = relu()[name = string(\"y\")];")) == "V05 'y' (relu)");
  CHECK(first(faults("tensor<fp16, [1, 4]> y = logical_not(x = x)[name = string(\"y\")];")) ==
        "V05 'y' (logical_not)");
  CHECK(first(faults("tensor<fp16, [1, 5]> y = relu(x = x)[name = string(\"y\")];")) == "V07 'y' (relu)");
  CHECK(first(faults("tensor<fp32, [1, 4]> y = relu(x = x)[name = string(\"y\")];")) == "V07 'y' (relu)");
  CHECK(first(faults("tensor<int32, [2]> p = const()[name = string(\"p\"), val = tensor<int32, [2]>([1, 0])];"
                     "tensor<int32, [2]> q = abs(x = p)[name = string(\"q\")];"
                     "tensor<fp16, [4, 1]> y = transpose(perm = q, x = x)[name = string(\"y\")];")) ==
        "V06 'y' (transpose)");
  CHECK(
      first(faults("tensor<int32, [3]> p = const()[name = string(\"p\"), val = tensor<int32, [2]>([1, 0])];" +
                   good)) == "V08 'p' (const)");
  CHECK(first(faults(good, "")) == "V12 ");
  CHECK(first(faults(good, "y", "ios18", "tensor<fp16, [1, 4]> x, state<tensor<fp32, [1, 4]>> s")) == "V11 ");
  CHECK(first(faults("tensor<fp16, [1, 1, 1, 1, 1, 4]> y = reshape(shape = tensor<int32, [6]>([1, 1, 1, 1, "
                     "1, 4]), x = x)"
                     "[name = string(\"y\")];")) == "V10 'y' (reshape)");
  CHECK(faults(good).size() == 0);
  CHECK(faults("tensor<fp16, [1, 5]> y = relu(x = x)[name = string(\"y\")];")[0].text() ==
        "V07 in function 'main', op 'y' (relu): 'y' is declared tensor<fp16, [1, 5]> but is tensor<fp16, [1, "
        "4]>");
}
