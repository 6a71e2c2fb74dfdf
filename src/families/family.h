// Family: one kind of model, recognised by the name of its architecture or by what lies in the checkpoint. A family is
// one file in families/known; CMake makes the table of all of them from the file names.
//     Checkpoint c = Checkpoint::open("model.gguf");
//     Model m = describe(c);      // Error when the architecture is unknown or anything contradicts anything
#pragma once

#include <span>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "families/model.h"

namespace anemone {

struct Family {
  std::string_view name;
  // GGUF's `general.architecture`, and the "architectures" or "model_type" of config.json.
  std::span<const std::string_view> architectures;
  Model (*build)(const Checkpoint&);  // the Model, not yet held against the tensors
  // Whether the checkpoint is of this family whatever it is called, as the structure of a graph says. Such a claim goes
  // before names. nullptr: the names above decide, for checkpoints that have a Naming.
  bool (*claims)(const Checkpoint&) = nullptr;
};

// All of them, sorted by name.
std::span<const Family* const> all_families();

// The one that claims the checkpoint, or has its name. Error, listing the families, when none or more than one does.
const Family& choose_family(const Checkpoint& checkpoint, std::span<const Family* const> families);

// The Model of a checkpoint, with every size compared with the tensors' shapes: each weight is there
// and has the shape that the sizes give, and no tensor is left over. Throws Error naming both sides
// otherwise. Of a checkpoint that is a configuration alone, the sizes are taken as they are.
Model describe(const Checkpoint& checkpoint);

}  // namespace anemone
