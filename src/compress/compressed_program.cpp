#include "compress/compressed_program.h"

#include <algorithm>

#include "base/error.h"
#include "base/thread_pool.h"
#include "compress/advice.h"
#include "compress/measure.h"

namespace anemone {
namespace {

void warn(CompressReport& report, const Advice& advice) {
  for (auto& w : report.warnings)
    if (w.rule == advice.rule) {
      ++w.weights;
      return;
    }
  report.warnings.push_back({advice.rule, advice.text, 1});
}

CompressReport::Row row_of(const FoundWeight& before, const FoundWeight& after, const Encoded& encoded,
                           const Measured& measured) {
  const auto count = static_cast<double>(before.weight.type.size());
  CompressReport::Row row;
  row.weight = before.weight.name;
  row.dims = before.weight.dims();
  row.form = encoded.form.text();
  row.bytes_before = before.weight.stored_bytes;
  row.bytes_after = after.weight.stored_bytes;
  row.bits = 8 * static_cast<double>(row.bytes_after) / count;
  row.sqnr_db = decibels(measured.signal, measured.noise);
  row.sparsity = static_cast<double>(measured.zeros) / count;
  row.functions = before.uses.size();
  row.calibrated = encoded.calibrated;
  return row;
}

// Values are rounded one by one, so activations can decide the direction.
bool rounds_values(const StorageForm& form) {
  return form.integers || (form.palette && form.palette->vector == 1);
}

}  // namespace

CompressedProgram::CompressedProgram(const Program& program, std::string package, const Recipe& recipe,
                                     ThreadPool& pool, const Statistics& statistics,
                                     const CompressProgress& progress)
    : program_(program),
      package_(std::move(package)),
      recipe_(recipe),
      pool_(pool),
      found_((prepare_sources(program, pool), program)) {
  check_opsets();
  choose();
  std::vector<size_t> plain;
  const std::vector<std::vector<size_t>> calibrated = calibrated_parts(plain, statistics != nullptr);
  encode_some(plain, nullptr, progress);
  for (const std::vector<size_t>& part : calibrated) encode_calibrated(part, statistics, progress);
  for (const Chosen& c : chosen_) {
    if (!c.encoded) continue;
    const auto sources = std::make_shared<Sources>(c.encoded);
    for (const FoundUse& use : c.found->uses) replacements_[{use.function, use.value}] = sources;
  }
}

void CompressedProgram::show(PatternUse& patterns) const {
  for (const FoundWeight& w : found_.weights()) patterns.see(package_, w.weight);
}

void CompressedProgram::check_opsets() const {
  Opset oldest = Opset::ios26;
  for (const auto& function : program_.functions) oldest = std::min(oldest, function->opset);
  for (const FoundWeight& w : found_.weights()) check_opset(recipe_.form_of(package_, w.weight), oldest);
}

void CompressedProgram::choose() {
  for (const FoundWeight& w : found_.weights()) {
    const StorageForm& form = recipe_.form_of(package_, w.weight);
    if (form.keep || (form.dense && w.weight.plain))
      ++untouched_;
    else
      chosen_.push_back({&w, &form, nullptr});
    const bool loses = form.integers || (form.palette && form.palette->mode != PaletteForm::Mode::unique);
    again_ += loses && !form.keep && !w.weight.plain && !w.weight.sparse;
  }
}

// Weights that can be calibrated, in parts whose statistics fit in memory together; the others in `plain`.
std::vector<std::vector<size_t>> CompressedProgram::calibrated_parts(std::vector<size_t>& plain,
                                                                     bool statistics) const {
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  std::map<std::string, std::vector<size_t>> by_input;
  for (size_t i = 0; i < chosen_.size(); ++i) {
    const Weight& w = chosen_[i].found->weight;
    if (statistics && rounds_values(*chosen_[i].form) && w.is_matrix() && !w.input.empty())
      by_input[w.input].push_back(i);
    else
      plain.push_back(i);
  }
  std::vector<std::vector<size_t>> out;
  int64_t bytes = kMostBytes;
  for (const auto& [input, members] : by_input) {
    const int64_t channels = chosen_[members[0]].found->weight.type.dim(1).size(),
                  more = channels * channels * 4;
    if (bytes + more > kMostBytes) out.emplace_back(), bytes = 0;
    bytes += more;
    out.back().insert(out.back().end(), members.begin(), members.end());
  }
  return out;
}

void CompressedProgram::encode_calibrated(const std::vector<size_t>& part, const Statistics& statistics,
                                          const CompressProgress& progress) {
  std::map<std::string, int64_t> inputs;
  for (const size_t i : part) {
    const Weight& w = chosen_[i].found->weight;
    inputs[w.input] = w.type.dim(1).size();
  }
  const Hessians hessians = statistics(inputs);
  std::vector<Hessian*> all;
  for (const auto& [name, hessian] : hessians) all.push_back(hessian.get());
  pool_.parallel_for(static_cast<int64_t>(all.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) all[static_cast<size_t>(i)]->factor();
  });
  encode_some(part, &hessians, progress);
  judged_ += static_cast<int64_t>(part.size());
}

