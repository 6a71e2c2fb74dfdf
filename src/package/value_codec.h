// Value codec: types and constants to and from the protobuf messages ValueType and Value.
//     Constant c = decode_constant(bytes, blobs);
//     std::string same = encode_constant(c, std::nullopt);
// Fields of the file that we do not know are kept: a type's `extra`, and field 3 inside a constant's, hold
// the message as it was, and it is written back while it still says what the type or constant says.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "mil/constant.h"
#include "mil/type.h"

namespace anemone {

// Opens the blob that a value names; see BlobFiles.
using BlobOpener = std::function<Blob(const std::string& file_name, uint64_t offset, const Type& type)>;
// Where a constant lies in the weight file, or nothing for one that is written in place.
using BlobPlacer = std::function<std::optional<uint64_t>(const Constant& constant)>;

// The name of the one weight file that we write.
inline constexpr std::string_view kWeightFileName = "@model_path/weights/weight.bin";

Type decode_type(std::string_view message);
Constant decode_constant(std::string_view message, const BlobOpener& blobs);

std::string encode_type(const Type& type);
std::string encode_constant(const Constant& constant, const BlobPlacer& place);

// Codes of the file; none or 0 where there is no counterpart.
DType dtype_from_code(int64_t code);
int64_t dtype_code(DType dtype);

}  // namespace anemone
