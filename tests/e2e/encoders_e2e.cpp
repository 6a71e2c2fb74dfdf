// `anemone embed` and `anemone classify` as people call them, and what the other verbs make of an encoder's bundle.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/npy.h"
#include "e2e/command.h"
#include "support/data.h"
#include "support/temp_folder.h"
#include "support/tiny_encoder.h"

using namespace anemone;
using namespace anemone::e2e;
using test::TinyEncoder;
using Json = nlohmann::json;

namespace {

// Words and their ids, with [CLS] before and [SEP] behind every text.
Json tokenizer_json() {
  const std::vector<std::string> words = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "the",  "tide", "comes",
                                          "in",    "sea",   "calm",  "is",    "##s",  ".",    "query",
                                          ":",     "boat",  "far",   "out",   "wind", "a"};
  Json vocabulary, added = Json::array();
  for (size_t i = 0; i < words.size(); ++i) vocabulary[words[i]] = i;
  for (size_t i = 0; i < 4; ++i)
    added.push_back({{"id", i},
                     {"content", words[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  const auto special = [](const char* token, int id) {
    return Json{{token, {{"id", token}, {"ids", {id}}, {"tokens", {token}}}}};
  };
  Json specials = special("[CLS]", 2);
  specials.update(special("[SEP]", 3));
  const Json cls = {{"SpecialToken", {{"id", "[CLS]"}, {"type_id", 0}}}},
             text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
             sep = {{"SpecialToken", {{"id", "[SEP]"}, {"type_id", 0}}}};
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", nullptr},
            {"lowercase", true}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {cls, text, sep}},
            {"pair", {cls, text, sep}},
            {"special_tokens", specials}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100},
            {"vocab", vocabulary}}}};
}

struct Made {
  TempFolder folder;
  std::string model, bundle;

  explicit Made(TinyEncoder m, const std::vector<std::string>& more = {}) {
    model = (folder / "model").string(), bundle = (folder / "bundle").string();
    m.write(model);
    spill(folder / "model/tokenizer.json", tokenizer_json().dump());
    std::vector<std::string> call = {"convert", model,         "-o",   bundle,   "--tokens",
                                     "8,16",    "--precision", "fp16", "--quiet"};
    call.insert(call.end(), more.begin(), more.end());
    const Outcome outcome = anemone_command(call);
    CAPTURE(outcome.err);
    REQUIRE(outcome.status == 0);
  }

  std::string ids(const std::string& name, const std::vector<int64_t>& shape,
                  const std::vector<int32_t>& values) const {
    Array array(DType::int32, shape);
    std::copy(values.begin(), values.end(), array.values<int32_t>().begin());
    write_npy(folder / name, array);
    return (folder / name).string();
  }
};

Outcome run(std::vector<std::string> arguments) {
  Outcome out = anemone_command(arguments);
  CAPTURE(out.err);
  CHECK(out.status == 0);
  return out;
}

Array embedded(const Made& made, std::vector<std::string> arguments) {
  const std::string out = (made.folder / "out.npy").string();
  arguments.insert(arguments.begin(), {"embed", made.bundle});
  arguments.insert(arguments.end(), {"-o", out, "--quiet"});
  run(arguments);
  return read_npy(out);
}

}  // namespace

TEST_CASE("embed: texts from arguments, files, lines and standard input are the same vectors") {
  const Made made(TinyEncoder("BertModel", "bert"));
  const Array both = embedded(made, {"The tide comes in.", "The sea is calm."});
  CHECK(both.shape() == std::vector<int64_t>{2, TinyEncoder::kHidden});
  spill(made.folder / "one.txt", "The tide comes in.");
  spill(made.folder / "two.txt", "The tide comes in.\nThe sea is calm.\n");
  const std::string one = (made.folder / "one.txt").string(), two = (made.folder / "two.txt").string();
  CHECK(embedded(made, {"--lines", two}).to_float() == both.to_float());
  CHECK(embedded(made, {"--lines", "--file", two}).to_float() == both.to_float());
  CHECK(embedded(made, {"--file", one}).to_float() == embedded(made, {"The tide comes in."}).to_float());
  CHECK(embedded(made, {"--threads", "1", "--lines", two}).to_float() == both.to_float());
  const std::string binary = ANEMONE_BINARY, out = (made.folder / "in.npy").string();
  CHECK(shell(binary + " embed " + made.bundle + " - -o " + out + " < " + one).status == 0);
  CHECK(read_npy(out).to_float() == embedded(made, {"The tide comes in."}).to_float());
  // [CLS] query : the boat [SEP]
  const std::string ids = made.ids("ids.npy", {6}, {2, 13, 14, 4, 15, 3});
  CHECK(embedded(made, {"--ids", ids}).to_float() ==
        embedded(made, {"the boat", "--prefix", "query: "}).to_float());
}

