#include "package/description_faults.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/shape.h"

namespace anemone {
namespace {

using Kind = FeatureType::Kind;

constexpr int kHalfArrays = 7, kStates = 9, kFunctions = 9, kNoInputs = 9, kInt8Arrays = 10;

// One feature of a function beside the value of the program that it describes.
class FeatureCheck {
 public:
  enum class Side { input, output, state };

  FeatureCheck(Side side, const Feature& feature, const Value& value, int spec_version)
      : side_(side), feature_(feature), type_(value.type), spec_version_(spec_version) {}

  std::vector<DescriptionFault> run() {
    const FeatureType& said = feature_.type;
    switch (said.kind) {
      case Kind::none: add("has no type in the description", "no type", type_.text()); break;
      case Kind::array: array(); break;
      case Kind::state: array(); break;
      case Kind::image: image(); break;
      // Labels and probabilities of a classifier: their form follows from the operation that makes them.
      case Kind::int64:
      case Kind::float64:
      case Kind::string:
      case Kind::dictionary:
      case Kind::sequence: break;
    }
    if (side_ == Side::output && said.optional)
      add("is optional, and it is an output", "optional", "required");
    return std::move(faults_);
  }

 private:
  std::string_view word() const {
    return side_ == Side::input ? "input" : side_ == Side::output ? "output" : "state";
  }

  void add(std::string_view what, std::string found, std::string expected) {
    faults_.push_back({"", fmt::format("the {} '{}' {}", word(), feature_.name, what), std::move(found),
                       std::move(expected)});
  }

  void version(std::string_view what, int least) {
    if (spec_version_ < least)
      add(fmt::format("is {}, and the specification version is too old for that", what),
          fmt::format("version {}", spec_version_), fmt::format("version {} or later", least));
  }

  void array() {
    const bool state = type_.kind == Type::Kind::state;
    if ((!state && !type_.is_tensor()) || state != (side_ == Side::state) ||
        (feature_.type.kind == Kind::state) != state)
      return add("has another kind in the description than in the program", feature_.type.text(),
                 type_.text());
    const DType said = array_dtype(feature_.type.array.data_type);
    if (said != type_.dtype)
      add("has another data type in the description than in the program", feature_.type.text(), type_.text());
    if (said == DType::fp16) version("fp16", kHalfArrays);
    if (said == DType::int8) version("int8", kInt8Arrays);
    if (state) return this->state();
    default_value(said);
    // A number of dimensions that is left open is read as one unknown dimension, with the file's own message kept.
    const bool any_rank = type_.rank() == 1 && !type_.dim(0).known() && !type_.extra.empty();
    if (!any_rank) shape();
  }

  void state() {
    const ArrayFeature& a = feature_.type.array;
    version("a state", kStates);
    if (feature_.type.optional) add("is optional, and it is a state", "optional", "required");
    if (!a.enumerated.empty() || !a.range.empty())
      add("has a flexible shape, and it is a state", feature_.type.text(), "one shape");
    if (!fits(a.shape))
      add("has another shape in the description than in the program", feature_.type.text(), type_.text());
  }

  // The default of an optional input is written as its data type asks.
  void default_value(DType dtype) {
    const auto& value = feature_.type.array.default_value;
    const bool fits =
        std::holds_alternative<std::monostate>(value) ||
        (std::holds_alternative<float>(value) && (dtype == DType::fp16 || dtype == DType::fp32)) ||
        (std::holds_alternative<int32_t>(value) && (dtype == DType::int32 || dtype == DType::int8)) ||
        (std::holds_alternative<double>(value) && dtype == DType::fp64);
    if (!fits)
      add("has a default value of another data type",
          std::holds_alternative<float>(value)     ? "a float"
          : std::holds_alternative<int32_t>(value) ? "an integer"
                                                   : "a double",
          std::string(dtype_name(dtype)));
  }

  // As many dimensions as in the program, and the same sizes where it knows them. A scalar may be described as [1].
  bool fits(const std::vector<int64_t>& shape) const {
    if (type_.shape.empty()) return shape.empty() || shape == std::vector<int64_t>{1};
    if (shape.size() != type_.shape.size()) return false;
    for (size_t i = 0; i < shape.size(); ++i)
      if (type_.shape[i].known() && type_.shape[i].size() != shape[i]) return false;
    return true;
  }

  void shape() {
    const ArrayFeature& a = feature_.type.array;
    const bool flexible = !a.enumerated.empty() || !a.range.empty();
    if (!a.shape.empty() && !fits(a.shape))
      return add("has another shape in the description than in the program", feature_.type.text(),
                 type_.text());
    // Outputs of unknown size have none, and so have scalars.
    if (side_ == Side::input && a.shape.empty() && !flexible && !type_.shape.empty())
      return add("has no shape in the description", feature_.type.text(), type_.text());
    if (side_ == Side::input && !flexible && !type_.fixed())
      add("has a size that the program leaves open, and the description gives neither a range nor a list",
          feature_.type.text(), type_.text());
    if (!a.enumerated.empty()) enumerated();
    if (!a.range.empty()) range();
  }

