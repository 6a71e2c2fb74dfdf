// The double of Core ML: what a test can ask it to do, and what it saw. Everything that the real one was seen to do
// and that costs nothing but care is on from the start.
//     apple_double::switches().backings = apple_double::Backings::accepted;
//     apple_double::reset();                                 // as a program starts; what it saw is forgotten
// A program takes its switches from ANEMONE_DOUBLE: "backings=accepted,fail_at=7".
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace apple_double {

// What becomes of buffers that are proposed for outputs.
enum class Backings : uint8_t { ignored, accepted, refused };
// What becomes of one that was an input before.
enum class UsedBackings : uint8_t { ignored, accepted, refused };
// What becomes of a state that another function's model made.
enum class ForeignStates : uint8_t { shared, refused, misread };

struct Switches {
  // Harmless, and all on.
  bool padded_rows = true;  // of outputs and states, to 64 bytes
  Backings backings = Backings::ignored;
  UsedBackings used_backings = UsedBackings::ignored;
  int late_ms = 3;  // how late handlers run, on a thread of their own
  bool moving_states = true;

  // Failures.
  bool surfaces = true;             // false: CVPixelBufferCreate fails
  int64_t largest_surface = 16384;  // rows or columns
  bool fail_compile = false;        // with the reason in the underlying error
  bool fail_load = false;
  int64_t fail_at = 0;     // this prediction, counted from 1 since reset(), fails
  int64_t fail_count = 1;  // and as many from there on
  std::string fail_text =
      "Failed to build the model execution plan using a model architecture file, error code: -14.";
  std::string missing_function;  // is not in any model
  // Of functions whose name holds this text: the engine refuses to load them; a prediction takes slow_ms longer; what
  // it gives is wrong; or no number.
  std::string refused_function, slow_function, wrong_function, nan_function;
  int slow_ms = 5;
  ForeignStates foreign_states = ForeignStates::shared;

  // The machine.
  int macos_major = 15, macos_minor = 4;
  std::string build = "24E248", chip = "Apple M4";
  bool neural_engine = true;

  // What MLComputePlan says: the processor of operations whose operator or first output has this name.
  std::string on_cpu, on_gpu;  // "softmax,l0_q"
};

Switches& switches();
void reset();

// Wrong use, which the real one may forgive, or not. A test asks for 0.
struct Seen {
  std::atomic<int64_t> predictions{0}, loads{0}, compiles{0}, plans{0};
  std::atomic<int64_t> overlapping_states{0};  // two predictions at once on one state
  std::atomic<int64_t> overlapping_models{0};  // two synchronous predictions at once on one model
  std::atomic<int64_t> locked_buffers{0};      // given to a prediction while the base address was locked
  std::atomic<int64_t> touched_pointers{0};    // dataPointer of an array over a pixel buffer
  std::atomic<int64_t> most_in_flight{0};      // asynchronous predictions at once
  std::atomic<int64_t> low_quality{0};  // predictions on a thread whose quality of service was never set
};

Seen& seen();
// Waits for handlers that are under way.
void wait_for_handlers();
// Runs on a thread of its own, late.
void later(void (*run)(void*), void* context);

}  // namespace apple_double