// Many weights: one to a core. Few: all cores on each.
void CompressedProgram::encode_some(const std::vector<size_t>& members, const Hessians* hessians,
                                    const CompressProgress& progress) {
  const auto one = [&](int64_t i) { encode_one(chosen_[members[static_cast<size_t>(i)]], hessians); };
  const auto count = static_cast<int64_t>(members.size());
  const int64_t batch = 2 * pool_.threads();
  for (int64_t at = 0; at < count; at += batch) {
    const int64_t n = std::min(batch, count - at);
    if (n < pool_.threads())
      for (int64_t i = at; i < at + n; ++i) one(i);
    else
      pool_.parallel_for(n, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = at + begin; i < at + end; ++i) one(i);
      });
    done_ += n;
    if (progress && !progress(done_, static_cast<int64_t>(chosen_.size()), package_))
      throw errorf("cancelled");
  }
}

void CompressedProgram::encode_one(Chosen& chosen, const Hessians* hessians) {
  const Weight& w = chosen.found->weight;
  try {
    chosen.encoded = encode(w, *chosen.form, pool_, hessians ? hessians->at(w.input).get() : nullptr);
  } catch (Error& e) {
    if (e.message().find(w.name) == std::string::npos) e.within(fmt::format("weight '{}'", w.name));
    throw;
  }
}

void CompressedProgram::report(const std::filesystem::path& written, CompressReport& report) const {
  report.untouched += untouched_;
  report.again += again_;
  report.judged += judged_;
  const Package package = read_package(written);
  const FoundWeights after(package.program);
  for (const Chosen& c : chosen_) {
    const Weight& w = c.found->weight;
    if (!c.encoded) {
      report.kept.push_back(fmt::format("{}/{} has more than {} different values", package_, w.name,
                                        1 << c.form->palette->bits));
      continue;
    }
    const FoundUse& use = c.found->uses[0];
    const FoundWeight* now = after.find(use.function, use.value);
    if (!now)
      throw errorf("the weight '{}' is not in the package that was written", use.value).at(written.string());
    const Measured m = measure(w, now->weight, pool_);
    report.rows.push_back(row_of(*c.found, *now, *c.encoded, m));
    report.rows.back().package = package_;
    report.signal += m.signal;
    report.noise += m.noise;
    for (const Advice& a : advice_for(c.encoded->form, w)) warn(report, a);
  }
}

Package compressed_package(const Package& original, const CompressedProgram& compressed,
                           const Recipe& recipe) {
  Package out;
  out.path = original.path;
  out.spec_version = original.spec_version;
  out.description = original.description;
  out.items = original.items;
  out.extra = original.extra;
  out.program = compressed.rewritten();
  if (out.description.metadata) out.description.metadata->user[kCompressNote] = recipe.text();
  return out;
}

}  // namespace anemone
