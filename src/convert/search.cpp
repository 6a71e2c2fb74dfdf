#include "convert/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "anemone/package.h"
#include "base/error.h"
#include "base/staged.h"
#include "base/thread_pool.h"
#include "bundle/bundle_info.h"
#include "compress/encoded.h"
#include "compress/find.h"
#include "convert/activations.h"
#include "package/package.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

constexpr int kBits[] = {2, 3, 4, 6, 8};
constexpr size_t kWidths = std::size(kBits);
constexpr int kMostRuns = 8;
constexpr double kLeast = 1e-6, kMost = 1e7;  // prices, of all loss against all bytes: all 2 bits, all 8

// A matrix with what each width costs and loses.
struct Matrix {
  std::string path;  // "layers_00/l0_q_weight"
  double elements = 0;
  double loss[kWidths] = {};  // share of the output's energy
};

// The error of the outputs, weighted by the squares of the inputs. Every fourth row stands for the others.
double loss_of(const Weight& w, const Encoded& e, const std::vector<float>& importance) {
  const int64_t rows = e.dims[0], columns = e.dims[1];
  const WeightValues values(w);
  std::vector<float> room;
  double lost = 0, all = 0;
  for (int64_t r = 0; r < rows; r += 4) {
    const float* v = values.floats(r * columns, (r + 1) * columns, room);
    for (int64_t c = 0; c < columns; ++c) {
      uint8_t code;
      const double x = static_cast<double>(v[c]), d = static_cast<double>(e.nearest(r, c, v[c], code)) - x;
      const double h = static_cast<double>(importance[static_cast<size_t>(c)]);
      lost += h * d * d;
      all += h * x * x;
    }
  }
  return all > 0 ? lost / all : 0;
}

class Search {
 public:
  Search(const fs::path& bundle, const fs::path& out, const SearchOptions& options)
      : bundle_(bundle), out_(out), options_(options), pool_(options.compress.compress.threads) {
    const size_t count = options.ids.size();
    if (count < 64)
      throw errorf("the text for the search has {} tokens", count)
          .expected("at least 64; a few thousand are good");
    // The tokens for perplexity are used for nothing else.
    const size_t last = std::min(count / 2, static_cast<size_t>(options.perplexity_tokens));
    seen_.assign(options.ids.begin(), options.ids.end() - static_cast<int64_t>(last));
    unseen_.assign(options.ids.end() - static_cast<int64_t>(last), options.ids.end());
  }

  SearchResult run() {
    SearchResult best;
    const double before = options_.perplexity(bundle_, unseen_);
    report(before, 0);
    rank();
    if (matrices_.empty()) throw errorf("there is no matrix whose bits can be chosen").at(bundle_.string());
    double low = kLeast, high = kMost;
    double price = 1;
    while (runs_ < kMostRuns) {
      const Recipe recipe = recipe_at(price);
      uint64_t bytes = 0;
      const double after = trial(recipe, bytes);
      report(after, bytes);
      const bool fits = after <= before * (1 + options_.max_loss);
      if (fits && (best.bytes == 0 || bytes < best.bytes)) best = {recipe, {}, before, after, bytes, runs_};
      (fits ? high : low) = price;
      if (!next_price(low, high, price, recipe)) break;
    }
    if (best.bytes == 0)
      throw errorf("no choice of bits stays within a loss of {:.3g}%", options_.max_loss * 100)
          .found(fmt::format("{} perplexity runs", runs_))
          .hint("allow a larger loss, add --group 16, or use --quantize int8");
    best.runs = runs_;
    best.perplexity_before = before;
    if (!options_.compress.calibration.empty()) best.calibration = seen_;
    return best;
  }

 private:
  // Far apart at first: steps of 30, then halving between what fits and what does not. False when no price in
  // reach chooses other bits than the recipe that was just tried.
  bool next_price(double low, double high, double& price, const Recipe& tried) const {
    if (low > kLeast && high < kMost) {
      price = std::sqrt(low * high);
      return !same(recipe_at(price), tried);
    }
    do price *= high == kMost ? 30 : 1.0 / 30;
    while (price > kLeast && price < kMost && same(recipe_at(price), tried));
    return price > kLeast && price < kMost;
  }

