// T: what Core ML loads at all. A program that it refuses has no placement.
#include "base/error.h"
#include "check/rule.h"
#include "mil/opset.h"

namespace anemone {
namespace {

// iOS's number of the release that brought an opset.
int system_of(Opset opset) {
  switch (opset) {
    case Opset::ios15: return 15;
    case Opset::ios16: return 16;
    case Opset::ios17: return 17;
    case Opset::ios18: return 18;
    case Opset::ios26: return 26;
  }
  return 0;
}

void too_new(const FunctionSubject& s, Findings& out) {
  if (system_of(s.function.opset) > s.package.bundle.os)
    out.add(Level::error, fmt::format("needs {}", opset_info(s.function.opset).systems));
}

// Calls `look` for every fault of this function that the verifier of MIL found.
template <class Look>
void each_fault(const FunctionSubject& s, Look look) {
  for (const Fault& fault : s.package.faults)
    if (fault.function == s.function.name) look(fault);
}

void add(Findings& out, const Fault& fault, std::string message) {
  if (fault.operation)
    out.add(Level::error, *fault.operation, std::move(message));
  else
    out.add(Level::error, std::move(message));
}

void unknown_operations(const FunctionSubject& s, Findings& out) {
  each_fault(s, [&](const Fault& fault) {
    if (fault.rule == "V04" && !find_op(fault.operation->type))
      add(out, fault, fmt::format("there is no operation '{}' in MIL", fault.operation->type));
  });
}

void newer_operations(const FunctionSubject& s, Findings& out) {
  each_fault(s, [&](const Fault& fault) {
    const Op* op = fault.rule == "V04" ? find_op(fault.operation->type) : nullptr;
    if (!op) return;
    const OpsetInfo &since = opset_info(op->versions.front().since), &here = opset_info(s.function.opset);
    add(out, fault,
        fmt::format("'{}' came with {} ({}); the function is of {}", op->name, since.text_name, since.systems,
                    here.text_name));
  });
}

void parameters(const FunctionSubject& s, Findings& out) {
  each_fault(s, [&](const Fault& fault) {
    if (fault.rule == "V05" || fault.rule == "V06") add(out, fault, fault.message);
  });
}

// Where a size is open, our type rule may know less than Core ML's: what it cannot tell is no fault.
bool cannot_tell(const Operation& op, Opset opset) {
  if (placement::OpView(op).fixed()) return false;
  try {
    declared_types(op, opset);
    return false;
  } catch (const Error&) {
    return true;
  }
}

// V10, the rank, is S01; the type of a state is K03.
void form(const FunctionSubject& s, Findings& out) {
  each_fault(s, [&](const Fault& fault) {
    for (const char* elsewhere : {"V04", "V05", "V06", "V10", "V11"})
      if (fault.rule == elsewhere) return;
    if (fault.rule == "V07" && cannot_tell(*fault.operation, s.function.opset)) return;
    add(out, fault, fault.message);
  });
  for (const auto& input : s.function.inputs)
    if (input->type.kind == Type::Kind::state && !input->type.fixed())
      out.add(Level::error,
              fmt::format("the state '{}' has no fixed shape: {}", input->name, input->type.text()));
}

void function_description(const FunctionSubject& s, Findings& out) {
  for (const DescriptionFault& fault : s.package.description_faults)
    if (fault.function == s.function.name)
      out.add(Level::error,
              fmt::format("{}; found {}; expected {}", fault.message, fault.found, fault.expected));
}

// What is about no function of the program.
void package_description(const PackageSubject& s, Findings& out) {
  for (const DescriptionFault& fault : s.description_faults)
    if (!s.program.find_function(fault.function)) out.add(Level::error, fault.text());
}

void weight_files(const PackageSubject& s, Findings& out) {
  for (const std::string& fault : weight_file_faults(s.package)) out.add(Level::error, fault);
}

constexpr std::string_view kCost = "the package does not load";

constexpr Rule kRules[] = {
    {.id = "T01",
     .grade = Grade::A,
     .level = Level::error,
     .title = "The program's opset must exist on the target's system",
     .why = "A system loads opsets up to its own.",
     .cost = kCost,
     .fix = "Convert for the older system, or raise the target.",
     .sources = "coremltools documentation: opset versions",
     .in_function = too_new},
    {.id = "T02",
     .grade = Grade::A,
     .level = Level::error,
     .title = "Every operation must be one of MIL's",
     .why = "Core ML does not load a program with an operation that it does not know.",
     .cost = kCost,
     .fix = "Is the name misspelt? A custom layer must be written with MIL's own operations.",
     .sources = "coremltools 9.0: MIL operations",
     .in_function = unknown_operations},
    {.id = "T03",
     .grade = Grade::A,
     .level = Level::error,
     .title = "Every operation must be in the function's opset",
     .why = "\"operator … does not match the operator defined by expected opset\".",
     .cost = kCost,
     .fix = "Convert for the newer system, or write it with older operations.",
     .sources = "coremltools 9.0: MIL operations; ggml-org/whisper.cpp#1295",
     .in_function = newer_operations},
    {.id = "T04",
     .grade = Grade::A,
     .level = Level::error,
     .title = "An operation must have the inputs that it needs, and no others",
     .why = "A required input is missing, unknown, not a constant where it must be one, or of a wrong type.",
     .cost = kCost,
     .fix = "Bind the input; insert a cast where only the type is wrong.",
     .sources = "coremltools 9.0: MIL operations",
     .in_function = parameters},
    {.id = "T05",
     .grade = Grade::A,
     .level = Level::error,
     .title = "The program must be well formed",
     .why = "Names are defined once and before they are used, constants have their declared size, and the "
            "declared type of a result is what the operation gives.",
     .cost = kCost,
     .fix = "Write the package again with the tool that made it.",
     .sources = "coremltools 9.0: MIL reader and type inference",
     .in_function = form},
    {.id = "T06",
     .grade = Grade::A,
     .level = Level::error,
     .title = "Description, specification version and program must agree",
     .why = "Names, data types and shapes of inputs, outputs and states, and the list of functions: Core ML "
            "reads both and compares. A newer opset than the version stands for is unknown to it.",
     .cost = kCost,
     .fix = "Change the description, or write the package again with the tool that made it.",
     .sources = "coremltools 9.0: model validator; ct#2275; ct#2278; ct#2283",
     .in_function = function_description,
     .in_package = package_description},
    {.id = "T07",
     .grade = Grade::A,
     .level = Level::error,
     .title = "Weight files must be where the program and the manifest say",
     .why = "Core ML opens them by these paths. An item of the manifest without a file makes the package "
            "invalid.",
     .cost = kCost,
     .fix = "Copy the package again, with all its files and folders.",
     .sources = "coremltools 9.0: ModelPackage::validate, MIL blob storage",
     .in_package = weight_files},
};

}  // namespace

std::span<const Rule> load_rules() { return kRules; }

}  // namespace anemone
