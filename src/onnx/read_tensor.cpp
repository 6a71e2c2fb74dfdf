// TensorProto: its numbers come as raw bytes, in a file beside the model, or as one of six lists.
#include <charconv>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/shape.h"
#include "onnx/reader.h"
#include "package/wire.h"

namespace anemone {
namespace {

using wire::bytes;
using wire::fixed32;
using wire::fixed64;
using wire::varint;

// The fields of a TensorProto, as they lie in the file.
struct TensorFields {
  std::string_view name;
  std::vector<int64_t> dims;
  int64_t code = 0;
  bool external = false;
  bool has_raw = false;
  std::string_view raw;
  std::vector<std::string_view> floats, doubles;  // packed stretches; one is the rule
  std::vector<int64_t> ints;  // int32_data, int64_data or uint64_data, in that field's order
  std::vector<std::string_view> strings;
  ExternalPlace place;
};

uint64_t decimal(std::string_view text, std::string_view what) {
  uint64_t value = 0;
  const auto [end, why] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (why != std::errc() || end != text.data() + text.size())
    throw errorf("the {} of external data is no number", what).found(onnx_printable(text));
  return value;
}

void read_external(std::string_view message, ExternalPlace& out) {
  std::string_view key, value;
  for (wire::Fields f(message); f.next();) {
    if (f.key() == bytes(1))
      key = f.view();
    else if (f.key() == bytes(2))
      value = f.view();
    else
      f.skip();
  }
  if (key == "location") out.location = value;
  if (key == "offset") out.offset = decimal(value, "offset");
  if (key == "length") out.length = decimal(value, "length");
}

TensorFields read_fields(std::string_view message, OnnxBudget& budget) {
  TensorFields t;
  for (wire::Fields f(message); f.next();) {
    switch (f.key()) {
      case bytes(1):
      case varint(1): f.integers(t.dims); break;
      case varint(2): t.code = f.integer(); break;
      case bytes(3): throw Error("a tensor in segments is not supported").hint("save the model again");
      case bytes(4): t.floats.push_back(f.view()); break;
      case fixed32(4): t.floats.push_back(f.fixed_bytes()); break;
      case bytes(5):
      case varint(5):
      case bytes(7):
      case varint(7):
      case bytes(11):
      case varint(11): f.integers(t.ints); break;
      case bytes(6):
        budget.item();
        t.strings.push_back(f.view());
        break;
      case bytes(8): t.name = f.view(); break;
      case bytes(9):
        t.has_raw = true;
        t.raw = f.view();
        break;
      case bytes(10): t.doubles.push_back(f.view()); break;
      case fixed64(10): t.doubles.push_back(f.fixed_bytes()); break;
      case bytes(13): read_external(f.view(), t.place); break;
      case varint(14): t.external = f.integer() == 1; break;
      default: f.skip();
    }
  }
  return t;
}

OnnxTensor::Place owned(std::string packed) {
  auto memory = std::make_shared<const std::string>(std::move(packed));
  return {nullptr, memory, std::as_bytes(std::span(memory->data(), memory->size()))};
}

OnnxTensor::Place in_file(const std::shared_ptr<const MappedFile>& file, std::string_view view) {
  return {file, nullptr, std::as_bytes(std::span(view.data(), view.size()))};
}

// One stretch stays in the file, several are joined.
OnnxTensor::Place joined(const std::shared_ptr<const MappedFile>& file,
                         const std::vector<std::string_view>& parts) {
  if (parts.size() == 1) return in_file(file, parts[0]);
  std::string all;
  for (const std::string_view part : parts) all += part;
  return owned(std::move(all));
}

// Each number cut to the bits that the type stores. Types of 2 and 4 bits come packed in bytes already; those of 6 bits
// come one by one.
OnnxTensor::Place packed(const std::vector<int64_t>& ints, int bits) {
  const int width = bits == 6 ? 6 : bits < 8 ? 8 : bits;
  std::string out((ints.size() * static_cast<size_t>(width) + 7) / 8, '\0');
  size_t bit = 0;
  for (const int64_t number : ints) {
    const auto value = static_cast<uint64_t>(number);
    for (int done = 0; done < width;) {
      const size_t shift = bit % 8;
      const int take = std::min<int>(8 - static_cast<int>(shift), width - done);
      const auto part = static_cast<uint8_t>((value >> done) & ((1u << take) - 1));
      out[bit / 8] = static_cast<char>(static_cast<uint8_t>(out[bit / 8]) | (part << shift));
      bit += static_cast<size_t>(take);
      done += take;
    }
  }
  return owned(std::move(out));
}

OnnxTensor::Place listed_numbers(const std::shared_ptr<const MappedFile>& file, const TensorFields& t,
                                 OnnxType type) {
  switch (type) {
    case OnnxType::float32:
    case OnnxType::complex64: return joined(file, t.floats);
    case OnnxType::float64:
    case OnnxType::complex128: return joined(file, t.doubles);
    default: return packed(t.ints, onnx_type_info(type).bits);
  }
}

}  // namespace

OnnxTensor OnnxReader::read_tensor(std::string_view message) {
  TensorFields t;
  return wire::at_place(
      [&] { return fmt::format("tensor '{}'", onnx_printable(t.name)); },
      [&] {
        t = read_fields(message, budget_);
        budget_.items += static_cast<int64_t>(t.dims.size());
        budget_.item();
        const OnnxType type = onnx_type_from_code(t.code);
        if (type == OnnxType::undefined) throw errorf("the element type {} is unknown", t.code);
        if (type == OnnxType::string) return OnnxTensor(t.name, std::move(t.dims), std::move(t.strings));
        if (t.external) {
          if (t.has_raw) throw Error("the data is both in the model and outside of it");
          // Where no length is given, it follows from the shape: more may lie behind.
          const uint64_t wanted = packed_bytes(element_count(t.dims), onnx_type_info(type).bits);
          if (!t.place.length) t.place.length = wanted;
          auto place = external_.open(t.place);
          if (!place) return OnnxTensor(t.name, type, {0}, {});  // all missing files are reported together
          return OnnxTensor(t.name, type, std::move(t.dims), std::move(*place));
        }
        OnnxTensor::Place place = t.has_raw ? in_file(file_, t.raw) : listed_numbers(file_, t, type);
        return OnnxTensor(t.name, type, std::move(t.dims), std::move(place));
      });
}

}  // namespace anemone
