// MIL codec: a Program to and from the protobuf message of model.mlmodel (Model.mlProgram).
//     Program p = decode_program(bytes, blobs);
//     std::string same = encode_program(p, place);
// Map entries are sorted by key on the way in and out, so equal programs give equal bytes. Fields of the file
// that we do not know are kept in `extra` of the nearest thing.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "anemone/package.h"
#include "mil/program.h"
#include "package/description.h"
#include "package/value_codec.h"

namespace anemone {

// `only`: that function alone; empty: all.
Program decode_program(std::string_view message, const BlobOpener& blobs, std::string_view only = {});

// What a function offers, without its operations: a hundredth of the work.
struct FunctionOutline {
  std::string name;
  std::vector<std::unique_ptr<Value>> inputs, outputs;
};
std::vector<FunctionOutline> outline_program(std::string_view message);  // sorted by name
// As signatures() gives them.
std::vector<Signature> outlined_signatures(const std::vector<FunctionOutline>& outlines,
                                           const Description& description);
std::string encode_program(const Program& program, const BlobPlacer& place);

}  // namespace anemone
