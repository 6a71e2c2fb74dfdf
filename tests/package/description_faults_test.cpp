// What Core ML compares before it loads a package: the description beside the program.
#include "package/description_faults.h"

#include <doctest/doctest.h>

#include "anemone/package.h"
#include "package/build.h"
#include "support/data.h"

using namespace anemone;

namespace {

using Change = std::function<void(Package&)>;

// y = relu(x), and a state that is read.
Function& add_relu(Program& program, const std::string& name, Type type) {
  Function& f = add_function(program, name);
  Value* x = add_input(f, "x", type);
  Value* state = add_input(f, "cache", Type::state(DType::fp16, {1, 64}));
  Value* old = add_op(f, "read_state", "old", Type::tensor(DType::fp16, {1, 64}), {{"input", state}});
  f.body.outputs = {add_op(f, "relu", "y", type, {{"x", x}}), old};
  return f;
}

Package one(Type type = Type::tensor(DType::fp16, {1, 4, 8, 6})) {
  Package package;
  package.spec_version = 9;
  add_relu(package.program, "main", std::move(type));
  package.description = description_of(package.program);
  return package;
}

Package two() {
  Package package;
  package.spec_version = 9;
  add_relu(package.program, "prefill", Type::tensor(DType::fp16, {1, 4, 8, 64}));
  add_relu(package.program, "decode", Type::tensor(DType::fp16, {1, 4, 8, 1}));
  package.description = description_of(package.program);
  return package;
}

// An input of 1 to 16 rows, 3 by default.
Package flexible() {
  Package package = one(Type::tensor(DType::fp16, {1, 4, Dim::unknown(), 6}));
  ArrayFeature& a = package.description.main.inputs[0].type.array;
  a.shape = {1, 4, 3, 6};
  a.range = {{1, 1}, {4, 4}, {1, 16}, {6, 6}};
  return package;
}

Package enumerated() {
  Package package = flexible();
  ArrayFeature& a = package.description.main.inputs[0].type.array;
  a.range.clear();
  a.enumerated = {{1, 4, 3, 6}, {1, 4, 5, 6}};
  return package;
}

Package image(int64_t width, int64_t height, int64_t color) {
  Package package = one(Type::tensor(DType::fp16, {1, 3, 8, 6}));
  FeatureType& type = package.description.main.inputs[0].type;
  type = {};
  type.kind = FeatureType::Kind::image;
  type.image = {width, height, color, {}, {}};
  return package;
}

std::string faults(Package package, const Change& change = [](Package&) {}) {
  change(package);
  std::string out;
  for (const DescriptionFault& f : description_faults(package)) out += f.text() + "\n";
  return out;
}

ArrayFeature& input(Package& p) { return p.description.main.inputs[0].type.array; }

}  // namespace

TEST_CASE("a description that fits its program has no faults") {
  CHECK(faults(one()) == "");
  CHECK(faults(two()) == "");
  CHECK(faults(flexible()) == "");
  CHECK(faults(enumerated()) == "");
  CHECK(faults(image(6, 8, 20)) == "");
  CHECK(faults(image(6, 8, 30)) == "");
  CHECK(faults(small_package()) == "");
  // Outputs of unknown size are described without a shape, scalars as [1] or without.
  CHECK(faults(flexible(),
               [](Package& p) { CHECK(p.description.main.outputs[0].type.array.shape.empty()); }) == "");
  Package scalar = one();
  scalar.program.functions[0]->body.outputs[0]->type.shape.clear();
  scalar.description.main.outputs[0].type.array.shape = {1};
  CHECK(faults(std::move(scalar)) == "");
  // A second, optional input with a default.
  Package optional = one();
  Function& f = *optional.program.functions[0];
  add_input(f, "z", Type::tensor(DType::fp32, {4}));
  Feature z;
  z.name = "z";
  z.type.kind = FeatureType::Kind::array;
  z.type.optional = true;
  z.type.array.shape = {4};
  z.type.array.data_type = array_dtype_code(DType::fp32);
  z.type.array.default_value = 1.0f;
  optional.description.main.inputs.push_back(z);
  CHECK(faults(std::move(optional)) == "");
  // A newer version than the opset needs.
  CHECK(faults(one(), [](Package& p) { p.spec_version = 10; }) == "");
  // A program without a description of its own.
  CHECK(faults(one(), [](Package& p) {
          p.described = false;
          p.description = {};
        }) == "");
}

