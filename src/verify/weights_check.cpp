#include "verify/weights_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "lower/functions.h"
#include "lower/weights.h"
#include "mil/stored.h"
#include "package/package.h"
#include "verify/package_weights.h"

namespace anemone {
namespace {

constexpr double kMostDecibels = 200;

// A number of the graph that is the model's: an epsilon, a scale, a cap.
struct Number {
  std::string name;
  double value;
};

// The value of a constant that is one floating-point number.
std::optional<double> single_number(const Constant* c) {
  if (!c || c->type.size() != 1 || (c->type.dtype != DType::fp16 && c->type.dtype != DType::fp32))
    return std::nullopt;
  return decode_floats(*stored_constant(*c)).at(0);
}

struct Expected {
  std::vector<NamedWeight> weights;
  std::vector<Number> numbers;
};

// What the lowering makes of the stage's part of the model: the names of its weights, and its numbers.
Expected expected_of(const Stage& stage, const Model& model, const BundleInfo& info) {
  int64_t first = info.stages.front().first_layer, last = 0;
  for (const Stage& other : info.stages) last = std::max(last, other.last_layer);
  lower::HollowWeights hollow;
  Program scratch;
  Expected out;
  const auto add = [&](const FunctionInterface& interface) {
    out.weights.insert(out.weights.end(), interface.weights.begin(), interface.weights.end());
  };
  if (stage.has_layers()) {
    lower::LayersSpec spec;
    spec.first = static_cast<size_t>(stage.first_layer);
    spec.last = static_cast<size_t>(stage.last_layer);
    spec.context = stage.functions.at(0).context;
    spec.residual_scale = info.residual_scale;
    spec.first_stage = stage.first_layer == first;
    spec.last_stage = stage.last_layer == last;
    add(lower::build_layers(scratch, "layers", model, hollow, spec));
  }
  if (stage.has_head() && model.generates()) {
    lower::HeadSpec spec;
    spec.first_row = model.vocab;
    for (const Port& port : stage.functions.at(0).interface.outputs) {
      if (port.role.last <= port.role.first) continue;
      if (port.role.first < spec.first_row) spec.piece_rows = port.role.last - port.role.first;
      spec.first_row = std::min(spec.first_row, port.role.first);
      spec.last_row = std::max(spec.last_row, port.role.last);
    }
    add(lower::build_head(scratch, "head", model, hollow, spec));
  }
  std::set<std::string> sources;
  for (const NamedWeight& w : out.weights) sources.insert(w.value);
  for (const auto& f : scratch.functions)
    for (const auto& op : f->body.ops)
      for (const auto& value : op->outputs) {
        if (sources.contains(value->name)) continue;
        if (const auto number = single_number(value->constant()))
          out.numbers.push_back({value->name, *number});
      }
  return out;
}

struct Sums {
  double ww = 0, ss = 0, ws = 0, ee = 0, max_abs = 0;
  bool rounded = true;  // every element is as near as half can be

