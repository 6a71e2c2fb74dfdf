// What a long-lived program does instead of ending at once when it is told to end.
//     call_instead_of_signal_exit([] { server->stop(); });
#pragma once

namespace anemone {

// Beside remove_staged_outputs_on_signals() of staged.h: the function that is called instead of ending the process, the
// first time that SIGINT, SIGTERM or SIGHUP comes (null: none). It runs in the thread that waits for signals. The
// second signal ends the process.
void call_instead_of_signal_exit(void (*function)());

}  // namespace anemone