TEST_CASE("a description that does not fit is told with what was found and what was expected") {
  struct Case {
    const char* what;
    std::function<Package()> make;
    Change change;
    std::vector<const char*> must_say;
  };
  const auto plain = [] { return one(); };
  const Case cases[] = {
      {"shape",
       plain,
       [](Package& p) { input(p).shape[1] = 5; },
       {"function 'main': the input 'x' has another shape", "found array fp16 [1, 5, 8, 6]",
        "expected tensor<fp16, [1, 4, 8, 6]>"}},
      {"rank", plain, [](Package& p) { input(p).shape.pop_back(); }, {"another shape", "[1, 4, 8];"}},
      {"no shape", plain, [](Package& p) { input(p).shape.clear(); }, {"'x' has no shape"}},
      {"data type",
       plain,
       [](Package& p) { input(p).data_type = array_dtype_code(DType::fp32); },
       {"the input 'x' has another data type", "found array fp32", "expected tensor<fp16"}},
      {"no such data type",
       plain,
       [](Package& p) { input(p).data_type = 7; },
       {"another data type", "type 7"}},
      {"output shape",
       plain,
       [](Package& p) { p.description.main.outputs[0].type.array.shape[3] = 7; },
       {"the output 'y' has another shape", "[1, 4, 8, 7]"}},
      {"input name",
       plain,
       [](Package& p) { p.description.main.inputs[0].name = "z"; },
       {"the input 'z' of the description is not in the program; found 'z'; expected 'x'",
        "the input 'x' of the program is not in the description"}},
      {"output name",
       plain,
       [](Package& p) { p.description.main.outputs[1].name = "z"; },
       {"the output 'z' of the description", "the output 'old' of the program"}},
      {"missing output",
       plain,
       [](Package& p) { p.description.main.outputs.pop_back(); },
       {"the output 'old' of the program is not in the description; found 'y'; expected 'y', 'old'"}},
      {"twice",
       plain,
       [](Package& p) { p.description.main.inputs.push_back(p.description.main.inputs[0]); },
       {"the description has the input 'x' twice"}},
      {"missing state",
       plain,
       [](Package& p) { p.description.main.states.clear(); },
       {"the state 'cache' of the program is not in the description; found none; expected 'cache'"}},
      {"extra state",
       plain,
       [](Package& p) {
         p.description.main.states.push_back(p.description.main.states[0]);
         p.description.main.states[1].name = "other";
       },
       {"the state 'other' of the description is not in the program"}},
      {"state among the inputs",
       plain,
       [](Package& p) {
         p.description.main.inputs.push_back(p.description.main.states[0]);
         p.description.main.states.clear();
       },
       {"the input 'cache' of the description", "the state 'cache' of the program"}},
      {"state as array",
       plain,
       [](Package& p) { p.description.main.states[0].type.kind = FeatureType::Kind::array; },
       {"the state 'cache' has another kind", "found array", "expected state"}},
      {"state shape",
       plain,
       [](Package& p) { p.description.main.states[0].type.array.shape[1] = 32; },
       {"the state 'cache' has another shape", "[1, 32]", "[1, 64]"}},
      {"state type",
       plain,
       [](Package& p) { p.description.main.states[0].type.array.data_type = array_dtype_code(DType::fp32); },
       {"the state 'cache' has another data type"}},
      {"flexible state",
       plain,
       [](Package& p) { p.description.main.states[0].type.array.range = {{1, 1}, {64, 64}}; },
       {"flexible shape, and it is a state"}},
      {"optional output",
       plain,
       [](Package& p) { p.description.main.outputs[0].type.optional = true; },
       {"is optional, and it is an output"}},
      {"only optional inputs",
       plain,
       [](Package& p) { p.description.main.inputs[0].type.optional = true; },
       {"every input is optional"}},
      {"default of another type",
       plain,
       [](Package& p) { input(p).default_value = int32_t{1}; },
       {"default value of another data type; found an integer; expected fp16"}},
      {"no type", plain, [](Package& p) { p.description.main.inputs[0].type = {}; }, {"has no type"}},
      {"version below the opset",
       plain,
       [](Package& p) { p.spec_version = 8; },
       {"older than the opset of the program; found version 8; expected version 9 or later, for ios18",
        "the state 'cache' is a state, and the specification version is too old"}},
      {"fp16 before version 7",
       [] {
         Package p = small_package();
         p.program.functions[0]->opset = Opset::ios15;
         p.spec_version = 6;
         return p;
       },
       [](Package&) {},
       {"the input 'x' is fp16, and the specification version is too old", "version 6",
        "version 7 or later"}},
      {"default function without functions",
       plain,
       [](Package& p) { p.description.default_function = "main"; },
       {"names a default function and lists no functions; found 'main'"}},
      {"no main",
       plain,
       [](Package& p) { p.program.functions[0]->name = "decode"; },
       {"the program has no 'main'; found 'decode'"}},
      {"second function without a list",
       plain,
       [](Package& p) { add_relu(p.program, "decode", Type::tensor(DType::fp16, {1, 4, 8, 1})); },
       {"function 'decode': the function is not in the description; found no list of functions"}},
      {"default function",
       two,
       [](Package& p) { p.description.default_function = "main"; },
       {"the default function is none", "found 'main'; expected 'prefill', 'decode'"}},
      {"no default function",
       two,
       [](Package& p) { p.description.default_function.clear(); },
       {"found none"}},
      {"function not described",
       two,
       [](Package& p) { p.description.functions.pop_back(); },
       {"function 'decode': the function is not in the description; found 'prefill'"}},
      {"function not in the program",
       two,
       [](Package& p) { p.program.functions.pop_back(); },
       {"function 'decode': the description lists a function that the program does not have"}},
      {"function twice",
       two,
       [](Package& p) { p.description.functions.push_back(p.description.functions[0]); },
       {"lists the function twice"}},
      {"shape in one function",
       two,
       [](Package& p) { p.description.functions[1].inputs[0].type.array.shape[3] = 2; },
       {"function 'decode': the input 'x' has another shape"}},
      {"inputs beside functions",
       two,
       [](Package& p) { p.description.main.inputs = p.description.functions[0].inputs; },
       {"of its own beside its functions"}},
      {"opsets",
       two,
       [](Package& p) { p.program.functions[1]->opset = Opset::ios17; },
       {"different opsets; found 'ios17', 'ios18'"}},
      {"range count",
       flexible,
       [](Package& p) { input(p).range.pop_back(); },
       {"another number of size ranges than dimensions; found 3; expected 4"}},
      {"range of a fixed size",
       flexible,
       [](Package& p) { input(p).range[1] = {1, 4}; },
       {"dimension 1, which the program fixes; found 1 to 4; expected 4"}},
      {"empty range", flexible, [](Package& p) { input(p).range[2] = {9, 2}; }, {"a range without sizes"}},
      {"default outside the range",
       flexible,
       [](Package& p) { input(p).shape[2] = 17; },
       {"outside its range for dimension 2; found 17; expected 1 to 16"}},
      {"no flexibility",
       flexible,
       [](Package& p) { input(p).range.clear(); },
       {"neither a range nor a list"}},
      {"enumerated shape",
       enumerated,
       [](Package& p) { input(p).enumerated[1][1] = 5; },
       {"lists a shape that does not fit the program; found [1, 5, 5, 6]"}},
      {"default not listed",
       enumerated,
       [](Package& p) { input(p).shape[2] = 4; },
       {"not in its list of shapes; found [1, 4, 4, 6]"}},
      {"image size",
       [] { return image(8, 6, 20); },
       [](Package&) {},
       {"the input 'x' has another size", "RGB image 8x6", "[1, 3, 8, 6]"}},
      {"grey image", [] { return image(6, 8, 10); }, [](Package&) {}, {"grey image 6x8"}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const std::string found = faults(c.make(), c.change);
    for (const char* text : c.must_say)
      CHECK_MESSAGE(found.find(text) != std::string::npos, text, " in\n", found);
  }
}

TEST_CASE("the descriptions of given packages fit their programs") {
  for (const auto& path : data_packages()) {
    CAPTURE(path);
    CHECK(description_faults(*open_package(path)).empty());
  }
}
