#include "base/staged.h"
#include "cli/command.h"

int main(int argc, char** argv) {
  anemone::remove_staged_outputs_on_signals();
  return anemone::cli::run(argc, argv);
}
