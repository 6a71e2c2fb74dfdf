// A decoder in an ONNX graph, known by the structure of the graph and not by any name: families/recover.
#include "families/family.h"
#include "families/recover/recover.h"

namespace anemone::families {
namespace {

bool claims(const Checkpoint& c) { return c.graph() != nullptr; }

}  // namespace

extern const Family onnx_graph{
    .name = "onnx", .architectures = {}, .build = recover::recover_decoder, .claims = claims};

}  // namespace anemone::families