TEST_CASE("embed: every line is a row, an empty one too") {
  const Made made(TinyEncoder("BertModel", "bert"));
  spill(made.folder / "gap.txt", "The tide comes in.\n\nThe sea is calm.\n");
  const std::string gap = (made.folder / "gap.txt").string();
  const Array rows = embedded(made, {"--lines", gap});
  CHECK(rows.shape() == std::vector<int64_t>{3, TinyEncoder::kHidden});
  const std::string empty = made.ids("empty.npy", {2}, {2, 3});  // [CLS] [SEP]
  const std::vector<float> all = rows.to_float(), one = embedded(made, {"--ids", empty}).to_float();
  CHECK(std::equal(one.begin(), one.end(), all.begin() + TinyEncoder::kHidden));
  const Made classes(TinyEncoder("BertForSequenceClassification", "bert", 4));
  const Outcome lines = run({"classify", classes.bundle, "--lines", gap});
  CHECK(std::count(lines.out.begin(), lines.out.end(), '\n') == 3);
}

TEST_CASE(
    "embed: a file's last line break is no part of its text, and an error names the place of the text") {
  const Made made(TinyEncoder("BertModel", "bert"));
  spill(made.folder / "end.txt", "The tide comes in.\r\n");
  const Outcome shown = run({"embed", made.bundle, "--file", (made.folder / "end.txt").string()});
  CHECK(Json::parse(shown.out).at("text") == "The tide comes in.");
  std::string lines = "the sea\n\n";
  for (int i = 0; i < 30; ++i) lines += "sea ";
  spill(made.folder / "long.txt", lines + "\nthe sea\n");
  const std::string file = (made.folder / "long.txt").string();
  check_refused(anemone_command({"embed", made.bundle, "--lines", file}),
                {"long.txt, line 3", "32 tokens", "larger --tokens"});
  check_refused(anemone_command({"embed", made.bundle, "the sea", lines}), {"text 2"});
  const std::string outside = made.ids("outside.npy", {2, 2}, {2, 3, 2, 999});
  check_refused(anemone_command({"embed", made.bundle, "--ids", outside}), {"outside.npy, text 1", "999"});
  const std::string ids = made.ids("ids.npy", {2}, {2, 3}), mask = made.ids("mask.npy", {2}, {1, 2});
  check_refused(anemone_command({"embed", made.bundle, "--ids", ids, "--mask", mask}),
                {"mask.npy", "found 2", "0 to 1"});
}

TEST_CASE("embed: where the model's files set the limit, an error says so") {
  TinyEncoder model("BertModel", "bert");
  const TempFolder folder;
  model.write(folder / "model");
  spill(folder / "model/tokenizer.json", tokenizer_json().dump());
  spill(folder / "model/sentence_bert_config.json", R"({"max_seq_length": 12})");
  const std::string bundle = (folder / "bundle").string();
  run({"convert", (folder / "model").string(), "-o", bundle, "--precision", "fp16", "--quiet"});
  const Outcome outcome = anemone_command({"embed", bundle, "a a a a a a a a a a a a a a a"});
  check_refused(outcome, {"17 tokens", "at most 12", "max_seq_length", "sentence_bert_config.json"});
  CHECK(outcome.err.find("larger --tokens") == std::string::npos);
}

