#include "verify/weights_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "mil/stored.h"
#include "package/package.h"
#include "verify/element_bound.h"
#include "verify/expected.h"
#include "verify/package_weights.h"

namespace anemone {
namespace {

constexpr double kMostDecibels = 200;

// An element that its form does not explain.
struct Stray {
  int64_t row = -1, column = 0;
  double want = 0, have = 0, limit = 0;
};

// What was set to zero: the smallest magnitudes, so that none of them is larger than one that was kept.
class Pruned {
 public:
  void add(int64_t row, int64_t column, double want, double have) {
    const double size = std::abs(want);
    if (have != 0) {
      least_kept_ = std::min(least_kept_, size);
      return;
    }
    ++zeros_[bin(size)];
    if (size > largest_.want) largest_ = {row, column, size, 0, 0};
  }
  void add(const Pruned& other) {
    for (size_t i = 0; i < kBins; ++i) zeros_[i] += other.zeros_[i];
    least_kept_ = std::min(least_kept_, other.least_kept_);
    if (other.largest_.want > largest_.want) largest_ = other.largest_;
  }
  // Zeros that are larger than some that were kept.
  int64_t too_large() const {
    int64_t out = 0;
    for (size_t i = std::isfinite(least_kept_) ? bin(least_kept_) + 2 : kBins; i < kBins; ++i)
      out += zeros_[i];
    return out;
  }
  const Stray& largest() const { return largest_; }
  double least_kept() const { return least_kept_; }

 private:
  static constexpr size_t kBins = 512, kPerOctave = 8;
  static size_t bin(double size) {
    if (size <= 0) return 0;
    const double at = (std::log2(size) + 40) * static_cast<double>(kPerOctave);
    return static_cast<size_t>(std::clamp(at, 0.0, static_cast<double>(kBins - 1)));
  }

  std::array<int64_t, kBins> zeros_{};  // by magnitude
  double least_kept_ = INFINITY;
  Stray largest_;
};

// More strays than this part of a weight are no accident: what weighs errors by their use, or makes up for the error
// of one column in the next, does not take the nearest number.
constexpr double kFewStrays = 0.02;
// Of such a weight, the part that may be far away. Calibrated palettes of the demo model reach 0.00012 with 4 bits and
// 0.0013 with 2.
double few_far(int bits) { return bits < 4 ? 0.003 : 0.0005; }

// Elements by the entry of the palette that they are, where the whole tensor shares one.
class Entries {
 public:
  explicit Entries(size_t count = 0) : all_(count), strays_(count) {}

  void add(size_t entry, bool stray) {
    ++all_[entry];
    strays_[entry] += stray ? 1 : 0;
  }
  void add(const Entries& other) {
    all_.resize(std::max(all_.size(), other.all_.size()));
    strays_.resize(all_.size());
    for (size_t i = 0; i < other.all_.size(); ++i) {
      all_[i] += other.all_[i];
      strays_[i] += other.strays_[i];
    }
  }
  // The strays of entries that most of their elements do not fit.
  int64_t in_wrong_entries() const {
    int64_t out = 0;
    for (size_t i = 0; i < all_.size(); ++i)
      if (2 * strays_[i] > all_[i]) out += strays_[i];
    return out;
  }

 private:
  std::vector<int64_t> all_, strays_;
};

struct Sums {
  double ww = 0, ss = 0, ws = 0, ee = 0, max_abs = 0;
  int64_t count = 0, strays = 0, far = 0;  // far: also where errors of other columns are made up for
  Stray first, first_far;
  Pruned pruned;
  Entries entries;

  void add(double wanted, double stored) {
    const double e = std::abs(stored - wanted);
    ww += wanted * wanted;
    ss += stored * stored;
    ws += wanted * stored;
    ee += e * e;
    max_abs = std::max(max_abs, e);
    ++count;
  }
  void add(const Sums& other) {
    ww += other.ww;
    ss += other.ss;
    ws += other.ws;
    ee += other.ee;
    max_abs = std::max(max_abs, other.max_abs);
    count += other.count;
    if (strays == 0) first = other.first;
    if (far == 0) first_far = other.first_far;
    strays += other.strays;
    far += other.far;
    pruned.add(other.pruned);
    entries.add(other.entries);
  }
  // More strays than a few are no accident, unless they are all of some entries of a palette.
  bool few_strays() const {
    return static_cast<double>(strays - entries.in_wrong_entries()) <=
           kFewStrays * static_cast<double>(count);
  }
};

constexpr int64_t kStretch = 64;  // columns that are judged together

// What stretches of a weight lose, each as a part of what it could lose: of its own mean square, or its row's where
// that is larger.
class StretchLoss {
 public:
  StretchLoss(int64_t rows, int64_t columns)
      : per_row_((columns + kStretch - 1) / kStretch), loss_(static_cast<size_t>(rows * per_row_)) {}

