// Calls the anemone command as a shell would.
//     Outcome r = anemone_command({"inspect", path});
//     CHECK(r.status == 0);
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace anemone::e2e {

struct Outcome {
  int status = -1;
  std::string out, err;
};

// The arguments reach the command as they are.
Outcome anemone_command(const std::vector<std::string>& arguments);
// Any program, through the shell.
Outcome shell(const std::string& line);

// One line on stderr that starts with "error: ", nothing on stdout, exit status 2.
void check_refused(const Outcome& outcome, const std::vector<std::string>& must_say);

// The example package of the repository, and the inputs of its steps.
std::filesystem::path recall_package();
std::vector<std::filesystem::path> recall_steps();

}  // namespace anemone::e2e
