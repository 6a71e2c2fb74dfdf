#include "verify/weights_check.h"

#include <algorithm>
#include <atomic>
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
#include "verify/weight_sums.h"

namespace anemone {
namespace {

constexpr double kMostDecibels = 200;
constexpr const char* kUnknownForm = "";

std::string tensor_name(const TensorReader& tensor, const WeightRef& ref) {
  const bool part = ref.row_begin != 0 || ref.row_end != tensor.rows();
  return part ? fmt::format("{} rows {}-{}", ref.tensor, ref.row_begin, ref.row_end - 1) : ref.tensor;
}

// One weight against its source, row by row.
class RowComparison {
 public:
  // `bound`: of a weight with scales or palettes.
  RowComparison(int64_t rows, int64_t columns, bool pruned = false, const ElementBound* bound = nullptr)
      : rows_(rows),
        columns_(columns),
        pruned_(pruned),
        bound_(bound),
        entries_(bound ? bound->entry_slots() : 0),
        largest_(bound ? bound->scales() : 0),
        loss_(rows, columns) {}

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

  // A scale that is coarser than the source's numbers ask for explains any error; or nothing.
  std::string coarse_problem() const {
    for (size_t i = 0; i < largest_.size(); ++i) {
      const double largest = static_cast<double>(largest_[i].load()), most = bound_->coarsest_step(largest);
      if (largest == 0 || bound_->step(i) <= most) continue;
      return fmt::format(
          "has a scale of {:.4g} for row {}, column {}, and the largest value there, {:.4g}, asks for {:.4g} "
          "at most",
          bound_->step(i), bound_->first_row(i), bound_->first_column(i), largest, most);
    }
    return "";
  }

 private:
  void take_largest(int64_t row, std::span<const double> want) {
    for (size_t i = 0; i < want.size();) {
      const size_t scale = bound_->scale_of(row, static_cast<int64_t>(i));
      float largest = 0;
      const size_t end = std::min(want.size(), i + static_cast<size_t>(bound_->columns_of_scale()));
      for (; i < end; ++i) largest = std::max(largest, static_cast<float>(std::abs(want[i])));
      std::atomic<float>& known = largest_[scale];
      for (float seen = known.load(); seen < largest && !known.compare_exchange_weak(seen, largest);) {
      }
    }
  }

  void compare(int64_t row, std::span<const double> want, std::span<const float> have,
               const ElementBound::Row& bound, Sums& sums) {
    std::vector<double> errors(static_cast<size_t>((columns_ + kStretch - 1) / kStretch)),
        squares(errors.size());
    if (!largest_.empty()) take_largest(row, want);
    double ws = 0, ss = 0, largest = 0;
    const int64_t strays = sums.strays;
    for (size_t i = 0; i < want.size(); ++i) {
      const double stored = static_cast<double>(have[i]), e = stored - want[i];
      sums.add(want[i], stored);
      ws += want[i] * stored;
      ss += stored * stored;
      largest = std::max(largest, std::abs(want[i]));
      if (const double step = bound.step(static_cast<int64_t>(i), want[i], stored); step > 0) {
        sums.steps += step * step;
        sums.step_errors += e * e;
      }
      if (pruned_) sums.pruned.add(row, static_cast<int64_t>(i), want[i], stored);
      errors[i / static_cast<size_t>(kStretch)] += e * e;
      squares[i / static_cast<size_t>(kStretch)] += want[i] * want[i];
      const double limit = bound.limit(static_cast<int64_t>(i), want[i], stored);
      if (entries_)
        sums.entries.add(bound_->first_slot(row) + bound.entry(static_cast<int64_t>(i), stored),
                         std::abs(e) > limit);
      if (std::abs(e) <= limit) continue;
      const Stray stray{row, static_cast<int64_t>(i), want[i], stored, limit};
      if (sums.strays++ == 0) sums.first = stray;
      if (std::abs(e) > bound.limit(stray.column, want[i], stored, true) && sums.far++ == 0)
        sums.first_far = stray;
    }
    loss_.set(row, errors, squares, columns_);
    if (sums.strays > strays && ss > 0 && columns_ >= kStretch && std::abs(ws / ss - 1) > kRowGain &&
        sums.scaled_row.row < 0)
      sums.scaled_row = {row, 0, ws, ss, 0};
    if (bound_ && bound_->palette_entries())
      sums.palettes[bound_->palette_of(row)].add({std::accumulate(errors.begin(), errors.end(), 0.0),
                                                  std::accumulate(squares.begin(), squares.end(), 0.0),
                                                  largest, columns_});
  }