  void report(double value, uint64_t bytes) {
    ++runs_;
    if (options_.progress) options_.progress(runs_, value, bytes);
  }

  const Recipe& asked() const { return options_.compress.compress.recipe; }

  // The form that the flags ask for, with other bits.
  StorageForm form(int bits) const {
    StorageForm f;
    f.palette = asked().rules.at(0).form.palette.value_or(PaletteForm{});
    f.palette->bits = bits;
    return f;
  }

  void rank() {
    const Activations activations(bundle_, seen_, options_.compress.backend,
                                  options_.compress.calibration_tokens);
    for (const std::string& package : BundleInfo::read(bundle_).packages())
      rank_package(activations, package);
  }

  void rank_package(const Activations& activations, const std::string& package) {
    const auto opened = open_package(bundle_ / package);
    const FoundWeights found(opened->program);
    const std::string stem = fs::path(package).stem().string();
    std::map<std::string, int64_t> inputs;
    std::vector<const Weight*> weights;
    for (const FoundWeight& f : found.weights()) {
      const Weight& w = f.weight;
      if (!w.is_matrix() || w.input.empty() || asked().form_of(stem, w).keep) continue;
      inputs[w.input] = w.type.dim(1).size();
      weights.push_back(&w);
    }
    const Hessians seen = activations.collect(package, inputs, false, pool_);
    const size_t first = matrices_.size();
    matrices_.resize(first + weights.size());
    pool_.parallel_for(static_cast<int64_t>(weights.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Weight& w = *weights[static_cast<size_t>(i)];
        Matrix& m = matrices_[first + static_cast<size_t>(i)];
        m.path = stem + "/" + w.name;
        m.elements = static_cast<double>(w.type.size());
        const std::vector<float> importance = seen.at(w.input)->diagonal();
        for (size_t b = 0; b < kWidths; ++b) {
          StorageForm f = form(kBits[b]);
          f.palette->fast = true;
          m.loss[b] = loss_of(w, *encode(w, f, pool_), importance);
        }
      }
    });
  }

  // For every matrix the bits whose bytes and priced loss together are least.
  Recipe recipe_at(double price) const {
    double elements = 0;
    for (const Matrix& m : matrices_) elements += m.elements;
    Recipe r = asked();
    r.rules.clear();
    for (const Matrix& m : matrices_) {
      size_t best = 0;
      double least = std::numeric_limits<double>::infinity();
      for (size_t b = 0; b < kWidths; ++b) {
        const double cost = kBits[b] * m.elements / elements + price * m.loss[b];
        if (cost < least) least = cost, best = b;
      }
      RecipeRule rule;
      rule.match = m.path;
      rule.form = form(kBits[best]);
      r.rules.push_back(rule);
    }
    return r;
  }

  static bool same(const Recipe& a, const Recipe& b) {
    for (size_t i = 0; i < a.rules.size(); ++i)
      if (a.rules[i].form.palette->bits != b.rules[i].form.palette->bits) return false;
    return true;
  }

  double trial(const Recipe& recipe, uint64_t& bytes) const {
    const StagedOutput place(out_.string() + ".trial", true);  // never committed, so removed
    CompressBundleOptions options = options_.compress;
    options.compress.recipe = recipe;
    if (!options.calibration.empty()) options.calibration = seen_;
    options.compress.overwrite = true;
    options.compress.progress = nullptr;
    bytes = compress_bundle(bundle_, place.path(), options).bytes_after;
    return options_.perplexity(place.path(), unseen_);
  }

  fs::path bundle_, out_;
  const SearchOptions& options_;
  ThreadPool pool_;
  std::vector<int32_t> seen_, unseen_;  // the text's beginning, for activations; its end, for perplexity
  std::vector<Matrix> matrices_;
  int runs_ = 0;
};

}  // namespace

SearchResult search_bits(const fs::path& bundle, const fs::path& out, const SearchOptions& options) {
  return Search(bundle, out, options).run();
}

}  // namespace anemone
