// Reads a package and writes it back, for the oracle to look at.
//     rewrite_package in.mlpackage out.mlpackage
#include <cstdio>

#include "base/error.h"
#include "package/package.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: rewrite_package IN OUT\n");
    return 2;
  }
  try {
    anemone::write_package(anemone::read_package(argv[1]), argv[2], {.overwrite = true});
  } catch (const anemone::Error& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 2;
  }
  return 0;
}