  // `errors` and `squares`: sums over each stretch of the row.
  void set(int64_t row, std::span<const double> errors, std::span<const double> squares, int64_t columns) {
    const double mean = std::accumulate(squares.begin(), squares.end(), 0.0) / static_cast<double>(columns);
    for (int64_t i = 0; i < per_row_; ++i) {
      const auto at = static_cast<size_t>(i);
      const auto n = static_cast<double>(std::min(kStretch, columns - i * kStretch));
      const double size = std::max(mean, squares[at] / n);
      loss_[static_cast<size_t>(row * per_row_ + i)] =
          size > 0 ? static_cast<float>(errors[at] / n / size) : 0.0f;
    }
  }

  // A stretch that is lost, while others are not: its row and first column.
  struct Lost {
    int64_t row, column;
    double loss, median;
  };
  std::optional<Lost> worst() const {
    if (loss_.empty()) return std::nullopt;
    std::vector<float> sorted = loss_;
    const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    const auto most = std::max_element(loss_.begin(), loss_.end());
    const int64_t at = most - loss_.begin();
    return Lost{at / per_row_, at % per_row_ * kStretch, static_cast<double>(*most),
                static_cast<double>(*middle)};
  }

 private:
  int64_t per_row_;
  std::vector<float> loss_;
};

// A stretch whose error is nearly as large as itself, and far above the others'. Calibrated palettes of the demo model
// reach 0.25 with 4 bits; with 2 bits 6 and 10 times the others.
constexpr double kLostStretch = 0.7, kAboveOthers = 12;

std::string stray_text(const std::string& form, int64_t count, const Stray& first) {
  return fmt::format(
      "has {} element{} that {} does not explain, first in row {}, column {}: {:.5g} is stored, the source "
      "has {:.5g}, "
      "and {:.2g} may lie between them",
      count, count == 1 ? "" : "s", form, first.row, first.column, first.have, first.want, first.limit);
}

// How far from 1 a gain may be. `noise` is the share of a weight's squares that is noise. Integers of few bits clip
// outliers, which makes a weight smaller as a whole. Entries of a palette are means, or cells of equal width: they lose
// no more than the noise.
double gain_slack(const std::string& form, double noise) {
  if (form.starts_with("lut")) return 0.005 + 1.2 * noise;
  return (form_bits(form) < 6 ? 0.03 : 0.005) + 2 * noise;
}

void judge(WeightFigures& w, const Sums& s, const StretchLoss& loss, bool bounded) {
  w.sqnr = s.ee > 0 ? std::min(kMostDecibels, 10 * std::log10(s.ww / s.ee)) : kMostDecibels;
  w.gain = s.ss > 0 ? s.ws / s.ss : (s.ww > 0 ? 0 : 1);
  w.max_abs = s.max_abs;
  if (!std::isfinite(s.ee)) {
    w.sqnr = -kMostDecibels;
    w.problem = "holds a value that is not finite";
    return;
  }
  const double noise = s.ww > 0 && s.ss > 0 ? 1 - s.ws * s.ws / s.ww / s.ss : 0;
  const bool few = s.few_strays();
  const std::optional<StretchLoss::Lost> lost = loss.worst();
  const bool explained = (bounded && s.strays == 0) || (w.form == kPlainSparse && s.pruned.too_large() == 0);
  if (std::abs(w.gain - 1) > gain_slack(w.form, std::max(0.0, noise)))
    w.problem = fmt::format("is scaled: the values fit the source best when multiplied by {:.4g}", w.gain);
  else if (bounded && s.strays > 0 && few)
    w.problem = stray_text(w.form, s.strays, s.first);
  else if (w.sqnr < least_sqnr(w.form))
    w.problem = fmt::format("differs from its source: SQNR {:.1f} dB, at least {:.0f} expected for {}",
                            w.sqnr, least_sqnr(w.form), w.form);
  else if (bounded && static_cast<double>(s.far) > few_far(form_bits(w.form)) * static_cast<double>(s.count))
    w.problem = stray_text(w.form, s.far, s.first_far);
  else if (w.form == kPlainSparse && s.pruned.too_large() > 0 &&
           static_cast<double>(s.pruned.too_large()) <= kFewStrays * static_cast<double>(s.count))
    w.problem = fmt::format(
        "has {} zero{} where larger values stand than some that were kept, the largest in row {}, column {}: "
        "the source "
        "has {:.5g} there, and {:.5g} was kept",
        s.pruned.too_large(), s.pruned.too_large() == 1 ? "" : "s", s.pruned.largest().row,
        s.pruned.largest().column, s.pruned.largest().want, s.pruned.least_kept());
  else if (!explained && lost && lost->loss > kLostStretch && lost->loss > kAboveOthers * lost->median)
    w.problem = fmt::format(
        "is wrong in row {}, from column {} on: the error is {:.2g} of the row's own size there, and {:.2g} "
        "elsewhere",
        lost->row, lost->column, std::sqrt(lost->loss), std::sqrt(lost->median));
}

std::string tensor_name(const TensorReader& tensor, const WeightRef& ref) {
  const bool part = ref.row_begin != 0 || ref.row_end != tensor.rows();
  return part ? fmt::format("{} rows {}-{}", ref.tensor, ref.row_begin, ref.row_end - 1) : ref.tensor;
}

// One weight against its source, row by row.
class RowComparison {
 public:
  // `entries`: of a palette that all rows share.
  RowComparison(int64_t rows, int64_t columns, bool pruned = false, size_t entries = 0)
      : rows_(rows), columns_(columns), pruned_(pruned), entries_(entries), loss_(rows, columns) {}

