// Several calls side by side, with one pass over the weights that they share.
//     execute_together({&a.executor, &b.executor}, pool);
// The executors walk their plans in step: each alone, on a thread of its own, up to its next projection. Projections
// over the same weights then run as one, with a column for each. Results are those of each executor alone, bit by bit.
#pragma once

#include <span>

#include "base/thread_pool.h"
#include "engine/executor.h"

namespace anemone {

// The inputs and states of each are set; no two share memory that one of them writes to.
void execute_together(std::span<Executor* const> executors, ThreadPool& pool);

// The same for runs of one function that follow each other over one state, each with what execute() gives it behind
// those before it. Between two projections they run in their order; so what a run writes to a state is there when the
// next one reads it, if the function reads and writes each state between the same two projections. Other functions run
// one after the other.
void execute_in_turn(std::span<Executor* const> executors, ThreadPool& pool);

}  // namespace anemone