  void add(double wanted, double stored, bool half) {
    const double e = std::abs(stored - wanted);
    ww += wanted * wanted;
    ss += stored * stored;
    ws += wanted * stored;
    ee += e * e;
    max_abs = std::max(max_abs, e);
    // Half an ulp of half, and the smallest number below its range; a margin for factors applied in fp32.
    if (half && !(e <= std::abs(wanted) * 0x1.01p-11 + 0x1p-24)) rounded = false;
  }
};

void judge(WeightFigures& w, const Sums& s) {
  w.sqnr = s.ee > 0 ? std::min(kMostDecibels, 10 * std::log10(s.ww / s.ee)) : kMostDecibels;
  w.gain = s.ss > 0 ? s.ws / s.ss : (s.ww > 0 ? 0 : 1);
  w.max_abs = s.max_abs;
  if (!std::isfinite(s.ee)) {
    w.sqnr = -kMostDecibels;
    w.problem = "a stored value is not finite";
    return;
  }
  const double noise = s.ww > 0 && s.ss > 0 ? 1 - s.ws * s.ws / s.ww / s.ss : 0;
  if (std::abs(w.gain - 1) > 0.005 + 2 * std::max(0.0, noise))
    w.problem = fmt::format("is scaled: the values fit the source best when multiplied by {:.4g}", w.gain);
  else if (w.sqnr < least_sqnr(w.form))
    w.problem = fmt::format("differs from its source: SQNR {:.1f} dB, at least {:.0f} expected for {}",
                            w.sqnr, least_sqnr(w.form), w.form);
  else if (!s.rounded)
    w.problem = fmt::format("has an element that is not its source's, rounded: off by {:.3g}", w.max_abs);
}

std::string tensor_name(const TensorReader& tensor, const WeightRef& ref) {
  const bool part = ref.row_begin != 0 || ref.row_end != tensor.rows();
  return part ? fmt::format("{} rows {}-{}", ref.tensor, ref.row_begin, ref.row_end - 1) : ref.tensor;
}

// Sums over rows, in an order that does not depend on the threads.
Sums over_rows(int64_t rows, ThreadPool& pool, const std::function<void(int64_t, int64_t, Sums&)>& body) {
  constexpr int64_t kTile = 64;
  std::vector<Sums> tiles(static_cast<size_t>((rows + kTile - 1) / kTile));
  pool.parallel_for(rows, kTile, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kTile)
      body(first, std::min(end, first + kTile), tiles[static_cast<size_t>(first / kTile)]);
  });
  Sums out;
  for (const Sums& t : tiles) {
    out.ww += t.ww;
    out.ss += t.ss;
    out.ws += t.ws;
    out.ee += t.ee;
    out.max_abs = std::max(out.max_abs, t.max_abs);
    out.rounded = out.rounded && t.rounded;
  }
  return out;
}

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
    std::stable_sort(out_.begin(), out_.end(), [](const WeightFigures& a, const WeightFigures& b) {
      return a.problem.empty() != b.problem.empty() ? b.problem.empty() : a.sqnr < b.sqnr;
    });
    return std::move(out_);
  }

 private:
  void stage(const Stage& stage) {
    const auto package = open_package(bundle_.path() / stage.package);
    const Expected expected = expected_of(stage, model_, bundle_.info());
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
                       const std::vector<Number>& numbers) {
    std::map<std::string_view, double> wanted;
    for (const Number& n : numbers) wanted.emplace(n.name, n.value);
    for (const auto& op : function.body.ops)
      for (const auto& value : op->outputs) {
        const auto want = wanted.find(value->name);
        if (want == wanted.end()) continue;
        const auto have = single_number(value->constant());
        // One has the number in half, the other may not.
        if (!have || std::abs(*have - want->second) <= std::abs(want->second) * 0x1p-9 + 0x1p-24) continue;
        WeightFigures w;
        w.name = value->name;
        w.package = package;
        w.tensor = "a number of the model";
        w.form = dtype_name(value->type.dtype);
        w.count = 1;
        w.sqnr = -kMostDecibels;
        w.max_abs = std::abs(*have - want->second);
        w.problem = fmt::format("of function '{}' is {:.6g}, and should be {:.6g}", function.name, *have,
                                want->second);
        out_.push_back(std::move(w));
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
    const bool half = w.form == "fp16";
    judge(w, over_rows(rows, pool_, [&](int64_t begin, int64_t end, Sums& sums) {
            std::vector<float> want(static_cast<size_t>((end - begin) * columns)), have(want.size());
            read_rows(tensor, named.ref, begin, end, want);
            stored.read(begin * columns, end * columns, have.data());
            for (size_t i = 0; i < want.size(); ++i)
              sums.add((static_cast<double>(want[i]) + named.offset) * named.factor, have[i], half);
            release_rows(tensor, named.ref, begin, end);
          }));
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
    judge(w, over_rows(ref.rows(), pool_, [&](int64_t begin, int64_t end, Sums& sums) {
            std::vector<float> want(static_cast<size_t>((end - begin) * ref.columns));
            std::vector<float> have(static_cast<size_t>(ref.columns));
            read_rows(tensor, ref, begin, end, want);
            for (int64_t r = begin; r < end; ++r) {
              read(r, have);
              for (int64_t c = 0; c < ref.columns; ++c)
                sums.add(
                    static_cast<double>(want[static_cast<size_t>((r - begin) * ref.columns + c)]) * factor,
                    have[static_cast<size_t>(c)], false);
            }
          }));
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
  if (bits >= 6) return 15;
  if (bits >= 4) return 8;
  return bits >= 3 ? 5 : 2;
}

std::vector<WeightFigures> check_weights(const Checkpoint& checkpoint, const Model& model,
                                         const Bundle& bundle, ThreadPool& pool,
                                         const std::function<bool(double)>& progress) {
  return Checker(checkpoint, model, bundle, pool, progress).run();
}

}  // namespace anemone