  // `visit(begin, end, compare)` gives rows: compare(row, wanted, stored, bound).
  using Compare =
      std::function<void(int64_t, std::span<const double>, std::span<const float>, const ElementBound::Row&)>;
  void run(ThreadPool& pool, const std::function<void(int64_t, int64_t, const Compare&)>& visit) {
    constexpr int64_t kTile = 64;  // sums are added in an order that does not depend on the threads
    std::vector<Sums> tiles(static_cast<size_t>((rows_ + kTile - 1) / kTile));
    for (Sums& tile : tiles) tile.entries = Entries(entries_);
    pool.parallel_for(rows_, kTile, [&](int64_t begin, int64_t end) {
      for (int64_t first = begin; first < end; first += kTile) {
        Sums& sums = tiles[static_cast<size_t>(first / kTile)];
        visit(first, std::min(end, first + kTile),
              [&](int64_t row, std::span<const double> want, std::span<const float> have,
                  const ElementBound::Row& bound) { compare(row, want, have, bound, sums); });
      }
    });
    for (const Sums& tile : tiles) all_.add(tile);
  }

  const Sums& sums() const { return all_; }
  const StretchLoss& loss() const { return loss_; }

 private:
  void compare(int64_t row, std::span<const double> want, std::span<const float> have,
               const ElementBound::Row& bound, Sums& sums) {
    std::vector<double> errors(static_cast<size_t>((columns_ + kStretch - 1) / kStretch)),
        squares(errors.size());
    for (size_t i = 0; i < want.size(); ++i) {
      const double stored = static_cast<double>(have[i]), e = stored - want[i];
      sums.add(want[i], stored);
      if (pruned_) sums.pruned.add(row, static_cast<int64_t>(i), want[i], stored);
      errors[i / static_cast<size_t>(kStretch)] += e * e;
      squares[i / static_cast<size_t>(kStretch)] += want[i] * want[i];
      const double limit = bound.limit(static_cast<int64_t>(i), want[i], stored);
      if (entries_) sums.entries.add(bound.entry(static_cast<int64_t>(i), stored), std::abs(e) > limit);
      if (std::abs(e) <= limit) continue;
      const Stray stray{row, static_cast<int64_t>(i), want[i], stored, limit};
      if (sums.strays++ == 0) sums.first = stray;
      if (std::abs(e) > bound.limit(stray.column, want[i], stored, true) && sums.far++ == 0)
        sums.first_far = stray;
    }
    loss_.set(row, errors, squares, columns_);
  }

  int64_t rows_, columns_;
  bool pruned_;
  size_t entries_;
  StretchLoss loss_;
  Sums all_;
};

class Checker {
 public:
  Checker(const Checkpoint& checkpoint, const Model& model, const Bundle& bundle, ThreadPool& pool,
          const std::function<bool(double)>& progress)
      : checkpoint_(checkpoint), model_(model), bundle_(bundle), pool_(pool), progress_(progress) {}