  void enumerated() {
    const ArrayFeature& a = feature_.type.array;
    for (const std::vector<int64_t>& one : a.enumerated)
      if (!fits(one)) add("lists a shape that does not fit the program", shape_text(one), type_.text());
    if (!a.shape.empty() && std::ranges::find(a.enumerated, a.shape) == a.enumerated.end())
      add("has a default shape that is not in its list of shapes", shape_text(a.shape),
          fmt::format("one of {} shapes", a.enumerated.size()));
  }

  void range() {
    const ArrayFeature& a = feature_.type.array;
    if (a.range.size() != type_.shape.size())
      return add("has another number of size ranges than dimensions", fmt::format("{}", a.range.size()),
                 fmt::format("{}", type_.shape.size()));
    for (size_t i = 0; i < a.range.size(); ++i) {
      const auto lower = static_cast<int64_t>(a.range[i].lower), upper = a.range[i].upper;
      const std::string text = fmt::format("{} to {}", lower, upper < 0 ? "any" : fmt::format("{}", upper));
      const Dim size = type_.shape[i];
      if (upper >= 0 && lower > upper)
        add(fmt::format("has a range without sizes for dimension {}", i), text, "the lower bound first");
      else if (size.known() && (lower != size.size() || upper != size.size()))
        add(fmt::format("has a range for dimension {}, which the program fixes", i), text,
            fmt::format("{}", size.size()));
      else if (i < a.shape.size() && (a.shape[i] < lower || (upper >= 0 && a.shape[i] > upper)))
        add(fmt::format("has a default shape outside its range for dimension {}", i),
            fmt::format("{}", a.shape[i]), text);
    }
  }

  // The program sees an image as [1, channels, height, width]; the channels may stand last.
  void image() {
    const ImageFeature& said = feature_.type.image;
    if (side_ == Side::state || !type_.is_tensor())
      return add("is an image in the description and no tensor in the program", feature_.type.text(),
                 type_.text());
    if (!said.enumerated.empty() || said.range || type_.rank() != 4) return;
    const int64_t batch = type_.dim(0).known() ? type_.dim(0).size() : 1;
    const int64_t channels = said.color_space == 20 || said.color_space == 30 ? 3 : 1;
    if (!fits({batch, channels, said.height, said.width}) &&
        !fits({batch, said.height, said.width, channels}))
      add("has another size in the description than in the program", feature_.type.text(), type_.text());
  }

  const Side side_;
  const Feature& feature_;
  const Type& type_;
  const int spec_version_;
  std::vector<DescriptionFault> faults_;
};

// "'a', 'b'"; of many the first ones.
template <class List, class Name>
std::string names(const List& list, Name name) {
  constexpr size_t kMost = 8;
  std::string out;
  size_t count = 0;
  for (const auto& one : list)
    if (++count <= kMost) out += fmt::format("{}'{}'", out.empty() ? "" : ", ", name(one));
  if (count > kMost) out += fmt::format(" and {} more", count - kMost);
  return out.empty() ? "none" : out;
}

class PackageCheck {
 public:
  explicit PackageCheck(const Package& package) : package_(package) {}

  std::vector<DescriptionFault> run() {
    const Description& said = package_.description;
    said.functions.empty() ? one_function() : several_functions();
    for (const auto& f : package_.program.functions) {
      const OpsetInfo& opset = opset_info(f->opset);
      if (package_.spec_version < opset.spec_version)
        add(f->name, "the specification version is older than the opset of the program",
            fmt::format("version {}", package_.spec_version),
            fmt::format("version {} or later, for {}", opset.spec_version, opset.text_name));
      if (const Interface* interface = described(*f)) function(*f, *interface);
    }
    return std::move(faults_);
  }

 private:
  using Side = FeatureCheck::Side;

  void add(const std::string& function, std::string message, std::string found, std::string expected) {
    faults_.push_back({function, std::move(message), std::move(found), std::move(expected)});
  }

  std::string program_functions() const {
    return names(package_.program.functions, [](const auto& f) { return f->name; });
  }

  const Interface* described(const Function& f) const {
    const Description& said = package_.description;
    if (said.functions.empty()) return f.name == "main" ? &said.main : nullptr;
    const auto it = std::ranges::find(said.functions, f.name, &Interface::name);
    return it == said.functions.end() ? nullptr : &*it;
  }

