// StagedOutput: a file or folder that is written beside its final place and renamed when whole.
//     StagedOutput out("model.mlpackage", overwrite);
//     write_all(out.path());                             // a file or folder, made by the caller
//     out.commit();                                      // now, and only now, "model.mlpackage" exists
// What is not committed is removed: by the destructor, and on a signal by remove_staged_outputs().
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string_view>

namespace anemone {

class StagedOutput {
 public:
  // Throws Error when something stands under the final name and `overwrite` is false, or its folder is not
  // there.
  StagedOutput(const std::filesystem::path& target, bool overwrite);
  ~StagedOutput();
  StagedOutput(const StagedOutput&) = delete;
  StagedOutput& operator=(const StagedOutput&) = delete;

  const std::filesystem::path& path() const { return staging_; }
  const std::filesystem::path& target() const { return target_; }
  // Makes the output a folder, with the folder `inside` in it. Error once outputs are being removed: what is gone
  // stays gone, whatever other threads still do.
  void make_folder(const std::filesystem::path& inside = {});
  void commit();

 private:
  std::filesystem::path target_, staging_;
  bool overwrite_;
  bool committed_ = false;
};

// Error when replacing `target` would lose something: `source`, which it is made from, or what holds none of the
// files `marks` ("bundle.json"), by which outputs of this kind are known.
void check_output(const std::filesystem::path& source, const std::filesystem::path& target, bool overwrite,
                  std::initializer_list<std::string_view> marks);

// Error when a folder or a device has the name of a file that is to be written: a file replaces files alone.
void check_file_output(const std::filesystem::path& target);

// Removes everything that is staged and not committed, and keeps it from being committed. It takes locks and
// allocates, so it is not for a signal handler: block the signals and call it from a thread that waits for
// them, as remove_staged_outputs_on_signals() does.
void remove_staged_outputs();

// Blocks SIGINT, SIGTERM and SIGHUP in the calling thread and those it starts, and starts a thread that waits
// for them, cleans up and ends the process with status 128 + signal. SIGPIPE does the same, as soon as somebody writes
// to a pipe that nobody reads any more. Call it once, first thing in main().
void remove_staged_outputs_on_signals();

// The function that is called before such a signal ends the process (null: none): what else must be put back,
// like a terminal's modes.
void call_before_signal_exit(void (*function)());

// From here on SIGINT no longer ends the process: it reaches the calling thread, with whatever handler is set
// (a chat, where it stops an answer).
void leave_interrupts_to_this_thread();

}  // namespace anemone