  std::vector<WeightFigures> run() {
    const BundleInfo& info = bundle_.info();
    embedding();
    int64_t last = 0;
    for (const Stage& stage : info.stages) last = std::max(last, stage.last_layer);
    if (last > static_cast<int64_t>(model_.layers.size()))
      throw errorf("the bundle has more layers than the model")
          .found(fmt::format("{}", last))
          .expected(fmt::format("at most {}", model_.layers.size()));
    for (size_t i = 0; i < info.stages.size(); ++i) {
      stage(info.stages[i]);
      if (progress_ && !progress_(static_cast<double>(i + 1) / static_cast<double>(info.stages.size())))
        throw errorf("cancelled");
    }
    // Problems first, in the order of the computation.
    std::stable_sort(out_.begin(), out_.end(), [](const WeightFigures& a, const WeightFigures& b) {
      if (!a.problem.empty() || !b.problem.empty()) return !a.problem.empty() && b.problem.empty();
      return a.sqnr < b.sqnr;
    });
    return std::move(out_);
  }

 private:
  void stage(const Stage& stage) {
    const auto package = open_package(bundle_.path() / stage.package);
    const ExpectedStage expected = expected_stage(stage, model_, bundle_.info());
    std::set<std::string> done;
    for (const StageFunction& f : stage.functions) {
      const Function* function = package->program.find_function(f.name);
      if (!function)
        throw errorf("there is no function '{}'", f.name).at((bundle_.path() / stage.package).string());
      const PackageWeights weights(*function);
      compare_numbers(*function, stage.package, expected.numbers);
      for (const NamedWeight& named : expected.weights) {
        const auto found = weights.find(named.value);
        if (found && !done.insert(named.value + "@" + found->place).second) continue;
        WeightFigures w;
        w.name = named.value;
        w.package = stage.package;
        w.tensor = tensor_name(checkpoint_.tensor(named.ref.tensor), named.ref);
        compare(named, found, w);
        out_.push_back(std::move(w));
      }
    }
  }

  // Only what is there under its name: a package may have been written in another way.
  void compare_numbers(const Function& function, const std::string& package,
                       const std::vector<ExpectedStage::Number>& numbers) {
    std::map<std::string_view, const std::vector<float>*> wanted;
    for (const ExpectedStage::Number& n : numbers) wanted.emplace(n.name, &n.values);
    for (const auto& op : function.body.ops)
      for (const auto& value : op->outputs) {
        const auto want = wanted.find(value->name);
        if (want == wanted.end() || value->type.size() != static_cast<int64_t>(want->second->size()))
          continue;
        const std::vector<float> have = float_constant(value->constant());
        for (size_t i = 0; i < have.size(); ++i) {
          const double expected = static_cast<double>((*want->second)[i]),
                       found = static_cast<double>(have[i]);
          // One has the number in half, the other may not.
          if (std::abs(found - expected) <= std::abs(expected) * 0x1p-9 + 0x1p-24) continue;
          WeightFigures w;
          w.name = value->name;
          w.package = package;
          w.tensor = "a number of the model";
          w.form = dtype_name(value->type.dtype);
          w.count = static_cast<int64_t>(have.size());
          w.sqnr = -kMostDecibels;
          w.max_abs = std::abs(found - expected);
          w.problem = fmt::format("of function '{}' is {:.6g}{}, and should be {:.6g}", function.name, found,
                                  have.size() > 1 ? fmt::format(" in place {}", i) : "", expected);
          out_.push_back(std::move(w));
          break;
        }
      }
  }

