// Encodings taken from packages that coremltools wrote.
#include <doctest/doctest.h>

#include "base/error.h"
#include "package/blob.h"
#include "package/description.h"
#include "package/mil_codec.h"

using namespace anemone;

namespace {

std::string from_hex(std::string_view hex) {
  std::string out;
  std::string digits;
  for (const char c : hex)
    if (c != ' ') digits += c;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    out += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return out;
}

std::optional<uint64_t> in_place(const Constant&) { return std::nullopt; }

Blob no_file(const std::string& name, uint64_t offset, const Type&) {
  return Blob{name, offset, offset + 64, 0, nullptr};
}

struct GoldenValue {
  std::string_view hex;
  Type type;
  std::vector<int64_t> integers;
};

}  // namespace

TEST_CASE("values are written and read in coremltools' bytes") {
  const std::string half = from_hex("12 04 0a 02 08 0a 1a 08 0a 06 3a 04 0a 02 a8 00");
  const Constant epsilon = Constant::number(1e-5f, DType::fp16);
  CHECK(encode_constant(epsilon, in_place) == half);
  const Constant back = decode_constant(half, no_file);
  CHECK(back.type == Type::tensor(DType::fp16));
  CHECK(std::ranges::equal(back.bytes(), epsilon.bytes()));

  const std::string ints = from_hex(
      "12 0c 0a 0a 08 17 10 01 1a 04 0a 02 08 02"
      "1a 1a 0a 18 12 16 0a 14 ff ff ff ff ff ff ff ff ff 01 80 80 80 80 f8 ff ff ff ff 01");
  CHECK(encode_constant(Constant::ints({-1, -2147483648}), in_place) == ints);
  CHECK(
      std::ranges::equal(decode_constant(ints, no_file).bytes(), Constant::ints({-1, -2147483648}).bytes()));

  const std::string shorts = from_hex(
      "12 0c 0a 0a 08 16 10 01 1a 04 0a 02 08 03"
      "1a 13 0a 11 12 0f 0a 0d 01 fe ff ff ff ff ff ff ff ff 01 ac 02");
  const Constant three = decode_constant(shorts, no_file);
  CHECK(three.type == Type::tensor(DType::int16, {3}));
  const int16_t expected[] = {1, -2, 300};
  CHECK(std::ranges::equal(three.bytes(), std::as_bytes(std::span(expected))));
  CHECK(encode_constant(three, in_place) == shorts);
}

TEST_CASE("a blob reference is written and read in coremltools' bytes") {
  const std::string golden =
      from_hex(
          "12 1e 0a 1c 08 0a 10 04 1a 04 0a 02 08 01 1a 04 0a 02 08 40 1a 04 0a 02 08 01 1a 04 "
          "0a 02 08 01 2a 22 0a 1e") +
      "@model_path/weights/weight.bin" + from_hex("10 40");
  const Constant read = decode_constant(golden, no_file);
  CHECK(read.type == Type::tensor(DType::fp16, {1, 64, 1, 1}));
  CHECK(std::get<Blob>(read.data).record_offset == 64);
  CHECK_THROWS_AS(read.bytes(), Error);  // the file is not there
  CHECK(encode_constant(read, [](const Constant&) { return std::optional<uint64_t>(64); }) == golden);
}

TEST_CASE("types are written in coremltools' bytes") {
  CHECK(encode_type(Type::tensor(DType::fp16, {64, Dim::unknown()})) ==
        from_hex("0a 0e 08 0a 10 02 1a 04 0a 02 08 40 1a 02 12 00"));
  // A size of zero is the empty message, which has to be there.
  CHECK(encode_type(Type::tensor(DType::fp16, {0})) == from_hex("0a 08 08 0a 10 01 1a 02 0a 00"));
  // A symbol is unknown to the file.
  CHECK(decode_type(encode_type(Type::tensor(DType::fp32, {Dim::symbol(3)}))) ==
        Type::tensor(DType::fp32, {Dim::unknown()}));
  const Type state = Type::state(DType::fp16, {1, 4});
  const std::string golden = from_hex("2a 14 0a 12 0a 10 08 0a 10 02 1a 04 0a 02 08 01 1a 04 0a 02 08 04");
  CHECK(encode_type(state) == golden);
  CHECK(decode_type(golden) == state);
  Type list = Type::list(Type::tensor(DType::string), 3);
  CHECK(decode_type(encode_type(list)) == list);
}

TEST_CASE("a state's feature is written in coremltools' bytes") {
  Feature feature;
  feature.name = "s";
  feature.type.kind = FeatureType::Kind::state;
  feature.type.array.shape = {1, 4};
  feature.type.array.data_type = array_dtype_code(DType::fp16);
  CHECK(encode_feature(feature) == from_hex("0a 01 73 1a 0c 42 0a 0a 08 0a 02 01 04 10 90 80 04"));
}

TEST_CASE("every element type keeps its values in place") {
  for (int i = 1; i <= static_cast<int>(DType::uint64); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::string) continue;
    CAPTURE(std::string(dtype_name(dtype)));
    const size_t bytes = static_cast<size_t>(dtype_bits(dtype) * 5 + 7) / 8;
    Constant::Bytes data(bytes);
    for (size_t k = 0; k < bytes; ++k)
      data[k] = static_cast<std::byte>(dtype == DType::boolean ? k & 1 : 0x91 * (k + 1));
    const Constant constant = Constant::from_bytes(Type::tensor(dtype, {5}), data);
    const Constant back = decode_constant(encode_constant(constant, in_place), no_file);
    CHECK(back.type == constant.type);
    CHECK(std::ranges::equal(back.bytes(), constant.bytes()));
  }
}

TEST_CASE("packed 4-bit integers stand in place as coremltools writes them") {
  // int4 [-8, 7, 1, 2, -3, 4]
  const Constant six = Constant::from_bytes(Type::tensor(DType::int4, {6}),
                                            {std::byte{0x78}, std::byte{0x21}, std::byte{0x4d}});
  const std::string bytes = encode_constant(six, in_place);
  CHECK(bytes.ends_with(from_hex("0a 07 3a 05 0a 03 78 21 4d")));
}

TEST_CASE("fields that we do not know are written back") {
  // Field 77, a varint, in every message of a value: dimension, type, tensor value, value.
  const std::string unknown = from_hex("e8 04 05");
  const auto wrap = [](int tag, const std::string& content) {
    return std::string{static_cast<char>(tag << 3 | 2), static_cast<char>(content.size())} + content;
  };
  const std::string dim = wrap(1, from_hex("08 02") + unknown) + unknown;
  const std::string tensor = from_hex("08 17 10 01") + wrap(3, dim) + unknown;
  const std::string type = wrap(1, tensor) + unknown;
  const std::string value =
      wrap(2, type) + wrap(3, wrap(1, wrap(2, wrap(1, from_hex("01 02")) + unknown) + unknown) + unknown);
  const Constant read = decode_constant(value + unknown, no_file);
  CHECK(read.type == Type::tensor(DType::int32, {2}));
  CHECK(encode_constant(read, in_place) == value + unknown);
  // A value that was changed since is written as it is now.
  Constant changed = read;
  std::get<Constant::Bytes>(changed.data)[0] = std::byte{7};
  const Constant again = decode_constant(encode_constant(changed, in_place), no_file);
  CHECK(std::ranges::equal(again.bytes(), changed.bytes()));
}