TEST_CASE("embed: hidden states, poolings and lengths") {
  const Made made(TinyEncoder("BertModel", "bert"));
  const std::string ids = made.ids("ids.npy", {3}, {2, 5, 3});
  const Array hidden = embedded(made, {"--ids", ids, "--pool", "none"});
  REQUIRE(hidden.shape() == std::vector<int64_t>{3, TinyEncoder::kHidden});
  const std::vector<float> rows = hidden.to_float();
  const Array cls = embedded(made, {"--ids", ids, "--pool", "cls"}), mean = embedded(made, {"--ids", ids}),
              unit = embedded(made, {"--ids", ids, "--normalize"});
  CHECK(mean.shape() == std::vector<int64_t>{TinyEncoder::kHidden});
  double squares = 0;
  for (size_t c = 0; c < TinyEncoder::kHidden; ++c) {
    CHECK(cls.to_float()[c] == doctest::Approx(rows[c]));
    const float sum = rows[c] + rows[c + TinyEncoder::kHidden] + rows[c + 2 * TinyEncoder::kHidden];
    CHECK(mean.to_float()[c] == doctest::Approx(sum / 3).epsilon(1e-4));
    squares += static_cast<double>(unit.to_float()[c]) * static_cast<double>(unit.to_float()[c]);
  }
  CHECK(squares == doctest::Approx(1).epsilon(1e-5));
  // Several texts, the second one padded.
  const std::string two = made.ids("two.npy", {2, 4}, {2, 5, 7, 3, 2, 5, 3, 0}),
                    mask = made.ids("mask.npy", {2, 4}, {1, 1, 1, 1, 1, 1, 1, 0});
  const Array pooled = embedded(made, {"--ids", two, "--mask", mask});
  REQUIRE(pooled.shape() == std::vector<int64_t>{2, TinyEncoder::kHidden});
  for (size_t c = 0; c < TinyEncoder::kHidden; ++c)
    CHECK(pooled.to_float()[TinyEncoder::kHidden + c] == mean.to_float()[c]);
  CHECK(embedded(made, {"--ids", two, "--mask", mask, "--pool", "none"}).shape() ==
        std::vector<int64_t>{2, 4, TinyEncoder::kHidden});
}

TEST_CASE("embed: without a file each text is a line of JSON") {
  const Made made(TinyEncoder("BertModel", "bert"));
  const Outcome lines = run({"embed", made.bundle, "the tide", "the sea"});
  const size_t end = lines.out.find('\n');
  const Json first = Json::parse(lines.out.substr(0, end)), second = Json::parse(lines.out.substr(end + 1));
  CHECK(first.at("text") == "the tide");
  CHECK(first.at("tokens") == 4);
  CHECK(first.at("vector").size() == TinyEncoder::kHidden);
  CHECK(second.at("text") == "the sea");
  CHECK(second.at("vector") != first.at("vector"));
}

TEST_CASE("embed: a text that is too long is refused, or cut before its last token, and that is said") {
  const Made made(TinyEncoder("BertModel", "bert"));
  std::string text;
  for (int i = 0; i < 30; ++i) text += "sea ";
  check_refused(anemone_command({"embed", made.bundle, text}),
                {"too long", "32 tokens", "at most 16", "--truncate"});
  const Outcome cut = run({"embed", made.bundle, text, "--truncate"});
  CHECK(cut.err.find("cut at 16 tokens") != std::string::npos);
  const std::string ids = made.ids("ids.npy", {16}, {2, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 3});
  CHECK(Json::parse(cut.out).at("vector") ==
        Json::parse(run({"embed", made.bundle, "--ids", ids}).out).at("vector"));
}