  int64_t rows_, columns_;
  bool pruned_;
  const ElementBound* bound_;
  size_t entries_;
  std::vector<std::atomic<float>> largest_;  // magnitudes of the source, by scale
  StretchLoss loss_;
  Sums all_;
};

class Checker {
 public:
  Checker(const Checkpoint& checkpoint, const Model& model, const Bundle& bundle, ThreadPool& pool,
          const std::function<bool(double)>& progress)
      : checkpoint_(checkpoint), model_(model), bundle_(bundle), pool_(pool), progress_(progress) {}

  std::vector<WeightFigures> run() {
    const BundleInfo& info = bundle_.all();
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
    ExpectedStage expected;
    std::set<std::string> done;
    for (const StageFunction& f : stage.functions) {
      const Function* function = package->program.find_function(f.name);
      if (!function)
        throw errorf("there is no function '{}'", f.name).at((bundle_.path() / stage.package).string());
      if (&f == &stage.functions.front() || stage.kind == StageKind::experts)
        expected = expected_stage(stage, f, model_, bundle_.info());
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
        if (!w.problem.empty()) w.other = other_expert(checkpoint_, model_, named, weights);
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
    // A vector may be stored as one row: [1, C, 1, 1].
    if (columns == 1 && !dims.empty() && dims[0].size() == 1 && rows > 1)
      return compare_as_row(named, *found, w);
    const bool whole_rows = !dims.empty() && dims[0].size() == rows;
    const ElementBound bound(stored, whole_rows || w.form == "fp16" ? w.form : kUnknownForm);
    RowComparison comparison(rows, columns, w.form.ends_with(kPlainSparse), &bound);
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
    judge(w, comparison.sums(), comparison.loss(), {&bound, bound.known(), comparison.coarse_problem()});
    if (w.problem.empty() && found->zeros > w.count / 1000)
      w.problem = fmt::format("has {} zeros among the values that were kept", found->zeros);
  }

  void compare_as_row(const NamedWeight& named, const PackageWeights::Found& found, WeightFigures& w) {
    const int64_t count = named.ref.rows();
    const auto n = static_cast<size_t>(count);
    std::vector<float> source(n), have(n);
    std::vector<double> want(n);
    read_rows(checkpoint_.tensor(named.ref.tensor), named.ref, 0, count, source);
    found.stored->read(0, count, have.data());
    for (size_t i = 0; i < n; ++i) want[i] = (static_cast<double>(source[i]) + named.offset) * named.factor;
    const ElementBound bound(*found.stored, w.form);
    RowComparison comparison(1, count, w.form.ends_with(kPlainSparse), &bound);
    comparison.run(pool_, [&](int64_t, int64_t, const RowComparison::Compare& compare) {
      compare(0, want, have, bound.row(0));
    });
    judge(w, comparison.sums(), comparison.loss(), {&bound, bound.known(), comparison.coarse_problem()});
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
    judge(w, comparison.sums(), comparison.loss(), {});
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

std::string worst_text(const std::vector<WeightFigures>& weights) {
  const WeightFigures& w = weights.front();
  std::string whose;
  if (const auto& o = w.other) {
    const bool swapped = std::ranges::any_of(weights, [&](const WeightFigures& x) {
      return x.other == OtherExpert{o->layer, o->holds, o->expert};
    });
    whose = swapped ? fmt::format("layer {}: experts {} and {} are swapped: ", o->layer,
                                  std::min(o->expert, o->holds), std::max(o->expert, o->holds))
                    : fmt::format("layer {}: expert {} has the weights of expert {}: ", o->layer, o->expert,
                                  o->holds);
  }
  return fmt::format("{}{} ({}) in {} {}", whose, w.name, w.tensor, w.package, w.problem);
}

std::vector<WeightFigures> check_weights(const Checkpoint& checkpoint, const Model& model,
                                         const Bundle& bundle, ThreadPool& pool,
                                         const std::function<bool(double)>& progress) {
  return Checker(checkpoint, model, bundle, pool, progress).run();
}

}  // namespace anemone
