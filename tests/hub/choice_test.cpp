#include "hub/choice.h"

#include <doctest/doctest.h>

#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::hub;

namespace {

const RepoName kRepo{"o/r", "", ""};

Listing listing(const std::vector<std::string>& paths) {
  Listing out{.commit = std::string(40, 'a'), .files = {}};
  for (const std::string& path : paths) out.files.push_back({path, 1'500'000'000, ""});
  return out;
}

Choice choose(const std::vector<std::string>& paths, const std::string& path = "",
              Need need = Need::everything) {
  return choose_files(listing(paths), path, need, {"o/r", "", path});
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("of a safetensors repository the weights and small files are taken, and no copies") {
  const Choice c =
      choose({".gitattributes", "README.md", "config.json", "generation_config.json", "model.safetensors",
              "pytorch_model.bin", "tokenizer.json", "tokenizer_config.json", "onnx/model.onnx", "vocab.json",
              "merges.txt", "flax_model.msgpack", "original/model.safetensors"});
  CHECK(c.small == Names{"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                         "README.md"});
  CHECK(c.weights == Names{"model.safetensors"});
  CHECK(c.file == "");
}

TEST_CASE("an index says which safetensors are meant, and copies beside them are left") {
  const Choice c = choose({"config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
                           "model-00002-of-00002.safetensors", "consolidated.safetensors"});
  CHECK(c.index == "model.safetensors.index.json");
  CHECK(c.weights.empty());
  const char* json =
      R"({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-1.safetensors"}})";
  CHECK(indexed_files(json, "sub/", "here") == Names{"sub/m-1.safetensors", "sub/m-2.safetensors"});
  CHECK(error_of([] { indexed_files(R"({"weight_map": {"a": "../x"}})", "", "here"); }).find("refused") !=
        std::string::npos);
  for (const char* broken : {"", "[]", "{}", R"({"weight_map": 3})", R"({"weight_map": {"a": 3}})"})
    CHECK(error_of([&] { indexed_files(broken, "", "here"); }) != "");
}

TEST_CASE("a sentence transformer brings the files of its modules") {
  const Choice c = choose({"config.json", "modules.json", "1_Pooling/config.json", "2_Normalize/config.json",
                           "openvino/config.json", "sentence_bert_config.json", "model.safetensors"});
  CHECK(c.small == Names{"config.json", "modules.json", "sentence_bert_config.json", "1_Pooling/config.json",
                         "2_Normalize/config.json"});
}

TEST_CASE("planning and tokenizing take the small files alone, unless all is in one file") {
  const Names files = {"config.json", "tokenizer.json", "model.safetensors"};
  CHECK(choose(files, "", Need::config).weights.empty());
  CHECK(choose(files, "", Need::tokenizer).weights.empty());
  CHECK(choose({"a.gguf"}, "", Need::config).weights == Names{"a.gguf"});
  CHECK(choose({"a.gguf", "config.json"}, "", Need::tokenizer).file == "a.gguf");
}

TEST_CASE("of several GGUF files one must be named, and the error shows them with sizes and a command") {
  const std::string why = error_of([] { choose({"m.Q4_K_M.gguf", "m.Q8_0.gguf", "README.md"}); });
  CHECK(why.find("m.Q4_K_M.gguf (1.5 GB), m.Q8_0.gguf (1.5 GB)") != std::string::npos);
  CHECK(why.find("name one: o/r/m.Q8_0.gguf") != std::string::npos);
  CHECK(choose({"m.gguf", "mmproj-m.gguf"}).file == "m.gguf");
  CHECK(choose({"m.Q4_K_M.gguf", "m.Q8_0.gguf"}, "m.Q8_0.gguf").weights == Names{"m.Q8_0.gguf"});
  const Choice split = choose({"Q4/m-00001-of-00002.gguf", "Q4/m-00002-of-00002.gguf"});
  CHECK(split.weights == Names{"Q4/m-00001-of-00002.gguf", "Q4/m-00002-of-00002.gguf"});
  CHECK(split.file == "Q4/m-00001-of-00002.gguf");
}

TEST_CASE("a file of a split model brings all parts, and a missing one is named") {
  const Names all = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"};
  CHECK(choose(all, "m-00002-of-00003.gguf").weights == all);
  const std::string why = error_of([&] { choose({all[0], all[1]}, all[0]); });
  CHECK(why.find("m-00003-of-00003.gguf") != std::string::npos);
  for (const std::string one :
       {"m.gguf", "m-00004-of-00003.gguf", "m-00000-of-00003.gguf", "m-0000x-of-00003.gguf", "-of-.gguf",
        "m-1-of-3.gguf", "noend", "m-00001-of-99999.gguf"})
    CHECK(parts_of_file(one) == Names{one});
}

TEST_CASE("a folder of a repository, and files that are not there") {
  const Choice c = choose({"a/config.json", "a/model.safetensors", "b/model.safetensors"}, "a");
  CHECK(c.folder == "a/");
  CHECK(c.weights == Names{"a/model.safetensors"});
  CHECK(error_of([] {
          choose({"model.Q8_0.gguf"}, "model.Q8.gguf");
        }).find("did you mean 'o/r/model.Q8_0.gguf'?") != std::string::npos);
  const std::string why = error_of([] { choose({"pytorch_model.bin", "config.json"}); });
  CHECK(why.find("found pytorch_model.bin") != std::string::npos);
}

TEST_CASE("hostile lists of files are refused") {
  const auto why = [](const std::string& json) { return error_of([&] { parse_listing(json, "hub"); }); };
  const std::string commit = std::string(40, 'a');
  const auto with = [&](const std::string& file) {
    return why(R"({"sha": ")" + commit + R"(", "siblings": [{"rfilename": ")" + file + "\"}]}");
  };
  CHECK(with("config.json") == "");
  for (const char* bad : {"../x", "/etc/passwd", "a/../../b", "a\\u0000b", "", "..", "a\\\\b"})
    CHECK(with(bad).find("refused") != std::string::npos);
  for (const char* bad :
       {"", "[]", "{}", R"({"sha": "main", "siblings": []})", R"({"sha": 3, "siblings": []})",
        R"({"sha": "../../../../../../../../../../../../../x", "siblings": []})", R"({"siblings": {}})",
        "<html>"})
    CHECK(why(bad) != "");
}