TEST_CASE("embed: wrong calls are one line") {
  const Made made(TinyEncoder("BertModel", "bert"));
  const std::string ids = made.ids("ids.npy", {3}, {2, 5, 3}),
                    long_mask = made.ids("m.npy", {4}, {1, 1, 1, 0}),
                    holes = made.ids("h.npy", {3}, {1, 0, 1}), types = made.ids("t.npy", {3}, {0, 9, 0});
  check_refused(anemone_command({"embed", made.bundle, "a", "--ids", ids}),
                {"--ids takes the place of texts"});
  check_refused(anemone_command({"embed", made.bundle, "--ids", ids, "--mask", long_mask}),
                {"m.npy", "shape"});
  check_refused(anemone_command({"embed", made.bundle, "--ids", ids, "--mask", holes}), {"h.npy", "padding"});
  check_refused(anemone_command({"embed", made.bundle, "--ids", ids, "--types", types}), {"token type 9"});
  check_refused(anemone_command({"embed", made.bundle, "a", "--mask", ids}),
                {"--mask and --types go with --ids"});
  check_refused(anemone_command({"embed", made.bundle, "a", "--normalize", "--no-normalize"}),
                {"--normalize"});
  check_refused(anemone_command({"embed", made.bundle, "a", "--normalize", "--pool", "none"}),
                {"--pool none"});
  check_refused(anemone_command({"embed", made.bundle, "a", "--pool", "max"}), {"mean, cls, none"});
  check_refused(anemone_command({"embed", made.bundle, "--file", "absent.txt"}), {"absent.txt"});
  check_refused(anemone_command({"embed", made.model, "a"}), {"takes a bundle", "anemone convert"});
  check_refused(anemone_command({"embed", made.bundle, "a", "the sea", "--pool", "none", "-o", "x.npy"}),
                {"different lengths"});
}

TEST_CASE("classify: labels of tokens and of texts, with probabilities") {
  const Made tokens(TinyEncoder("BertForTokenClassification", "bert", 3));
  const Outcome lines = run({"classify", tokens.bundle, "The tide comes in."});
  CHECK(std::count(lines.out.begin(), lines.out.end(), '\n') == 5);  // [CLS] and [SEP] are left out
  CHECK(lines.out.starts_with("the"));
  CHECK(lines.out.find("class") != std::string::npos);
  const Json json = Json::parse(run({"classify", tokens.bundle, "The tide comes in.", "--json"}).out);
  REQUIRE(json.at("tokens").size() == 7);
  CHECK(json.at("tokens").at(1).at("token") == "the");
  // The logits are the classifier's: softmax by hand.
  const std::string ids = tokens.ids("ids.npy", {3}, {2, 5, 3}),
                    out = (tokens.folder / "logits.npy").string();
  run({"logits", tokens.bundle, "--ids", ids, "-o", out});
  const Array logits = read_npy(out);
  REQUIRE(logits.shape() == std::vector<int64_t>{3, 3});
  const Json by_ids = Json::parse(run({"classify", tokens.bundle, "--ids", ids, "--json"}).out);
  for (size_t t = 0; t < 3; ++t) {
    const auto row = logits.to_float();
    double sum = 0, most = 0;
    for (size_t c = 0; c < 3; ++c) {
      const double e = std::exp(static_cast<double>(row[t * 3 + c]));
      sum += e;
      most = std::max(most, e);
    }
    const Json& token = by_ids.at("tokens").at(t);
    CHECK(token.at("probability").get<double>() == doctest::Approx(most / sum).epsilon(1e-5));
    REQUIRE(token.at("scores").size() == 3);
    for (size_t c = 0; c < 3; ++c)
      CHECK(token.at("scores").at("class" + std::to_string(c)).get<double>() ==
            doctest::Approx(std::exp(static_cast<double>(row[t * 3 + c])) / sum).epsilon(1e-5));
  }
  run({"logits", tokens.model, "--ids", ids, "-o", out});  // the reference
  CHECK(read_npy(out).shape() == logits.shape());
  for (size_t i = 0; i < 9; ++i)
    CHECK(read_npy(out).to_float()[i] == doctest::Approx(logits.to_float()[i]).epsilon(1e-3));

  const Made texts(TinyEncoder("BertForSequenceClassification", "bert", 4));
  const Outcome two = run({"classify", texts.bundle, "The tide comes in.", "The sea is calm."});
  CHECK(std::count(two.out.begin(), two.out.end(), '\n') == 2);
  CHECK(two.out.find("The sea is calm.") != std::string::npos);
  const Json one = Json::parse(run({"classify", texts.bundle, "The tide comes in.", "--json"}).out);
  double sum = 0;
  for (const auto& [label, p] : one.at("scores").items()) sum += p.get<double>();
  CHECK(sum == doctest::Approx(1).epsilon(1e-4));
  CHECK(one.at("scores").at(one.at("label").get<std::string>()) == one.at("probability"));
  run({"logits", texts.bundle, "--ids", texts.ids("ids.npy", {3}, {2, 5, 3}), "-o", out});
  CHECK(read_npy(out).shape() == std::vector<int64_t>{1, 4});
}

