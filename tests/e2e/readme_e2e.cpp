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

TEST_CASE("the commands of docs/convert.md print what it shows") {
  const TempFolder folder;
  CHECK(check_sessions(source_dir() / "docs/convert.md", folder.path()) >= 4);
}
