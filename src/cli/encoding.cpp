#include "cli/encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/shape.h"
#include "cli/ids.h"
#include "cli/input.h"

namespace anemone::cli {
namespace {

TokenTable read_beside(const std::string& path, const TokenTable& ids, const char* what, int64_t most) {
  TokenTable out = read_token_table(path, what, most);
  if (out.shape != ids.shape)
    throw errorf("the shape is another than that of --ids")
        .at(path)
        .found(shape_text(out.shape))
        .expected(shape_text(ids.shape));
  return out;
}

// How many tokens of a text are there: those before its padding.
size_t real_tokens(const TokenTable& mask, size_t text, const std::string& path) {
  const std::span<const int32_t> row = mask.text(text);
  const auto end = std::find(row.begin(), row.end(), 0);
  if (std::any_of(end, row.end(), [](int32_t v) { return v != 0; }))
    throw errorf("padding must stand at the end of a text")
        .at(path)
        .found(fmt::format("a 1 behind a 0 in text {}", text));
  if (end == row.begin()) throw errorf("text {} is all padding", text).at(path);
  return static_cast<size_t>(end - row.begin());
}

void read_tables(const EncodingFlags& flags, EncodingInput& out) {
  if (!flags.texts.empty() || !flags.files.empty() || flags.lines || !flags.prefix.empty())
    throw errorf("--ids takes the place of texts").hint("leave out TEXT, --file, --lines and --prefix");
  const TokenTable ids = read_token_table(flags.ids);
  TokenTable mask, types;
  if (!flags.mask.empty()) mask = read_beside(flags.mask, ids, "mark of a token", 1);
  if (!flags.types.empty()) types = read_beside(flags.types, ids, "token type", INT32_MAX);
  out.shape = ids.shape;
  for (size_t i = 0; i < ids.texts(); ++i) {
    const size_t count = mask.values.empty() ? ids.tokens() : real_tokens(mask, i, flags.mask);
    const auto real = [&](const TokenTable& table) {
      const auto row = table.text(i).first(count);
      return std::vector<int32_t>(row.begin(), row.end());
    };
    out.ids.push_back(real(ids));
    if (!types.values.empty()) out.types.push_back(real(types));
    out.places.push_back(ids.texts() == 1 ? flags.ids : fmt::format("{}, text {}", flags.ids, i));
  }
}

void add_text(const std::string& text, const std::string& place, bool lines, EncodingInput& out) {
  if (!lines) {
    out.texts.push_back(without_last_break(text));
    out.places.push_back(place);
    return;
  }
  size_t line = 0;
  for (std::string& part : lines_of(text)) {
    out.texts.push_back(std::move(part));
    out.places.push_back(fmt::format("{}, line {}", place, ++line));
  }
}

void add_source(const std::string& source, bool lines, EncodingInput& out) {
  add_text(read_text(source), source == "-" ? "standard input" : source, lines, out);
}

// How many tokens the tokenizer puts behind every text.
size_t tokens_behind(const Tokenizer& tokenizer) {
  const std::vector<int32_t> plain = tokenizer.encode("a"),
                             whole = tokenizer.encode("a", {.add_special = true});
  const auto at = std::search(whole.begin(), whole.end(), plain.begin(), plain.end());
  return at == whole.end() ? 0 : static_cast<size_t>(whole.end() - at) - plain.size();
}

}  // namespace

void EncodingFlags::declare(Options& o) {
  o.positionals("TEXT", texts,
                "the texts. Piped text is one more. - is standard input, as it is without TEXT and --file",
                false);
  o.texts("--file", "FILE", files, "a text from a file, without its last line break; may be repeated")
      .also("-f")
      .streams();
  o.flag("--lines", lines, "each line is one text, also an empty one; TEXT is then the name of a file");
  o.text("--prefix", "TEXT", prefix, "text to put before every text: \"query: \"");
  o.flag("--truncate", truncate, "cut texts that are too long for the bundle");
  o.group("Token ids instead of texts");
  o.text("--ids", "FILE", ids, "token ids, .npy: [tokens] or [texts, tokens]").streams();
  o.text("--mask", "FILE", mask, "with --ids: 1 for a token, 0 for padding at the end, .npy").streams();
  o.text("--types", "FILE", types, "with --ids: token types, .npy (all 0)").streams();
  o.group("How it is computed");
  backend.declare(o);
}

EncodingInput EncodingFlags::read(const std::string& bundle, const Common& common) const {
  EncodingInput out;
  if (!ids.empty()) {
    read_tables(*this, out);
    return out;
  }
  if (!mask.empty() || !types.empty()) throw errorf("--mask and --types go with --ids");
  for (const std::string& text : texts)
    if (lines || text == "-") {
      add_source(text, lines, out);
    } else {
      out.texts.push_back(text);
      out.places.push_back(texts.size() + files.size() == 1 ? "" : fmt::format("text {}", out.texts.size()));
    }
  for (const std::string& file : files) add_source(file, lines, out);
  if (texts.empty() && files.empty()) add_source("-", lines, out);
  // What is piped in is one more text, unless files say where the texts are.
  const bool named = lines || !files.empty() || std::find(texts.begin(), texts.end(), "-") != texts.end();
  if (!texts.empty() && !named)
    if (const std::optional<std::string> piped = piped_text(common); piped && !piped->empty())
      add_text(*piped, "standard input", false, out);
  if (out.texts.empty()) throw errorf("there are no texts");
  out.tokenizer = tokenizer_of(bundle);
  out.keep_last = tokens_behind(*out.tokenizer);
  for (const std::string& text : out.texts)
    out.ids.push_back(out.tokenizer->encode(prefix + text, {.add_special = true}));
  return out;
}

void encode_all(const EncodingFlags& flags, const EncodingInput& input, const std::string& bundle,
                EncoderOptions options, const Common& common,
                const std::function<void(size_t index, EncodedText encoded)>& take) {
  const auto cores = static_cast<size_t>(common.threads ? common.threads
                                                        : std::max(1u, std::thread::hardware_concurrency()));
  const size_t workers = std::min(cores, input.ids.size());
  options.truncate = flags.truncate;
  options.keep_last = input.keep_last;
  // Small calls hardly gain from a second core, so texts run beside each other, each on one core.
  BackendFlags flags_for_texts = flags.backend;
  flags_for_texts.in_flight = workers > 1 ? BackendFlags::kInFlight : 1;
  const auto backend = flags_for_texts.open(common, workers > 1 ? 1 : common.threads);
  const Encoder encoder(Bundle::open(bundle, backend), options);
  std::vector<EncoderText> texts;
  for (size_t i = 0; i < input.ids.size(); ++i)
    texts.push_back(
        {input.ids[i], input.types.empty() ? std::span<const int32_t>() : input.types[i], input.places[i]});
  std::optional<NumericFault> fault;
  size_t cut = 0;
  encoder.each(texts, static_cast<int>(workers), [&](size_t i, EncodedText e) {
    cut += e.cut > 0;
    if (e.fault && !fault) fault = e.fault;
    take(i, std::move(e));
  });
  if (cut)
    note(common,
         fmt::format("{} text{} cut at {} tokens", cut, cut == 1 ? " was" : "s were", encoder.longest()));
  print_fault(fault, common);
}

double short_number(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

}  // namespace anemone::cli
