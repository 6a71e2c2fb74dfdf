#include "plan/precision.h"

#include <cctype>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "compress/recipe.h"

namespace anemone {
namespace {

StorageForm half_form() {
  StorageForm form;
  form.dense = true;
  return form;
}

StorageForm int8_form(IntegerForm::Per per) {
  StorageForm form;
  form.integers = IntegerForm{.per = per};
  return form;
}

StorageForm palette_form(int bits, int64_t group) {
  StorageForm form;
  form.palette = PaletteForm{.bits = bits, .group = group};
  return form;
}

const std::vector<StorageForm>& offered() {
  static const std::vector<StorageForm> forms = {half_form(),        int8_form(IntegerForm::Per::channel),
                                                 palette_form(8, 0), palette_form(6, 0),
                                                 palette_form(4, 0), palette_form(4, 16),
                                                 palette_form(2, 0), palette_form(2, 16)};
  return forms;
}

constexpr uint64_t kRecord = 64;

// A blob behind its record, filled up to where the next record may start.
constexpr uint64_t blob(uint64_t bytes) { return kRecord + (bytes + 63) / 64 * 64; }
// Fewer than 10 halves stay in the program.
constexpr uint64_t small_blob(uint64_t bytes) { return bytes >= 20 ? blob(bytes) : 0; }

bool streams(const StorageForm& form, const Chip& chip) {
  if (form.palette) return chip.streams().palettes;
  return !form.integers || chip.streams().int8;
}

// "lut4", "lut4-g16".
std::optional<StorageForm> parse_palette(std::string_view text) {
  if (!text.starts_with("lut")) return std::nullopt;
  const size_t dash = text.find("-g");
  const std::string_view bits = text.substr(3, dash == std::string_view::npos ? dash : dash - 3);
  if (bits != "1" && bits != "2" && bits != "3" && bits != "4" && bits != "6" && bits != "8")
    return std::nullopt;
  int64_t rows = 0;
  if (dash != std::string_view::npos) {
    for (const char c : text.substr(dash + 2)) {
      if (c < '0' || c > '9' || rows >= 1'000'000) return std::nullopt;
      rows = rows * 10 + (c - '0');
    }
    if (rows == 0) return std::nullopt;
  }
  return palette_form(bits[0] - '0', rows);
}

struct OtherName {
  std::string_view names;  // beginnings, lower case, separated by spaces
  std::string_view ours;
};

// What llama.cpp, transformers and coremltools call them. The longer beginnings first.
constexpr OtherName kOtherNames[] = {
    {"fp16 f16 float16 half fp32 f32 float32 bf16 bfloat16", "fp16: weights of 16 bits"},
    {"q8 int8 8bit w8 linear8", "int8"},
    {"q6 q5 iq6 iq5", "lut6"},
    {"int4 w4 linear4", "lut4-g16; or, for integers, --quantize int4 instead of --precision"},
    {"q4 iq4 nf4 fp4 mxfp4 4bit", "lut4-g16"},
    {"q3 iq3", "lut3: expect a loss; --search finds the bits for each matrix"},
    {"q2 iq2 iq1 tq", "lut2: expect a large loss; --search finds the bits for each matrix"},
};

// What a name of another program is here; empty for one that is none.
std::string ours_of(std::string_view text) {
  std::string name;
  for (const char c : text) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const OtherName& other : kOtherNames) {
    std::istringstream names{std::string(other.names)};
    for (std::string start; names >> start;)
      if (name.starts_with(start)) return "here that is " + std::string(other.ours);
  }
  return "";
}

}  // namespace

StorageForm parse_precision(std::string_view text) {
  if (text == "fp16") return half_form();
  if (text == "int8") return int8_form(IntegerForm::Per::channel);
  if (text == "int8-tensor") return int8_form(IntegerForm::Per::tensor);
  if (const auto form = parse_palette(text)) return *form;
  const std::string ours = ours_of(text);
  std::string known;
  for (const StorageForm& form : offered()) known += (known.empty() ? "" : ", ") + precision_name(form);
  throw errorf("there is no such precision")
      .found("'" + std::string(text.substr(0, 40)) + "'")
      .expected(known + ", int8-tensor")
      .hint(ours.empty() ? "lutB-gN is a palette of B bits for every N rows" : ours);
}

std::string precision_name(const StorageForm& form) {
  if (form == half_form()) return "fp16";
  if (form == int8_form(IntegerForm::Per::channel)) return "int8";
  if (form == int8_form(IntegerForm::Per::tensor)) return "int8-tensor";
  if (form.palette && form == palette_form(form.palette->bits, form.palette->group)) {
    const PaletteForm& p = *form.palette;
    return p.group > 0 ? fmt::format("lut{}-g{}", p.bits, p.group) : fmt::format("lut{}", p.bits);
  }
  return form.text();
}

std::span<const StorageForm> all_precisions() { return offered(); }

StorageForm form_of(const StorageForm& precision, const WeightRef& ref) {
  const bool plain = precision.keep || precision.dense;
  const bool from_checkpoint =
      precision == int8_form(IntegerForm::Per::channel) || precision == int8_form(IntegerForm::Per::tensor);
  if (from_checkpoint) return ref.sensitive ? half_form() : precision;
  return !plain && ref.rows() * ref.columns < kLeastCompressed ? half_form() : precision;
}

uint64_t file_bytes(const StorageForm& form, int64_t rows, int64_t columns) {
  const StoredParts parts = stored_parts(form, rows, columns);
  return blob(parts.data) + small_blob(parts.tables) + small_blob(parts.scales) + small_blob(parts.offsets) +
         small_blob(parts.mask);
}

uint64_t vector_file_bytes(int64_t elements) {
  return elements < 10 ? 0 : blob(static_cast<uint64_t>(elements) * 2);
}

uint64_t read_bytes(const StorageForm& form, int64_t rows, int64_t columns, const Chip& chip) {
  return streams(form, chip) ? stored_bytes(form, rows, columns)
                             : static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns) * 2;
}

// From published runs: INT8 and fp16 reach the rate, palettes of 4 and 6 bits mixed 0.9, of 4 bits 0.8 of it.
double read_efficiency(const StorageForm& form) {
  if (!form.palette) return 1;
  return form.palette->bits > 4 ? 0.9 : 0.8;
}

int bits_of(const StorageForm& form) {
  return form.palette ? form.palette->bits : form.integers ? dtype_bits(form.integers->dtype) : 16;
}

}  // namespace anemone