  // A description without functions is about "main", and no other function can be called.
  void one_function() {
    if (const std::string& name = package_.description.default_function; !name.empty())
      add("", "the description names a default function and lists no functions", "'" + name + "'", "none");
    if (!package_.program.find_function("main"))
      return add("", "the description lists no functions, and the program has no 'main'", program_functions(),
                 "'main'");
    for (const auto& f : package_.program.functions)
      if (f->name != "main")
        add(f->name, "the function is not in the description", "no list of functions", program_functions());
  }

  void several_functions() {
    const Description& said = package_.description;
    const std::string listed = names(said.functions, [](const Interface& i) { return i.name; });
    std::set<std::string> seen;
    std::set<Opset> opsets;
    for (const auto& f : package_.program.functions) {
      opsets.insert(f->opset);
      if (!described(*f)) add(f->name, "the function is not in the description", listed, program_functions());
    }
    for (const Interface& i : said.functions) {
      if (!seen.insert(i.name).second)
        add(i.name, "the description lists the function twice", listed, "once");
      if (!package_.program.find_function(i.name))
        add(i.name, "the description lists a function that the program does not have", "'" + i.name + "'",
            program_functions());
    }
    if (!seen.contains(said.default_function))
      add("", "the default function is none of the functions in the description",
          said.default_function.empty() ? "none" : "'" + said.default_function + "'", listed);
    if (!said.main.inputs.empty() || !said.main.outputs.empty() || !said.main.states.empty())
      add("", "the description has inputs, outputs or states of its own beside its functions",
          names(said.main.inputs, [](const Feature& f) { return f.name; }), "none");
    if (package_.spec_version < kFunctions)
      add("", "the description lists functions, and the specification version is too old for that",
          fmt::format("version {}", package_.spec_version), fmt::format("version {} or later", kFunctions));
    if (opsets.size() > 1)
      add("", "the functions are of different opsets",
          names(opsets, [](Opset o) { return opset_info(o).text_name; }), "one opset for all");
  }

  void function(const Function& f, const Interface& said) {
    std::vector<const Value*> inputs, states;
    for (const auto& input : f.inputs)
      (input->type.kind == Type::Kind::state ? states : inputs).push_back(input.get());
    side(f, Side::input, inputs, said.inputs);
    side(f, Side::state, states, said.states);
    side(f, Side::output, {f.body.outputs.begin(), f.body.outputs.end()}, said.outputs);
    if (said.inputs.empty() && package_.spec_version < kNoInputs)
      add(f.name, "the function has no inputs, and the specification version is too old for that",
          fmt::format("version {}", package_.spec_version), fmt::format("version {} or later", kNoInputs));
    if (!said.inputs.empty() &&
        std::ranges::all_of(said.inputs, [](const Feature& i) { return i.type.optional; }))
      add(f.name, "every input is optional in the description",
          names(said.inputs, [](const Feature& i) { return i.name; }), "one input at least that is required");
  }

  void side(const Function& f, Side side, const std::vector<const Value*>& values,
            const std::vector<Feature>& said) {
    const std::string word = side == Side::input ? "input" : side == Side::output ? "output" : "state";
    const std::string listed = names(said, [](const Feature& one) { return one.name; }),
                      have = names(values, [](const Value* v) { return v->name; });
    std::set<std::string> seen;
    for (const Feature& feature : said) {
      if (!seen.insert(feature.name).second)
        add(f.name, fmt::format("the description has the {} '{}' twice", word, feature.name), listed, "once");
      const auto value = std::ranges::find(values, feature.name, &Value::name);
      if (value == values.end()) {
        add(f.name, fmt::format("the {} '{}' of the description is not in the program", word, feature.name),
            listed, have);
        continue;
      }
      for (DescriptionFault& fault : FeatureCheck(side, feature, **value, package_.spec_version).run())
        add(f.name, std::move(fault.message), std::move(fault.found), std::move(fault.expected));
    }
    for (const Value* value : values)
      if (!seen.contains(value->name))
        add(f.name, fmt::format("the {} '{}' of the program is not in the description", word, value->name),
            listed, have);
  }

  const Package& package_;
  std::vector<DescriptionFault> faults_;
};

}  // namespace

std::string DescriptionFault::text() const {
  return fmt::format("{}{}; found {}; expected {}",
                     function.empty() ? "" : "function '" + function + "': ", message, found, expected);
}

std::vector<std::string> weight_file_faults(const Package& package) {
  std::vector<std::string> out;
  for (const std::string& name : package.missing_weights)
    out.push_back(fmt::format("the weight file '{}' is missing", name));
  for (const std::string& name : package.moved_weights)
    out.push_back(fmt::format("the program names the weight file '{}', and it is not there", name));
  if (package.weights_folder_missing && package.missing_weights.empty())
    out.emplace_back("the manifest names a weights folder that does not exist");
  return out;
}

std::vector<DescriptionFault> description_faults(const Package& package) {
  // Without a description of its own a package agrees with itself.
  return package.described ? PackageCheck(package).run() : std::vector<DescriptionFault>();
}

}  // namespace anemone
