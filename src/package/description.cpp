#include "package/description.h"

#include <algorithm>

#include "base/shape.h"
#include "package/wire.h"

namespace anemone {
namespace {

using wire::bytes;
using wire::Fields;
using wire::fixed32;
using wire::fixed64;
using wire::varint;

struct DTypeCode {
  DType dtype;
  int64_t code;
};
constexpr DTypeCode kCodes[] = {{DType::fp32, 65568},
                                {DType::fp64, 65600},
                                {DType::int32, 131104},
                                {DType::fp16, 65552},
                                {DType::int8, 131080}};

// Each reader below sets `odd` when it meets a field that it does not know.
SizeRange read_range(std::string_view message, bool& odd) {
  SizeRange out;
  std::string rest;
  for (Fields f(message); f.next();) switch (f.key()) {
      case varint(1): out.lower = f.unsigned_integer(); break;
      case varint(2): out.upper = f.integer(); break;
      default: f.keep(rest); odd = true;
    }
  return out;
}

std::vector<std::vector<int64_t>> read_shapes(std::string_view message, bool& odd) {
  std::vector<std::vector<int64_t>> out;
  std::string rest;
  for (Fields f(message); f.next();) {
    if (f.key() != bytes(1)) {
      f.keep(rest), odd = true;
      continue;
    }
    out.emplace_back();
    for (Fields shape(f.view()); shape.next();) {
      if (shape.key() == bytes(1) || shape.key() == varint(1))
        shape.integers(out.back());
      else
        shape.keep(rest), odd = true;
    }
  }
  return out;
}

std::vector<SizeRange> read_ranges(std::string_view message, bool& odd) {
  std::vector<SizeRange> out;
  std::string rest;
  for (Fields f(message); f.next();) {
    if (f.key() == bytes(1))
      out.push_back(read_range(f.view(), odd));
    else
      f.keep(rest), odd = true;
  }
  return out;
}

ArrayFeature read_array(std::string_view message, bool& odd) {
  ArrayFeature out;
  std::string rest;
  for (Fields f(message); f.next();) switch (f.key()) {
      case bytes(1):
      case varint(1): f.integers(out.shape); break;
      case varint(2): out.data_type = f.integer(); break;
      case bytes(21): out.enumerated = read_shapes(f.view(), odd), odd |= out.enumerated.empty(); break;
      case bytes(31): out.range = read_ranges(f.view(), odd), odd |= out.range.empty(); break;
      case varint(41): out.default_value = static_cast<int32_t>(f.integer()); break;
      case fixed32(51): out.default_value = f.float32(); break;
      case fixed64(61): out.default_value = f.float64(); break;
      default: f.keep(rest); odd = true;
    }
  if (!out.enumerated.empty() && !out.range.empty())
    throw Error("an array has enumerated shapes and a range of shapes").expected("one of them");
  for (const int64_t size : out.shape)
    if (size < 0) throw Error("an array has a negative size").found(shape_text(out.shape));
  return out;
}

std::pair<int64_t, int64_t> read_size(std::string_view message, bool& odd) {
  std::pair<int64_t, int64_t> out{};
  std::string rest;
  for (Fields f(message); f.next();) switch (f.key()) {
      case varint(1): out.first = f.integer(); break;
      case varint(2): out.second = f.integer(); break;
      default: f.keep(rest); odd = true;
    }
  return out;
}

ImageFeature read_image(std::string_view message, bool& odd) {
  ImageFeature out;
  std::string rest;
  for (Fields f(message); f.next();) switch (f.key()) {
      case varint(1): out.width = f.integer(); break;
      case varint(2): out.height = f.integer(); break;
      case varint(3): out.color_space = f.integer(); break;
      case bytes(21):
        for (Fields sizes(f.view()); sizes.next();) {
          if (sizes.key() == bytes(1))
            out.enumerated.push_back(read_size(sizes.view(), odd));
          else
            sizes.keep(rest), odd = true;
        }
        break;
      case bytes(31):
        out.range.emplace();
        for (Fields range(f.view()); range.next();) switch (range.key()) {
            case bytes(1): out.range->first = read_range(range.view(), odd); break;
            case bytes(2): out.range->second = read_range(range.view(), odd); break;
            default: range.keep(rest); odd = true;
          }
        break;
      default: f.keep(rest); odd = true;
    }
  return out;
}

// Of a dictionary (keys: 1 int64, 2 string) or a sequence (elements: 1 int64, 3 string; 101 length).
void read_items(std::string_view message, FeatureType& out, bool& odd) {
  const uint32_t string_tag = out.kind == FeatureType::Kind::dictionary ? 2 : 3;
  std::string rest;
  for (Fields f(message); f.next();) {
    if (f.key() == bytes(1) || f.key() == bytes(string_tag)) {
      out.item = f.tag() == 1 ? FeatureType::Kind::int64 : FeatureType::Kind::string;
      if (!f.view().empty()) odd = true;
    } else if (f.key() == bytes(101) && out.kind == FeatureType::Kind::sequence) {
      out.length = read_range(f.view(), odd);
    } else {
      f.keep(rest), odd = true;
    }
  }
}

void read_kind(FeatureType& out, uint32_t tag, std::string_view message, bool& odd) {
  if (out.kind != FeatureType::Kind::none) throw Error("a feature has two types");
  out.kind = static_cast<FeatureType::Kind>(tag);
  switch (out.kind) {
    case FeatureType::Kind::image: out.image = read_image(message, odd); break;
    case FeatureType::Kind::array: out.array = read_array(message, odd); break;
    case FeatureType::Kind::dictionary:
    case FeatureType::Kind::sequence: read_items(message, out, odd); break;
    case FeatureType::Kind::state: {
      std::string rest;
      for (Fields f(message); f.next();) {
        if (f.key() == bytes(1))
          out.array = read_array(f.view(), odd);
        else
          f.keep(rest), odd = true;
      }
      break;
    }
    default:
      if (!message.empty()) odd = true;
  }
}

Feature read_feature(std::string_view message) {
  Feature out;
  wire::at_place([&] { return fmt::format("feature '{}'", out.name); },
                 [&] {
                   for (Fields f(message); f.next();) switch (f.key()) {
                       case bytes(1): out.name = f.text(); break;
                       case bytes(2): out.description = f.text(); break;
                       case bytes(3): out.type = decode_feature_type(f.view()); break;
                       default: f.keep(out.extra);
                     }
                 });
  return out;
}

Interface read_interface(std::string_view message) {
  Interface out;
  for (Fields f(message); f.next();) switch (f.key()) {
      case bytes(1): out.name = f.text(); break;
      case bytes(2): out.inputs.push_back(read_feature(f.view())); break;
      case bytes(3): out.outputs.push_back(read_feature(f.view())); break;
      case bytes(4): out.predicted_feature = f.text(); break;
      case bytes(5): out.predicted_probabilities = f.text(); break;
      case bytes(6): out.states.push_back(read_feature(f.view())); break;
      default: f.keep(out.extra);
    }
  return out;
}

Metadata read_metadata(std::string_view message) {
  Metadata out;
  for (Fields f(message); f.next();) switch (f.key()) {
      case bytes(1): out.description = f.text(); break;
      case bytes(2): out.version = f.text(); break;
      case bytes(3): out.author = f.text(); break;
      case bytes(4): out.license = f.text(); break;
      case bytes(100): {
        std::string key, value, rest;
        for (Fields entry(f.view()); entry.next();) switch (entry.key()) {
            case bytes(1): key = entry.text(); break;
            case bytes(2): value = entry.text(); break;
            default: entry.keep(rest);  // protobuf's own maps have no place for these either
          }
        out.user[std::move(key)] = std::move(value);
        break;
      }
      default: f.keep(out.extra);
    }
  return out;
}

Feature feature_of(const Value& value) {
  Feature out;
  out.name = value.name;
  out.type.kind = value.type.kind == Type::Kind::state ? FeatureType::Kind::state : FeatureType::Kind::array;
  out.type.array.data_type = array_dtype_code(value.type.dtype);
  if (value.type.fixed()) out.type.array.shape = value.type.dims();
  return out;
}

Interface interface_of(const Function& function) {
  Interface out;
  for (const auto& input : function.inputs)
    (input->type.kind == Type::Kind::state ? out.states : out.inputs).push_back(feature_of(*input));
  for (const Value* output : function.body.outputs) out.outputs.push_back(feature_of(*output));
  return out;
}

}  // namespace

DType array_dtype(int64_t code) {
  for (const DTypeCode& entry : kCodes)
    if (entry.code == code) return entry.dtype;
  return DType::none;
}

int64_t array_dtype_code(DType dtype) {
  for (const DTypeCode& entry : kCodes)
    if (entry.dtype == dtype) return entry.code;
  return 0;
}

bool FeatureType::operator==(const FeatureType& other) const {
  return kind == other.kind && optional == other.optional && array == other.array && image == other.image &&
         item == other.item && length == other.length;
}

std::string FeatureType::text() const {
  const std::string end = optional ? ", optional" : "";
  switch (kind) {
    case Kind::none: return "no type";
    case Kind::int64: return "int64" + end;
    case Kind::float64: return "double" + end;
    case Kind::string: return "string" + end;
    case Kind::image: {
      const std::string_view color = image.color_space == 10   ? "gray "
                                     : image.color_space == 20 ? "RGB "
                                     : image.color_space == 30 ? "BGR "
                                     : image.color_space == 40 ? "gray fp16 "
                                                               : "";
      const bool flexible = !image.enumerated.empty() || image.range;
      return fmt::format("{}image {}x{}{}{}", color, image.width, image.height, flexible ? ", flexible" : "",
                         end);
    }
    case Kind::dictionary: return "dictionary" + end;
    case Kind::sequence: return "sequence" + end;
    case Kind::array:
    case Kind::state: {
      const DType dtype = array_dtype(array.data_type);
      const std::string name =
          dtype == DType::none ? fmt::format("type {}", array.data_type) : std::string(dtype_name(dtype));
      const bool flexible = !array.enumerated.empty() || !array.range.empty();
      return fmt::format("{} {} {}{}{}", kind == Kind::state ? "state" : "array", name,
                         shape_text(array.shape), flexible ? ", flexible" : "", end);
    }
  }
  return "";
}

const Feature* Interface::find(std::string_view feature) const {
  for (const auto* list : {&inputs, &outputs, &states})
    for (const Feature& candidate : *list)
      if (candidate.name == feature) return &candidate;
  return nullptr;
}

const Interface& Description::interface(std::string_view function) const {
  if (functions.empty()) return main;
  for (const Interface& candidate : functions)
    if (candidate.name == function) return candidate;
  throw errorf("the description has no function '{}'", function);
}

FeatureType decode_feature_type(std::string_view message) {
  FeatureType out;
  bool odd = false;
  std::string rest;
  for (Fields f(message); f.next();) {
    if (f.tag() >= 1 && f.tag() <= 8 && f.key() == bytes(f.tag())) {
      const uint32_t tag = f.tag();
      read_kind(out, tag, f.view(), odd);
    } else if (f.key() == varint(1000)) {
      out.optional = f.boolean();
    } else {
      f.keep(rest), odd = true;
    }
  }
  if (odd) out.original = std::string(message);
  return out;
}

Description decode_description(std::string_view message) {
  Description out;
  wire::at_place([] { return std::string("description"); },
                 [&] {
                   for (Fields f(message); f.next();) switch (f.key()) {
                       case bytes(1): out.main.inputs.push_back(read_feature(f.view())); break;
                       case bytes(10): out.main.outputs.push_back(read_feature(f.view())); break;
                       case bytes(11): out.main.predicted_feature = f.text(); break;
                       case bytes(12): out.main.predicted_probabilities = f.text(); break;
                       case bytes(13): out.main.states.push_back(read_feature(f.view())); break;
                       case bytes(20): out.functions.push_back(read_interface(f.view())); break;
                       case bytes(21): out.default_function = f.text(); break;
                       case bytes(50): out.training_inputs.push_back(read_feature(f.view())); break;
                       case bytes(100): out.metadata = read_metadata(f.view()); break;
                       default: f.keep(out.main.extra);
                     }
                 });
  return out;
}

Description description_of(const Program& program) {
  Description out;
  if (program.functions.size() == 1) {
    out.main = interface_of(*program.functions[0]);
    return out;
  }
  for (const auto& function : program.functions) {
    out.functions.push_back(interface_of(*function));
    out.functions.back().name = function->name;
  }
  if (!out.functions.empty())
    out.default_function = program.find_function("main") ? "main" : out.functions[0].name;
  return out;
}

}  // namespace anemone
