// MIL text: programs as Apple's compiler writes them into model.mil, and back.
//     Program p = parse_mil(file->text(), "model.mil");
//     std::string text = print_mil(p);
//
// The form, as read from compiled models (program 1.0 up to iOS 17, 1.3 from iOS 18):
//     program(1.0)
//     [buildInfo = dict<tensor<string, []>, tensor<string, []>>({{"key", "value"}})]
//     {
//         func main<ios17>(tensor<fp16, [1, ?]> x) [Attribute = LITERAL] {
//                 tensor<fp16, [2]> c = const()[name = LITERAL, val = tensor<fp16, [2]>([0x1p+0, 0x1.8p+1])];
//                 tensor<fp16, [1, ?]> y, tensor<int32, [1]> i = op(p = x, q = (a, b))[name = LITERAL];
//             } -> (y);
//     }
// A literal is TYPE(VALUE); VALUE is a number, true, "text", [ … ] nested by dimension, ( … ) for tuples,
// {{k, v}} for dictionaries, or BLOBFILE(path = …, offset = …). In 1.3 a scalar type is its bare name:
// int32(1). Blocks of cond and while_loop follow the attributes, as `(inputs) { ops } -> (outputs)` each: no
// compiled sample of these was at hand, so that part of the form is ours.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "mil/program.h"

namespace anemone {

std::string print_mil(const Program& program);

// Fills in a blob's place in its weight file, from its file name and record offset; may leave `file` empty.
using BlobResolver = std::function<void(Blob&, const Type&)>;

// Throws Error with line and column. `name` is for messages.
Program parse_mil(std::string_view text, const std::string& name, const BlobResolver& resolve = nullptr);

}  // namespace anemone
