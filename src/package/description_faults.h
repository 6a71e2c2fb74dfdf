// Where the description of a package and its program disagree: Core ML refuses such a package.
//     for (const DescriptionFault& f : description_faults(package)) fmt::print("{}\n", f.text());
// Looked at: the list of functions and the default one, the specification version, and of each function the names, data
// types and shapes of inputs, outputs and states. Flexible shapes, optional inputs, images and classifiers are fine.
#pragma once

#include <string>
#include <vector>

#include "package/package.h"

namespace anemone {

struct DescriptionFault {
  std::string function;  // empty: it is about the whole package
  std::string message;   // "the input 'x' has another shape in the description than in the program"
  std::string found, expected;

  std::string text() const;  // all of it, as one sentence
};

// Weight files that are not where the program or the manifest says, one sentence each: Core ML does not find them.
std::vector<std::string> weight_file_faults(const Package& package);

// In the order of the program's functions. Reads no weights: it takes microseconds.
std::vector<DescriptionFault> description_faults(const Package& package);

}  // namespace anemone
