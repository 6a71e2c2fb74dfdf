// Plan: a run of operations compiled for the shapes at hand: a flat list of kernel calls with their buffers
// placed. A plan ends at the block's end or is cut before the first operation whose result cannot be typed
// yet (a loop, a list, a shape that depends on data); what lies behind is planned when the values are there.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "engine/buffer.h"
#include "engine/state_bounds.h"
#include "mil/function_info.h"

namespace anemone {

// A value at run time.
struct Cell {
  const Type* type = nullptr;         // empty until it is computed
  void* data = nullptr;               // 4-byte elements; of `halves` 2-byte ones
  bool known = false;                 // follows from the types of the inputs alone
  StateBounds* bounds = nullptr;      // of the state whose memory this is
  std::shared_ptr<const void> owner;  // of `type` and `data`, where no plan or caller owns them
  std::shared_ptr<TensorList> list;
  bool halves = false;  // a state, or a view of one, that is kept as fp16
};
using Cells = std::vector<Cell>;  // by value number

// Where a step finds an operand: a fixed place (constants), or the cell of a value.
struct Source {
  int id = -1;
  const void* fixed = nullptr;
  int constant = -1;  // whose elements `fixed` has; -1: a constant that is bound in place
};

class FusedKernel;
class PlainWay;

// The kinds of work that a step can be.
struct RunOp {  // one operation, by its kernel
  OpBinding binding;
  void (*run)(const OpCall&) = nullptr;
};
struct LoadWeight {  // a weight, expanded into out[0]
  std::shared_ptr<const StoredTensor> weight;
};
struct ReadState {     // elements of the state in[0], copied to out[0]
  int64_t offset = 0;  // of the first one
};
struct WriteState {};  // in[0], copied into the state in[1]
struct RunFused {      // several operations as one
  std::shared_ptr<const FusedKernel> kernel;
  std::shared_ptr<const PlainWay> plain;  // those operations, for what the kernel does not take
  int writes = -1;                        // the state that it changes in place
};

struct Step {
  std::variant<RunOp, LoadWeight, ReadState, WriteState, RunFused> work;
  std::vector<Source> in;
  std::vector<Type> types;               // of the outputs
  std::vector<int> out;                  // value numbers
  const Operation* operation = nullptr;  // for messages
};

struct Plan {
  struct Place {
    int id;
    int64_t offset;  // in the arena
    Type type;
  };
  struct Alias {
    int id, of;
    Type type;
    int64_t offset = 0;  // of its first element in `of`
    bool operator==(const Alias&) const = default;
  };
  struct Folded {
    int id;
    Type type;
    std::vector<uint32_t> data;
    bool operator==(const Folded&) const = default;
  };
  // What happens when, in order: step i, preceded by the aliases that become valid there.
  std::vector<Step> steps;
  std::vector<Place> places;
  std::vector<std::pair<size_t, Alias>> aliases;  // (before step, alias)
  std::vector<Folded> folded;
  int64_t arena_bytes = 0;
  size_t next = 0;      // the first operation that is not in the plan
  int values = 0;       // numbers in use: those of the function, then what fused steps share
  size_t unrolled = 0;  // steps that were made from those of another layer (unroll.h)
};

// The operations of a fused step, one by one.
class PlainWay {
 public:
  explicit PlainWay(Plan plan) : plan_(std::move(plan)) {}
  // Made when it is first asked for.
  explicit PlainWay(std::function<Plan()> make) : make_(std::move(make)) {}
  const Plan& plan() const {
    if (make_) std::call_once(made_, [this] { plan_ = make_(); });
    return plan_;
  }

 private:
  std::function<Plan()> make_;
  mutable std::once_flag made_;
  mutable Plan plan_;
};

struct PlanOptions {
  std::set<std::string> taps;  // values to keep until the end of the run
  bool half = false;           // fp16 arithmetic: what rounds differently as one step is not fused
  bool fast = false;           // `fast` arithmetic: projections of activations that are rounded to 8 bits
  bool fuse = true;            // off: every operation runs its own kernel, for comparison
  bool unroll = true;          // off: layers that repeat are planned one by one, for comparison
};

// Plans `block` from operation `begin`, for the values that the cells hold.
std::unique_ptr<const Plan> make_plan(const FunctionInfo& info, const Block& block, size_t begin,
                                      const Cells& cells, const PlanOptions& options);

// The operation needs the executor itself: it holds blocks, or takes or gives lists.
bool is_dynamic(const Operation& op);

// Says which operation an error is about.
std::string op_place(const Operation& op);

}  // namespace anemone
