// Verifier: checks that a program keeps the rules of MIL, and names the operation and the rule that it
// breaks.
//     for (const Fault& f : verify(program)) fmt::print("{}\n", f.text());
//
// Rules:
//   V01  a function, value or operation has a name that MIL text can hold
//   V02  a name is defined once in its scope
//   V03  an operation uses only values that stand before it
//   V04  the operation exists, in this opset
//   V05  its parameters exist, the required ones are given, with the right kinds and element types
//   V06  parameters that must be constant are
//   V07  the declared type of a result is what the operation's type rule gives
//   V08  a constant has a value of the declared type and size
//   V09  blocks of cond and while_loop have the right inputs and outputs
//   V10  a value has rank 5 at most (tables of constexpr operations excepted)
//   V11  states are only read, written and passed; they hold fp16 (or int8 from iOS 26) of fixed shape
//   V12  a function gives at least one output
#pragma once

#include <string>
#include <vector>

#include "mil/op.h"
#include "mil/program.h"

namespace anemone {

struct Fault {
  std::string rule;  // "V07"
  std::string function;
  std::string op;  // its name and type; empty where the fault is the function's
  std::string message;
  const Operation* operation = nullptr;  // the same as `op`, in the program that was verified

  std::string text() const;
};

// At most `most` faults, in program order.
std::vector<Fault> verify(const Program& program, size_t most = 100);

// The types of an operation's results from the declared types of its inputs, with small constants known.
// Error when the rule does not hold.
Types declared_types(const Operation& op, Opset opset);

// A result of type `given` may be declared so: compatible, or declared with any number of dimensions.
bool may_be_declared(const Type& given, const Type& declared);

}  // namespace anemone
