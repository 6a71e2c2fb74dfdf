// The README shows what really happens: its commands are run and must print what it prints. So does the guide.
#include <doctest/doctest.h>

#include "e2e/sessions.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;

TEST_CASE("the README's commands print what it shows") {
  const TempFolder folder;
  CHECK(check_sessions(source_dir() / "README.md", folder.path()) >= 3);
}

TEST_CASE("the commands of the guide print what it shows") {
  struct Chapter {
    const char* page;
    size_t least;
  };
  for (const auto& [page, least] :
       {Chapter{"docs/convert.md", 4}, Chapter{"docs/plan.md", 2}, Chapter{"docs/experts.md", 1},
        Chapter{"docs/check.md", 5}, Chapter{"docs/verify.md", 2}, Chapter{"docs/packages.md", 2},
        Chapter{"docs/from_llama_cpp.md", 5}, Chapter{"docs/from_coremltools.md", 4},
        Chapter{"docs/redact.md", 2}}) {
    CAPTURE(page);
    const TempFolder folder;
    CHECK(check_sessions(source_dir() / page, folder.path()) >= least);
  }
}