  void compare(const NamedWeight& named, const std::optional<PackageWeights::Found>& found,
               WeightFigures& w) {
    w.sqnr = -kMostDecibels;
    if (!found) {
      w.problem = "is not in the package";
      return;
    }
    const StoredTensor& stored = *found->stored;
    const int64_t rows = named.ref.rows(), columns = std::max<int64_t>(1, named.ref.columns);
    w.form = found->form;
    w.count = stored.type().size();
    if (w.count != rows * columns) {
      w.problem = fmt::format("has {} elements, and its source {}", w.count, rows * columns);
      return;
    }
    const TensorReader& tensor = checkpoint_.tensor(named.ref.tensor);
    const Shape& dims = stored.type().shape;
    const bool whole_rows = !dims.empty() && dims[0].size() == rows;
    const ElementBound bound(stored, whole_rows || w.form == "fp16" ? w.form : "");
    RowComparison comparison(rows, columns, w.form == kPlainSparse, bound.shared_entries());
    comparison.run(pool_, [&](int64_t begin, int64_t end, const RowComparison::Compare& compare) {
      const auto n = static_cast<size_t>(columns);
      std::vector<float> source(static_cast<size_t>(end - begin) * n), have(source.size());
      std::vector<double> want(source.size());
      read_rows(tensor, named.ref, begin, end, source);
      stored.read(begin * columns, end * columns, have.data());
      for (size_t i = 0; i < want.size(); ++i)
        want[i] = (static_cast<double>(source[i]) + named.offset) * named.factor;
      for (int64_t r = begin; r < end; ++r) {
        const size_t at = static_cast<size_t>(r - begin) * n;
        compare(r, std::span(want).subspan(at, n), std::span(have).subspan(at, n), bound.row(r));
      }
      release_rows(tensor, named.ref, begin, end);
    });
    judge(w, comparison.sums(), comparison.loss(), bound.known());
    if (w.problem.empty() && found->zeros > w.count / 1000)
      w.problem = fmt::format("has {} zeros among the values that were kept", found->zeros);
  }

  void embedding() {
    const BundleInfo& info = bundle_.info();
    if (info.vocab != model_.vocab || info.hidden != model_.hidden)
      throw errorf("the bundle was made from another model")
          .at(bundle_.path().string())
          .found(fmt::format("vocabulary {}, hidden {}", info.vocab, info.hidden))
          .expected(fmt::format("vocabulary {}, hidden {}", model_.vocab, model_.hidden));
    const Embedding& e = model_.embedding;
    const EmbeddingReader& reader = bundle_.embedding();
    table("embedding", info.tokens, e.tokens, e.scale * info.residual_scale,
          [&](int64_t row, std::span<float> out) { reader.read_token(row, out); });
    if (e.positions)
      table("positions", info.positions, e.positions, info.residual_scale,
            [&](int64_t row, std::span<float> out) { reader.read_position(row, out); });
    if (e.types)
      table("types", info.types, e.types, info.residual_scale,
            [&](int64_t row, std::span<float> out) { reader.read_type(row, out); });
  }

  // A table that the host reads, row by row.
  void table(const char* name, const EmbeddingTable& stored, const WeightRef& ref, double factor,
             const std::function<void(int64_t, std::span<float>)>& read) {
    const TensorReader& tensor = checkpoint_.tensor(ref.tensor);
    WeightFigures w;
    w.name = name;
    w.package = stored.file;
    w.form = stored.dtype;
    w.tensor = tensor_name(tensor, ref);
    w.count = ref.rows() * ref.columns;
    const ElementBound bound = ElementBound::of_table(stored.dtype == "int8");
    RowComparison comparison(ref.rows(), ref.columns);
    comparison.run(pool_, [&](int64_t begin, int64_t end, const RowComparison::Compare& compare) {
      const auto n = static_cast<size_t>(ref.columns);
      std::vector<float> source(static_cast<size_t>(end - begin) * n), have(n);
      std::vector<double> want(n);
      read_rows(tensor, ref, begin, end, source);
      for (int64_t r = begin; r < end; ++r) {
        double largest = 0;
        for (size_t i = 0; i < n; ++i) {
          want[i] = static_cast<double>(source[static_cast<size_t>(r - begin) * n + i]) * factor;
          largest = std::max(largest, std::abs(want[i]));
        }
        read(r, have);
        compare(r, want, have, bound.table_row(largest));
      }
    });
    judge(w, comparison.sums(), comparison.loss(), true);
    out_.push_back(std::move(w));
  }

  const Checkpoint& checkpoint_;
  const Model& model_;
  const Bundle& bundle_;
  ThreadPool& pool_;
  const std::function<bool(double)>& progress_;
  std::vector<WeightFigures> out_;
};

}  // namespace

double least_sqnr(const std::string& form) {
  const int bits = form_bits(form);
  if (bits >= 16) return 40;
  if (bits >= 8) return 20;
  if (bits >= 6) return 12;
  if (bits >= 4) return 6;
  return bits >= 3 ? 3 : -1;
}

std::vector<WeightFigures> check_weights(const Checkpoint& checkpoint, const Model& model,
                                         const Bundle& bundle, ThreadPool& pool,
                                         const std::function<bool(double)>& progress) {
  return Checker(checkpoint, model, bundle, pool, progress).run();
}

}  // namespace anemone
