// MIL codec: a Program to and from the protobuf message of model.mlmodel (Model.mlProgram).
//     Program p = decode_program(bytes, blobs);
//     std::string same = encode_program(p, place);
// Map entries are sorted by key on the way in and out, so equal programs give equal bytes. Fields of the file
// that we do not know are kept in `extra` of the nearest thing.
#pragma once

#include <string>
#include <string_view>

#include "mil/program.h"
#include "package/value_codec.h"

namespace anemone {

Program decode_program(std::string_view message, const BlobOpener& blobs);
std::string encode_program(const Program& program, const BlobPlacer& place);

}  // namespace anemone
