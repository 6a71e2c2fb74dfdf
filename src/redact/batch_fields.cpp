// Whether the files of a batch have the columns and keys that it asks for.
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "redact/batch.h"

namespace anemone::redact {
namespace {

constexpr size_t kBlock = 1 << 16;

// Takes a document and keeps nothing of it: walkers ask the filter while they read.
class NoSink : public UnitSink {
 public:
  Unit& unit() override { return unit_; }
  void end_unit() override { clear(); }
  void problem(const std::string&) override {}
  void clear() { unit_ = Unit(SourcePlace{}); }

 private:
  Unit unit_{SourcePlace{}};
};

void look_through(const std::string& file, Format format, const BatchOptions& options) {
  std::ifstream in(file, std::ios::binary);
  std::string block(kBlock, '\0');
  const auto next = [&] {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    return std::string_view(block).substr(0, static_cast<size_t>(in.gcount()));
  };
  std::string_view bytes = next();
  CharReader reader(options.encoding ? *options.encoding : detect_encoding(bytes));
  const std::unique_ptr<Walker> walker = make_walker(format, options.walker);
  std::vector<SourceChar> chars;
  NoSink sink;
  const FieldFilter& fields = options.walker.fields;
  for (; !bytes.empty() && !(fields.asked() && fields.unmet().empty()); bytes = next()) {
    reader.feed(bytes, chars);
    walker->feed(chars, sink);
    chars.clear();
    sink.clear();
  }
  reader.finish(chars);
  walker->feed(chars, sink);
  walker->finish(sink);
}

}  // namespace

void expect_fields(const std::vector<BatchItem>& items, const BatchOptions& options) {
  const FieldFilter& fields = options.walker.fields;
  if (fields.all() || options.records) return;
  bool pipes = false;
  for (const BatchItem& item : items) {
    const Format format = options.format.value_or(format_of(item.input));
    if (format == Format::text) continue;
    if (std::filesystem::is_regular_file(item.input))
      look_through(item.input, format, options);
    else
      pipes = true;
    if (fields.asked() && fields.unmet().empty()) return;
  }
  if (!pipes) fields.expect_met();
}

}  // namespace anemone::redact
