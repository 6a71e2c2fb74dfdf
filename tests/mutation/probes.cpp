#include <algorithm>
#include <set>

#include "base/error.h"
#include "mutation/oracle.h"

namespace anemone::mutation {
namespace {

constexpr const char* kPaddingNames[] = {"zeros", "the last token", "rubbish"};

// The numbers of columns that calls of one tier can have.
struct Tier {
  int64_t context = 0;
  std::set<int64_t> widths;

  int64_t narrow() const { return *widths.begin(); }
  int64_t wide() const { return *widths.rbegin(); }
};

std::vector<Tier> tiers_of(const BundleInfo& info) {
  std::vector<Tier> out;
  for (const Stage& stage : info.stages) {
    if (!stage.has_layers()) continue;
    for (const StageFunction& f : stage.functions) {
      auto tier = std::find_if(out.begin(), out.end(), [&](const Tier& t) { return t.context == f.context; });
      if (tier == out.end()) tier = out.insert(out.end(), {f.context, {}});
      for (const int64_t n : {f.least_tokens, (f.least_tokens + f.most_tokens) / 2, f.most_tokens})
        tier->widths.insert(n);
    }
    break;
  }
  std::sort(out.begin(), out.end(), [](const Tier& a, const Tier& b) { return a.context < b.context; });
  return out;
}

class Maker {
 public:
  explicit Maker(const Subject& subject) : subject_(subject), tiers_(tiers_of(subject.info)) {}

  std::vector<Probe> make() {
    if (!subject_.generates()) {
      texts();
      return std::move(out_);
    }
    for (const Tier& tier : tiers_) {
      start(tier, subject_.large ? 5 : 12, Arithmetic::fp32);
      for (const int64_t width : tier.widths)
        if (width > 1 && (!subject_.large || (width == tier.wide() && &tier == &tiers_.front())))
          padded(tier, width, Arithmetic::fp32);
    }
    for (const Tier& tier : tiers_) {
      if (subject_.large)
        far(tier);
      else
        whole(tier);
    }
    for (size_t i = 0; i + 1 < tiers_.size(); ++i) change(tiers_[i], tiers_[i + 1]);
    back(tiers_.front());
    other_rope(tiers_.back());
    start(tiers_.front(), subject_.large ? 3 : 8, Arithmetic::fp16);
    if (tiers_.front().wide() > 1) padded(tiers_.front(), tiers_.front().wide(), Arithmetic::fp16);
    return std::move(out_);
  }

 private:
  Probe& add(std::string name, const Tier& tier, Arithmetic arithmetic = Arithmetic::fp32) {
    out_.push_back({std::move(name), arithmetic, {tier.context, tier.context}, false, {}});
    if (arithmetic == Arithmetic::fp16) out_.back().name += ", fp16";
    return out_.back();
  }

  // Positions [begin, end), as many at once as the width says.
  static void go(Probe& probe, int64_t width, int64_t begin, int64_t end) {
    for (int64_t at = begin; at + width <= end; at += width)
      probe.steps.push_back({{.width = width}, width, at});
  }

  void start(const Tier& tier, int64_t count, Arithmetic arithmetic) {
    Probe& p = add(fmt::format("from the start, context {}", tier.context), tier, arithmetic);
    go(p, tier.narrow(), 0, std::min(tier.context, std::max(count, tier.narrow())));
  }

  void whole(const Tier& tier) {
    for (const int64_t width : tier.widths)
      go(add(fmt::format("all positions by {}, context {}", width, tier.context), tier), width, 0,
         tier.context);
  }

  void padded(const Tier& tier, int64_t width, Arithmetic arithmetic) {
    for (const Padding padding : {Padding::zeros, Padding::repeated, Padding::rubbish}) {
      if (3 * width > tier.context) continue;
      if (subject_.large && arithmetic == Arithmetic::fp16 && padding != Padding::zeros) continue;
      Probe& p = add(fmt::format("{} columns padded with {}, context {}", width,
                                 kPaddingNames[static_cast<int>(padding)], tier.context),
                     tier, arithmetic);
      int64_t at = 0;
      for (const int64_t count : {width - 1, int64_t{1}, std::max<int64_t>(1, width / 2)}) {
        p.steps.push_back({{.width = width, .padding = padding}, count, at});
        at += count;
      }
      go(p, tier.narrow(), at, at + tier.narrow());
      if (subject_.large) p.steps.erase(p.steps.begin() + 1);
    }
  }