TEST_CASE("classify: the problem's type says what the logits become") {
  const auto made = [](const char* type, int64_t classes) {
    TinyEncoder model("BertForSequenceClassification", "bert", classes);
    model.config["problem_type"] = type;
    return model;
  };
  const auto logits_of = [](const Made& m) {
    const std::string ids = m.ids("ids.npy", {3}, {2, 5, 3}), out = (m.folder / "logits.npy").string();
    run({"logits", m.bundle, "--ids", ids, "-o", out, "--quiet"});
    return read_npy(out).to_float();
  };
  const Made several(made("multi_label_classification", 3)), value(made("regression", 2));
  const std::vector<float> yes_or_no = logits_of(several), values = logits_of(value);
  const Json many = Json::parse(run({"classify", several.bundle, "tide", "--json"}).out);
  for (size_t c = 0; c < 3; ++c)
    CHECK(many.at("scores").at("class" + std::to_string(c)).get<double>() ==
          doctest::Approx(1 / (1 + std::exp(-static_cast<double>(yes_or_no[c])))).epsilon(1e-4));
  const Json plain = Json::parse(run({"classify", value.bundle, "tide", "--json"}).out);
  for (size_t c = 0; c < 2; ++c)
    CHECK(plain.at("scores").at("class" + std::to_string(c)).get<double>() ==
          doctest::Approx(static_cast<double>(values[c])).epsilon(1e-4));
  CHECK(!plain.contains("label"));
  CHECK(!plain.contains("probability"));
  const Outcome line = run({"classify", value.bundle, "tide"});
  CHECK(line.out.find("class0") != std::string::npos);
  CHECK(line.out.find("class1") != std::string::npos);
}

TEST_CASE("logits: several texts are as many rows of a classifier, and an error of a model that writes") {
  const std::vector<int32_t> two = {2, 5, 3, 2, 8, 3};
  for (const auto& [architecture, by_token] :
       {std::pair{"BertForTokenClassification", true}, std::pair{"BertForSequenceClassification", false}}) {
    const Made made(TinyEncoder(architecture, "bert", 4));
    const std::string both = made.ids("both.npy", {2, 3}, two), out = (made.folder / "out.npy").string();
    for (const std::string& source : {made.bundle, made.model}) {
      run({"logits", source, "--ids", both, "-o", out, "--quiet"});
      const Array all = read_npy(out);
      CHECK(all.shape() == (by_token ? std::vector<int64_t>{2, 3, 4} : std::vector<int64_t>{2, 4}));
      std::vector<float> rows;
      for (const size_t at : {0, 3}) {
        const auto first = two.begin() + static_cast<ptrdiff_t>(at);
        run({"logits", source, "--ids", made.ids("one.npy", {3}, {first, first + 3}), "-o", out, "--quiet"});
        const std::vector<float> one = read_npy(out).to_float();
        rows.insert(rows.end(), one.begin(), one.end());
      }
      CHECK(all.to_float() == rows);
    }
  }
  const TempFolder folder;
  Array ids(DType::int32, {2, 1});
  write_npy(folder / "ids.npy", ids);
  check_refused(anemone_command({"logits", (source_dir() / "examples/demo_model/demo.gguf").string(), "--ids",
                                 (folder / "ids.npy").string(), "-o", (folder / "out.npy").string()}),
                {"ids.npy", "one text", "[2, 1]"});
}

