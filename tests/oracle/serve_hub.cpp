// Serves the folders below FOLDER/OWNER/REPO as a hub on 127.0.0.1, until its standard input ends.
//     serve_hub FOLDER         prints its address; files above 1000 bytes are large ones, with a SHA-256
#include <filesystem>
#include <iostream>
#include <string>

#include "support/loopback_hub.h"
#include "support/temp_folder.h"

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  using anemone::test::LoopbackHub;
  if (argc != 2) return 2;
  LoopbackHub hub;
  for (const auto& [path, bytes] : anemone::all_files(argv[1])) {
    const size_t owner = path.find('/'), repo = path.find('/', owner + 1);
    if (owner == path.npos || repo == path.npos) continue;
    hub.add(path.substr(0, repo), path.substr(repo + 1), bytes,
            bytes.size() > 1000 ? LoopbackHub::large : LoopbackHub::small);
  }
  std::cout << hub.endpoint() << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
  }
}