  // Over memories that are full of numbers.
  void far(const Tier& tier) {
    const int64_t last = tier.context;
    for (const int64_t width : tier.widths) {
      Probe& p = add(fmt::format("far positions by {}, context {}", width, tier.context), tier);
      p.seeded = true;
      std::set<int64_t> places = {63, 64, 65, last / 2, last - 1};
      if (width > 1) places = {64 - width / 2, last - width};
      for (const int64_t at : places)
        if (at >= 0 && at + width <= last) p.steps.push_back({{.width = width}, width, at});
    }
  }

  void change(const Tier& from, const Tier& to) {
    Probe& p = add(fmt::format("from context {} to {}", from.context, to.context), from);
    p.text.positions = to.context;
    const int64_t narrow = from.narrow();
    if (!subject_.large) {
      const int64_t wide = from.wide();
      go(p, wide, 0, from.context);
      go(p, narrow, from.context / wide * wide, from.context);
    }
    p.seeded = subject_.large;
    const int64_t at = from.context / narrow * narrow;
    for (int64_t i = 0; i < 3; ++i)
      if (at + (i + 1) * narrow <= to.context)
        p.steps.push_back({{.width = narrow}, narrow, at + i * narrow, i == 0 ? to.context : 0});
  }

  // The next call says an earlier position.
  void back(const Tier& tier) {
    const int64_t narrow = tier.narrow();
    if (subject_.info.recurrent() || 8 * narrow > tier.context) return;
    Probe& p = add(fmt::format("back to an earlier position, context {}", tier.context), tier);
    go(p, narrow, 0, (subject_.large ? 4 : 8) * narrow);
    go(p, narrow, 2 * narrow, (subject_.large ? 4 : 6) * narrow);
  }

  // A text that stays below longrope's original context.
  void other_rope(const Tier& tier) {
    for (const RopeTable& rope : subject_.info.ropes) {
      if (rope.long_frequencies.empty()) continue;
      Probe& p = add("a short text, longrope", tier);
      p.text.positions = std::min(rope.original_context, tier.context);
      go(p, tier.narrow(), 0,
         std::max(tier.narrow(), std::min<int64_t>(p.text.positions, subject_.large ? 4 : 32)));
      Probe& q = add("a long text, longrope", tier);
      q.text.positions = rope.original_context + 1;
      go(q, tier.narrow(), 0,
         std::max(tier.narrow(), std::min<int64_t>(tier.context, subject_.large ? 4 : 32)));
    }
  }

  // A bundle that sees a text whole.
  void texts() {
    for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fp16})
      for (const int64_t width : tiers_.front().widths) {
        if (arithmetic == Arithmetic::fp16 && width != tiers_.front().narrow()) continue;
        Tier whole{0, {}};
        add(fmt::format("a full text of {}", width), whole, arithmetic).steps = {
            {{.width = width}, width, 0}};
        for (const Padding padding : {Padding::zeros, Padding::repeated, Padding::rubbish}) {
          Probe& p =
              add(fmt::format("a text padded with {} to {}", kPaddingNames[static_cast<int>(padding)], width),
                  whole, arithmetic);
          p.steps = {
              {{.width = width, .padding = padding, .pair = subject_.info.types.rows > 1}, width * 3 / 4, 0},
              {{.width = width, .padding = padding}, 2, 0}};
        }
      }
  }

  const Subject& subject_;
  std::vector<Tier> tiers_;
  std::vector<Probe> out_;
};

}  // namespace

std::vector<Probe> probes_for(const Subject& subject) { return Maker(subject).make(); }

}  // namespace anemone::mutation