TEST_CASE("a verb that does not fit a bundle says which does") {
  const Made vectors(TinyEncoder("BertModel", "bert")),
      classes(TinyEncoder("BertForTokenClassification", "bert", 3));
  const std::string ids = vectors.ids("ids.npy", {3}, {2, 5, 3}), out = (vectors.folder / "out").string();
  for (const std::vector<std::string>& call :
       std::vector<std::vector<std::string>>{{"run", vectors.bundle, "a"},
                                             {"chat", vectors.bundle},
                                             {"translate", vectors.bundle, "a", "--to", "fr"},
                                             {"perplexity", vectors.bundle, "--ids", ids},
                                             {"logits", vectors.bundle, "--ids", ids, "-o", out},
                                             {"golden", vectors.bundle, "--ids", ids, "-o", out},
                                             {"classify", vectors.bundle, "a"}}) {
    CAPTURE(call.front());
    check_refused(anemone_command(call), {"kind 'embed'", "use anemone embed"});
  }
  check_refused(anemone_command({"run", classes.bundle, "a"}), {"kind 'classify'", "use anemone classify"});
  check_refused(anemone_command({"perplexity", vectors.model, "--ids", ids}), {"reads a whole text at once"});
  check_refused(anemone_command({"golden", vectors.model, "--ids", ids, "-o", out}), {"reads a whole text at once"});
  check_refused(anemone_command({"logits", vectors.model, "--ids", ids, "-o", out}),
                {"no logits", "anemone embed"});
  check_refused(anemone_command({"logits", classes.bundle, "--ids", ids, "-o", out, "--chunk", "2"}),
                {"--chunk"});
  const std::string demo = (vectors.folder / "demo").string();
  run({"convert", (source_dir() / "examples/demo_model/demo.gguf").string(), "-o", demo, "--context", "16",
       "--quiet"});
  check_refused(anemone_command({"embed", demo, "a"}), {"kind 'generate'", "use anemone run"});
  check_refused(anemone_command({"classify", demo, "a"}), {"kind 'generate'", "use anemone run"});
}

TEST_CASE("inspect, check, verify, compress and plan take an encoder") {
  const Made made(TinyEncoder("BertForTokenClassification", "bert", 3));
  const Outcome shown = run({"inspect", made.bundle});
  CHECK(shown.out.find("a bundle of kind classify") != std::string::npos);
  CHECK(shown.out.find("class0, class1, class2") != std::string::npos);
  const Json json = Json::parse(run({"inspect", made.bundle, "--json"}).out);
  CHECK(json.at("kind") == "classify");
  CHECK(json.at("stages").at(0).at("functions").at(0).at("tokens") == Json{8, 8});
  CHECK(anemone_command({"check", made.bundle}).status == 0);
  const Outcome verified = run({"verify", made.bundle, "--source", made.model});
  CHECK(verified.out.find("PASSED: 5 rungs, 1 skipped") != std::string::npos);
  const std::string golden = made.folder.write("g.npz", "");
  check_refused(anemone_command({"verify", made.bundle, "--golden", golden}), {"--source"});
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the tide comes in . the sea is calm . ";
  spill(made.folder / "text.txt", text);
  const std::string calibration = (made.folder / "text.txt").string();
  for (const std::vector<std::string>& form :
       {std::vector<std::string>{"--quantize", "int8"}, {"--palettize", "4", "--calibrate", calibration}}) {
    std::vector<std::string> call = {"compress",    made.bundle,  "-o", (made.folder / "small").string(),
                                     "--overwrite", "--min-size", "64"};
    call.insert(call.end(), form.begin(), form.end());
    CHECK(run(call).err.find("4 weights here") != std::string::npos);  // values and ways back of two layers
    CHECK(anemone_command({"classify", (made.folder / "small").string(), "the tide"}).status == 0);
    call.insert(call.end(), {"--skip", "*_v_weight", "--skip", "*_down_weight"});
    CHECK(run(call).err.find("weights here") == std::string::npos);
  }
  check_refused(anemone_command({"compress", made.bundle, "-o", (made.folder / "found").string(), "--search",
                                 "--calibrate", calibration}),
                {"--search", "perplexity"});
  const std::string other = (made.folder / "other").string();
  check_refused(anemone_command({"convert", made.model, "-o", other, "--search", "--calibrate", calibration}),
                {made.model.c_str(), "--search", "perplexity"});
  check_refused(anemone_command({"convert", made.model, "-o", other, "--kv-write", "mask"}), {"--kv-write"});
  check_refused(anemone_command({"convert", made.model, "-o", other, "--head-rows", "64"}), {"--head-rows"});
  const Json plan = Json::parse(run({"plan", made.model, "--precision", "fp16", "--json"}).out);
  CHECK(!plan.at("plans").at(0).contains("predicted"));
  check_refused(anemone_command({"plan", made.model, "--matrix"}), {"--matrix", "write text"});
  CHECK(run({"plan", made.model}).out.find("Speed is not predicted") != std::string::npos);
}
