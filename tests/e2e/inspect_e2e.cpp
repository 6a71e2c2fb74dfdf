#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "e2e/command.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;

TEST_CASE("inspect shows inputs, outputs, states and weights") {
  const Outcome plain = anemone_command({"inspect", recall_package()});
  CHECK(plain.status == 0);
  CHECK(plain.err == "");
  for (const char* text : {"function main", "letter: fp16 [1, 32, 1, 1]", "k_cache: fp16 [1, 1, 32, 64]",
                           "write_state 3", "weights", "Remembers a text"})
    CHECK_MESSAGE(plain.out.find(text) != std::string::npos, text);
  const Outcome mil = anemone_command({"inspect", recall_package(), "--mil"});
  CHECK(mil.out.starts_with("program(1"));
  const Outcome weights = anemone_command({"inspect", recall_package(), "--weights", "--ops"});
  CHECK(weights.out.find("[64, 64, 1, 1]") != std::string::npos);
}

TEST_CASE("inspect --json is JSON and says the same") {
  const auto json = nlohmann::json::parse(anemone_command({"inspect", recall_package(), "--json"}).out);
  CHECK(json.at("specification_version") == 9);
  const auto& function = json.at("functions").at(0);
  CHECK(function.at("name") == "main");
  CHECK(function.at("inputs").size() == 3);
  CHECK(function.at("states").size() == 3);
  CHECK(function.at("ops").at("conv") == 5);
  CHECK(json.at("metadata").at("user").at("alphabet") == " abcdefghijklmnopqrstuvwxyz.,'-?");
}

TEST_CASE("what is no package is refused by name") {
  const TempFolder folder;
  check_refused(anemone_command({"inspect", folder / "absent.mlpackage"}), {"absent.mlpackage"});
  spill(folder / "note.txt", "not a model");
  check_refused(anemone_command({"inspect", folder / "note.txt"}), {"note.txt"});
  std::filesystem::create_directory(folder / "empty.mlpackage");
  check_refused(anemone_command({"inspect", folder / "empty.mlpackage"}), {"empty.mlpackage"});
  spill(folder / "bad.mlpackage/Manifest.json", "{\"fileFormatVersion\": ");
  check_refused(anemone_command({"inspect", folder / "bad.mlpackage"}), {"Manifest.json"});
  // A model cut short.
  std::filesystem::copy(recall_package(), folder / "cut.mlpackage", std::filesystem::copy_options::recursive);
  const auto model = folder / "cut.mlpackage/Data/com.apple.CoreML/model.mlmodel";
  std::filesystem::permissions(model, std::filesystem::perms::owner_all);
  std::filesystem::resize_file(model, 3000);
  check_refused(anemone_command({"inspect", folder / "cut.mlpackage"}), {"model.mlmodel"});
  // Weights cut short: found when they are looked at.
  std::filesystem::copy(recall_package(), folder / "thin.mlpackage",
                        std::filesystem::copy_options::recursive);
  const auto weights = folder / "thin.mlpackage/Data/com.apple.CoreML/weights/weight.bin";
  std::filesystem::permissions(weights, std::filesystem::perms::owner_all);
  std::filesystem::resize_file(weights, 3000);
  check_refused(anemone_command({"predict", folder / "thin.mlpackage", "--inputs", recall_steps().at(0)}),
                {"weight.bin"});
}
