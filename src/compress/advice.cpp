#include "compress/advice.h"

namespace anemone {

std::vector<Advice> advice_for(const StorageForm& form, const Weight& weight) {
  std::vector<Advice> out;
  if (form.integers && form.integers->per == IntegerForm::Per::block)
    out.push_back({"Q02",
                   "a scale per block leaves the Neural Engine: the graph runs on CPU or GPU, or gives wrong "
                   "numbers; use a scale per channel, or a palette with --group"});
  if (form.palette) {
    const PaletteForm& p = *form.palette;
    if ((p.group || p.channel_scale) && weight.output_axis != 0)
      out.push_back({"Q05",
                     "tables along another axis than the first leave the Neural Engine; use one table for "
                     "these weights"});
    if (p.vector > 1)
      out.push_back({"Q06", "tables of vectors ran on no Neural Engine that was tested; use single values"});
    if (p.int8_table) out.push_back({"Q07", "int8 tables leave the Neural Engine; leave out --int8-lut"});
    if (p.channel_scale)
      out.push_back({"Q09", "palettes with channel scales fail to load on macOS 26; use --group instead"});
    if (p.bits <= 3 && p.mode != PaletteForm::Mode::unique)
      out.push_back(
          {"Q14",
           "language models are rarely usable with palettes of 3 bits or fewer; compare the perplexity"});
  }
  return out;
}

}  // namespace anemone
