// NodeCase: one of ONNX's own tests of an operator: a model, inputs and the outputs that it must give.
//     NodeResult r = run_node_case(model_bytes, data_bytes, folder);
// `data` is an ONNX file too, whose initializers are called "in:NAME" and "out:NAME" (make_node_cases.py makes it).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace anemone::test {

struct NodeResult {
  enum class Kind {
    passed,
    fixed,           // passed, with inputs that Core ML needs as constants fixed
    failed,          // other values, or an error that is no refusal
    refused,         // an operator or form that we do not convert
    does_not_apply,  // types or sizes that Core ML does not have
  };
  Kind kind = Kind::failed;
  std::string why;
  std::vector<std::string> ops;  // of the model's nodes, each once
  std::string interpreter;       // what is wrong with the interpreter's values; of cases that passed
};

// Converts, writes the package to `folder`, reads it back and runs it. Also computes it with the interpreter.
NodeResult run_node_case(const std::string& model, const std::string& data,
                         const std::filesystem::path& folder);

}  // namespace anemone::test
