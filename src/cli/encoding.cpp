#include "cli/encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/npy.h"
#include "cli/generation.h"
#include "cli/ids.h"

namespace anemone::cli {
namespace {

// A file of numbers, one a token: [tokens], or [texts, tokens].
struct Numbers {
  std::vector<int64_t> shape;
  std::vector<int64_t> values;

  size_t texts() const { return shape.size() == 2 ? static_cast<size_t>(shape[0]) : 1; }
  size_t tokens() const { return static_cast<size_t>(shape.back()); }
};

Numbers read_numbers(const std::string& path) {
  const Array array = read_npy(path);
  Numbers out{array.shape(), array.to_int()};
  if (out.shape.empty() || out.shape.size() > 2 || out.values.empty())
    throw errorf("token ids are [tokens] or [texts, tokens]")
        .at(path)
        .found(fmt::format("{} axes, {} numbers", out.shape.size(), out.values.size()));
  for (const int64_t value : out.values)
    if (value < 0 || value > INT32_MAX)
      throw errorf("a number is no token id").at(path).found(fmt::format("{}", value));
  return out;
}

Numbers read_beside(const std::string& path, const Numbers& ids) {
  Numbers out = read_numbers(path);
  if (out.shape != ids.shape) throw errorf("the shape is another than that of --ids").at(path);
  return out;
}

// How many tokens of a text are there: those before its padding.
size_t real_tokens(const Numbers& mask, size_t text, const std::string& path) {
  const auto row = std::span(mask.values).subspan(text * mask.tokens(), mask.tokens());
  const auto end = std::find(row.begin(), row.end(), 0);
  if (std::any_of(end, row.end(), [](int64_t v) { return v != 0; }))
    throw errorf("padding must stand at the end of a text")
        .at(path)
        .found(fmt::format("a 1 behind a 0 in text {}", text));
  if (end == row.begin()) throw errorf("text {} is all padding", text).at(path);
  return static_cast<size_t>(end - row.begin());
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
  o.positionals("TEXT", texts, "the texts; - is standard input, as it is without any", false);
  o.texts("--file", "FILE", files, "a text from a file; may be given often");
  o.flag("--lines", lines, "each line is a text: of the files, TEXT being one too, or of standard input");
  o.text("--prefix", "TEXT", prefix, "stands before every text: \"query: \"");
  o.text("--ids", "FILE", ids, "token ids instead, .npy: [tokens] or [texts, tokens]");
  o.text("--mask", "FILE", mask, "with --ids: 1 for a token, 0 for padding at the end, .npy");
  o.text("--types", "FILE", types, "with --ids: token types, .npy (all 0)");
  o.flag("--truncate", truncate, "cut texts that are too long for the bundle");
  backend.declare(o);
}

EncodingInput EncodingFlags::read(const std::string& bundle) const {
  EncodingInput out;
  if (!ids.empty()) {
    if (!texts.empty() || !files.empty() || lines || !prefix.empty())
      throw errorf("--ids takes the place of texts").hint("leave out TEXT, --file, --lines and --prefix");
    const Numbers numbers = read_numbers(ids);
    const Numbers masks = mask.empty() ? Numbers{} : read_beside(mask, numbers);
    const Numbers kinds = types.empty() ? Numbers{} : read_beside(types, numbers);
    out.shape = numbers.shape;
    for (size_t i = 0; i < numbers.texts(); ++i) {
      const size_t count = mask.empty() ? numbers.tokens() : real_tokens(masks, i, mask);
      const auto first = static_cast<ptrdiff_t>(i * numbers.tokens()),
                 last = first + static_cast<ptrdiff_t>(count);
      out.ids.emplace_back(numbers.values.begin() + first, numbers.values.begin() + last);
      if (!types.empty()) out.types.emplace_back(kinds.values.begin() + first, kinds.values.begin() + last);
    }
    return out;
  }
  if (!mask.empty() || !types.empty()) throw errorf("--mask and --types go with --ids");
  std::vector<std::string> sources = files;
  if (lines) sources.insert(sources.begin(), texts.begin(), texts.end());
  const bool nothing = texts.empty() && files.empty();
  if (!lines)
    for (const std::string& text : texts) out.texts.push_back(text == "-" ? read_text("-") : text);
  if (nothing) sources.push_back("-");
  for (const std::string& source : sources) {
    const std::string text = read_text(source);
    for (std::string& part : lines ? lines_of(text) : std::vector{text})
      if (!lines || !part.empty()) out.texts.push_back(std::move(part));
  }
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
  const auto backend = flags.backend.open(workers > 1 ? 1 : common.threads);
  const Encoder encoder(Bundle::open(bundle, backend), options);
  std::vector<EncoderText> texts;
  for (size_t i = 0; i < input.ids.size(); ++i)
    texts.push_back({input.ids[i], input.types.empty() ? std::span<const int32_t>() : input.types[i]});
  std::optional<NumericFault> fault;
  size_t cut = 0;
  encoder.each(texts, static_cast<int>(workers), [&](size_t i, EncodedText e) {
    cut += e.cut > 0;
    if (e.fault && !fault) fault = e.fault;
    take(i, std::move(e));
  });
  if (common.quiet) return;
  if (cut)
    fmt::print(stderr, "note: {} text{} cut at {} tokens\n", cut, cut == 1 ? " was" : "s were",
               encoder.longest());
  print_fault(fault, common);
}

double short_number(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

}  // namespace anemone::cli
