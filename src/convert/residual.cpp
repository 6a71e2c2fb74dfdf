#include "convert/residual.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "reference/ranges.h"
#include "text/tokenizer.h"

namespace anemone {
namespace {

// Ordinary prose with a list, a figure and a line of code: what first tokens and punctuation do to the stream
// shows here.
constexpr const char* kText =
    "The harbour was quiet when the boats came in. Anna counted them twice: eleven, as on the day before, "
    "and "
    "nobody was missing. She wrote the number into the book, 11 of 11, closed it, and went home.\n\n"
    "- bread\n- two lemons\n- 250 g of flour\n\nfor (int i = 0; i < 10; ++i) sum += x[i];\n";
constexpr size_t kTokens = 64;
// The start, a full stop, a line break and a comma in few tokens.
constexpr const char* kGlance = "The boats came in.\n\nAnna, at last, went home.\n";
constexpr size_t kGlanceTokens = 12;

std::vector<int32_t> ordinary_ids(const Checkpoint& checkpoint, const Model& model, const char* text,
                                  size_t count) {
  try {
    std::vector<int32_t> ids =
        Tokenizer::load(checkpoint.tokenizer().load)->encode(text, {.add_special = true});
    std::erase_if(ids, [&](int32_t id) { return id < 0 || id >= model.vocab; });
    if (ids.size() >= 8) {
      ids.resize(std::min(ids.size(), count));
      return ids;
    }
  } catch (const Error&) {  // no tokenizer, or none that we read: ids alone will do
  }
  std::vector<int32_t> ids;
  if (model.bos) ids.push_back(static_cast<int32_t>(*model.bos));
  for (size_t i = 0; ids.size() < count; ++i)
    ids.push_back(static_cast<int32_t>(static_cast<int64_t>(i * 2 + 1) * model.vocab /
                                       static_cast<int64_t>(2 * count + 2)));
  return ids;
}

ResidualChoice measured(std::shared_ptr<const Checkpoint> checkpoint, const Model& model, int threads,
                        const std::vector<int32_t>& ids, double least_headroom) {
  const Reference reference(std::move(checkpoint), model, threads);
  const std::vector<LayerRange> ranges = measure_ranges(reference, ids);
  ResidualChoice choice;
  for (const LayerRange& range : ranges) {
    if (!std::isfinite(range.stream.value))
      throw errorf("layer {} of the model computes values that are not finite", range.layer);
    if (range.stream.value > choice.largest) {
      choice.largest = range.stream.value;
      choice.layer = range.layer;
    }
  }
  choice.scale = proposed_residual_scale(ranges, least_headroom);
  return choice;
}

}  // namespace

ResidualChoice choose_residual_scale(std::shared_ptr<const Checkpoint> checkpoint, const Model& model,
                                     int threads) {
  const std::vector<int32_t> ids = ordinary_ids(*checkpoint, model, kText, kTokens);
  return measured(std::move(checkpoint), model, threads, ids, kSmallHeadroom);
}

ResidualChoice glance_at_residual(std::shared_ptr<const Checkpoint> checkpoint, const Model& model,
                                  int threads) {
  const std::vector<int32_t> ids = ordinary_ids(*checkpoint, model, kGlance, kGlanceTokens);
  return measured(std::move(checkpoint), model, threads, ids, 2 * kSmallHeadroom);
}

}  // namespace anemone
