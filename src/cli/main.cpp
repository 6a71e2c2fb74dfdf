#include "cli/command.h"

int main(int argc, char** argv) { return anemone::cli::run(argc, argv); }
