#include "measure/bench.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "base/error.h"
#include "bundle/files.h"
#include "measure/samples.h"
#include "predict/arithmetic.h"
#include "runtime/session.h"

namespace anemone {
namespace {

// Loads every function; the milliseconds that it took.
double load_ms(const Bundle& bundle) {
  const auto begin = MeasureClock::now();
  bundle.load_all();
  return ms_since(begin);
}

// The time since the last event of the pass goes to the stage that has just run.
struct StageClock {
  MeasureClock::time_point last = MeasureClock::now();
  std::vector<double> ms;  // of this token, by stage

  void start() {
    last = MeasureClock::now();
    std::ranges::fill(ms, 0);
  }
  void saw(size_t stage) {
    if (stage < ms.size()) ms[stage] += ms_since(last);
    last = MeasureClock::now();
  }
};

std::vector<int64_t> usual_fills(int64_t context, int64_t tokens) {
  const int64_t most = std::max<int64_t>(context - tokens - 1, 1);
  std::vector<int64_t> out;
  for (const int64_t fill : {int64_t{16}, context / 4, context / 2, most}) {
    const int64_t one = std::clamp<int64_t>(fill, 1, most);
    if (std::ranges::count(out, one) == 0) out.push_back(one);
  }
  std::ranges::sort(out);
  return out;
}

BenchRow measure(const std::shared_ptr<const Bundle>& bundle, int64_t fill, int64_t tokens,
                 StageClock& stages) {
  BenchRow row;
  row.fill = fill;
  Session session(bundle);
  auto begin = MeasureClock::now();
  int64_t next = session.forward_best(some_ids(fill, bundle->info().vocab));
  row.first_token_s = ms_since(begin) / 1000;
  row.prefill_tokens_per_s = static_cast<double>(fill) / row.first_token_s;
  stages.ms.assign(bundle->info().stages.size(), 0);
  std::vector<double> times;
  std::vector<std::vector<double>> of_stage(stages.ms.size());
  for (int64_t i = 0; i < tokens; ++i) {
    const auto id = static_cast<int32_t>(next);
    begin = MeasureClock::now();
    stages.start();
    next = session.forward_best({&id, 1});
    times.push_back(ms_since(begin));
    for (size_t s = 0; s < of_stage.size(); ++s) of_stage[s].push_back(stages.ms[s]);
  }
  row.decode_ms = median(std::move(times));
  for (std::vector<double>& one : of_stage) row.stage_ms.push_back(median(std::move(one)));
  return row;
}

// What all cores read together from memory that no cache holds, in GB/s: the best of three.
double read_rate() {
  const std::vector<uint64_t> memory(size_t{1} << 25, 1);  // 256 MB
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  double best = 0;
  uint64_t sink = 0;
  for (int i = 0; i < 3; ++i) {
    std::vector<uint64_t> sums(cores);
    std::vector<std::thread> threads;
    const auto begin = MeasureClock::now();
    for (unsigned c = 0; c < cores; ++c)
      threads.emplace_back([&, c] {
        const size_t part = memory.size() / cores;
        sums[c] = std::accumulate(memory.begin() + static_cast<std::ptrdiff_t>(c * part),
                                  memory.begin() + static_cast<std::ptrdiff_t>((c + 1) * part), uint64_t{0});
      });
    for (std::thread& t : threads) t.join();
    best = std::max(best, static_cast<double>(memory.size()) * 8 / ms_since(begin) / 1e6);
    sink += std::accumulate(sums.begin(), sums.end(), uint64_t{0});
  }
  return sink > 0 ? best : 0;
}

}  // namespace

namespace {

// How many functions of a stage of experts one token calls on average, where every choice is as likely as any other;
// and of how many.
std::pair<double, double> calls_of_experts(const Stage& stage, const ExpertRule& rule) {
  std::set<std::pair<int64_t, int64_t>> groups;
  for (const StageFunction& f : stage.functions)
    if (const Port* shares = f.find_input(Role::Kind::shares))
      groups.insert({shares->role.first, shares->role.last});
  double used = 0;
  const auto choices = static_cast<double>(rule.choices());
  for (const auto& [first, last] : groups) {
    double none = 1;
    for (int64_t k = 0; k < rule.used; ++k)
      none *=
          std::max(0.0, choices - static_cast<double>(last - first + k)) / (choices - static_cast<double>(k));
    used += 1 - none;
  }
  return {used, static_cast<double>(groups.size())};
}

}  // namespace

TokenWork token_work(const BundleInfo& info, const std::filesystem::path& path) {
  TokenWork work;
  const ExpertRule* rule = nullptr;
  for (const Stage& stage : info.stages) {
    if (stage.rule) rule = &*stage.rule;
    const auto [calls, of] =
        stage.kind == StageKind::experts && rule ? calls_of_experts(stage, *rule) : std::pair(1.0, 1.0);
    work.calls += calls;
    for (const BundleFile& f : info.files)
      if (f.path.starts_with(stage.package + "/") && f.path.ends_with("weight.bin"))
        work.weight_bytes += static_cast<double>(f.bytes) * calls / of;
  }
  work.hidden = static_cast<double>(info.hidden);
  const int64_t longest = info.tiers().back();
  for (const Stage& stage : info.stages) {
    const auto all = signatures(*open_package(find_inside(path, stage.package)));
    for (const StageFunction& f : stage.functions) {
      if (!stage.has_layers() || f.context != longest || f.least_tokens != 1) continue;
      if (f.find_input(Role::Kind::position)) work.kv_factor = 1;
      for (const Signature& s : all)
        if (s.function == f.name)
          for (const TensorInfo& state : s.states) {
            double elements = 1;
            for (const int64_t d : state.shape) elements *= static_cast<double>(d);
            work.kv_bytes += elements * dtype_bits(state.dtype) / 8;
          }
      break;
    }
  }
  return work;
}

BenchReport bench(const std::filesystem::path& path,
                  const std::function<std::shared_ptr<const Backend>()>& make, const BenchOptions& options) {
  expect_kind(BundleInfo::read(path), path, {BundleKind::generate});
  const int64_t context = BundleInfo::read(path).tiers().back();
  if (options.tokens < 1 || options.tokens >= context)
    throw errorf("so many tokens cannot be written")
        .found(fmt::format("{}", options.tokens))
        .expected(fmt::format("1 to {}", context - 1));
  const auto tell = [&](const std::string& what) {
    if (options.progress && !options.progress(what)) throw Cancelled();
  };
  BenchReport out;
  tell("first load");
  out.first_load_s = load_ms(*Bundle::open(path, make())) / 1000;
  tell("second load");
  StageClock stages;
  BundleWatch watch;
  watch.seen = [&](size_t stage, const std::string&, const Call&, int64_t) { stages.saw(stage); };
  const auto bundle = Bundle::open(path, make(), watch);
  out.second_load_s = load_ms(*bundle) / 1000;
  out.backend = bundle->backend().name();
  out.arithmetic = arithmetic_name(bundle->backend().arithmetic());
  const BundleInfo& info = bundle->info();
  out.model = info.name.empty() ? info.family : info.name;
  if (!info.variants.empty()) out.variant = info.variants.front().name;
  for (const Stage& stage : info.stages) out.stages.push_back(stage.package);
  const TokenWork work = token_work(info, path);
  out.weight_bytes = static_cast<uint64_t>(work.weight_bytes);
  double predicted = 0;
  if (!options.chip.empty()) {
    const Target target = find_target(options.chip);
    out.chip = target.chip->name;
    predicted = token_cost(work, *target.chip, calibration().constants).total_ms();
  }
  for (const int64_t fill : options.fills.empty() ? usual_fills(context, options.tokens) : options.fills) {
    if (fill < 1) throw errorf("at least one token is in the context before others are written");
    if (fill + options.tokens > context)
      throw errorf("a context of {} has no room for {} tokens behind {}", context, options.tokens, fill);
    tell(fmt::format("{} of {} positions", fill, context));
    measure(bundle, std::min<int64_t>(fill, 16), 2, stages);  // what is slow the first time
    BenchRow row = measure(bundle, fill, options.tokens, stages);
    row.predicted_ms = predicted;
    out.rows.push_back(std::move(row));
  }
  if (out.backend == "cpu") out.read_gbps = read_rate();
  out.remarks = bundle->backend().remarks();
  return out;
}

}  // namespace anemone
