#include "compress/compress.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "anemone/package.h"
#include "base/error.h"
#include "base/staged.h"
#include "base/thread_pool.h"
#include "bundle/bundle_info.h"
#include "bundle/writer.h"
#include "compress/calibration.h"
#include "compress/find.h"
#include "compress/rewrite.h"
#include "package/package.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

double decibels(double signal, double noise) {
  return noise > 0 ? 10 * std::log10(signal / noise) : std::numeric_limits<double>::infinity();
}

uint64_t folder_bytes(const fs::path& folder) {
  uint64_t out = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) out += entry.file_size();
  return out;
}

// Signal, noise and zeros of a weight against what it was.
struct Measured {
  double signal = 0, noise = 0;
  int64_t zeros = 0;
};

Measured measure(const Weight& before, const Weight& after, ThreadPool& pool) {
  constexpr int64_t kPart = 1 << 16;
  const int64_t count = before.type.size(), parts = (count + kPart - 1) / kPart;
  std::vector<Measured> found(static_cast<size_t>(parts));
  pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> a(kPart), b(kPart);
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kPart, n = std::min(kPart, count - first);
      before.stored->read(first, first + n, a.data());
      after.stored->read(first, first + n, b.data());
      Measured& m = found[static_cast<size_t>(p)];
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        const double v = static_cast<double>(a[i]), d = static_cast<double>(b[i]) - v;
        m.signal += v * v;
        m.noise += d * d;
        m.zeros += b[i] == 0;
      }
    }
  });
  Measured out;
  for (const Measured& m : found) {
    out.signal += m.signal;
    out.noise += m.noise;
    out.zeros += m.zeros;
  }
  for (const Weight* w : {&before, &after})
    if (w->file) w->file->release(0, w->file->size());
  return out;
}

class Compressor {
 public:
  Compressor(const CompressOptions& options) : options_(options), pool_(options.threads) {}

  ThreadPool& pool() { return pool_; }
  CompressReport& report() { return report_; }

  // What follows is calibrated on this text.
  void calibrate(const fs::path& bundle) {
    calibration_.emplace(bundle, options_.calibration, options_.calibration_tokens);
  }

  void package(const fs::path& in, const fs::path& out, bool overwrite) {
    const std::shared_ptr<const Package> opened = open_package(in);
    const Package& original = *opened;
    const std::string stem = (in.has_filename() ? in : in.parent_path()).stem().string();
    const FoundWeights found(original.program);
    check_opsets(original.program, found, stem);
    const Replacements replacements = encode_all(found, stem, in.filename().string());
    Package written;
    written.path = original.path;
    written.spec_version = original.spec_version;
    written.description = original.description;
    written.items = original.items;
    written.extra = original.extra;
    written.program = rewrite(original.program, replacements);
    if (written.description.metadata)
      written.description.metadata->user["anemone.compress"] = options_.recipe.text();
    const WriteReport write = write_package(written, out, {.overwrite = overwrite, .pool = &pool_});
    report_.bytes_after += write.weight_bytes;
    report_.bytes_before += weight_file_bytes(original);
    report_on(found, replacements, stem, out);
  }

 private:
  // The opset is checked before any work is done.
  void check_opsets(const Program& program, const FoundWeights& found, const std::string& stem) const {
    Opset oldest = Opset::ios26;
    for (const auto& function : program.functions) oldest = std::min(oldest, function->opset);
    for (const FoundWeight& w : found.weights()) check_opset(options_.recipe.form_of(stem, w.weight), oldest);
  }

  Replacements encode_all(const FoundWeights& found, const std::string& stem, const std::string& package) {
    std::vector<const FoundWeight*> chosen;
    for (const FoundWeight& w : found.weights()) {
      const StorageForm& form = options_.recipe.form_of(stem, w.weight);
      if (form.keep || (form.dense && w.weight.plain))
        ++report_.untouched;
      else
        chosen.push_back(&w);
      const bool loses = form.integers || (form.palette && form.palette->mode != PaletteForm::Mode::unique);
      report_.again += loses && !form.keep && !w.weight.plain && !w.weight.sparse;
    }
    if (chosen.empty()) return {};
    Work work{chosen, {}, stem, 0};
    work.encoded.resize(chosen.size());
    std::vector<size_t> plain;
    const std::vector<std::vector<size_t>> calibrated = calibrated_parts(chosen, stem, plain);
    encode_some(work, plain, nullptr);
    for (const std::vector<size_t>& part : calibrated) {
      std::map<std::string, int64_t> inputs;
      for (const size_t i : part) inputs[chosen[i]->weight.input] = chosen[i]->weight.type.dim(1).size();
      const Hessians hessians = calibration_->collect(package, inputs, true, pool_);
      std::vector<Hessian*> all;
      for (const auto& [name, hessian] : hessians) all.push_back(hessian.get());
      pool_.parallel_for(static_cast<int64_t>(all.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) all[static_cast<size_t>(i)]->factor();
      });
      encode_some(work, part, &hessians);
      report_.judged += static_cast<int64_t>(part.size());
    }
    const auto& encoded = work.encoded;
    Replacements out;
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (!encoded[i]) {
        report_.kept.push_back(
            fmt::format("{}/{} has more than {} different values", stem, chosen[i]->weight.name,
                        1 << options_.recipe.form_of(stem, chosen[i]->weight).palette->bits));
        continue;
      }
      forms_[&chosen[i]->weight] = encoded[i]->form;
      if (encoded[i]->calibrated) calibrated_.insert(&chosen[i]->weight);
      const auto sources = std::make_shared<Sources>(encoded[i]);
      for (const FoundUse& use : chosen[i]->uses) out[{use.function, use.value}] = sources;
    }
    return out;
  }

  struct Work {
    const std::vector<const FoundWeight*>& chosen;
    std::vector<std::shared_ptr<const Encoded>> encoded;
    const std::string& stem;
    int64_t done = 0;
  };

  // Weights that can be calibrated, in parts whose statistics fit in memory together; the others in `plain`.
  std::vector<std::vector<size_t>> calibrated_parts(const std::vector<const FoundWeight*>& chosen,
                                                    const std::string& stem,
                                                    std::vector<size_t>& plain) const {
    constexpr int64_t kMostBytes = int64_t{1} << 30;
    std::map<std::string, std::vector<size_t>> by_input;
    for (size_t i = 0; i < chosen.size(); ++i) {
      const Weight& w = chosen[i]->weight;
      const StorageForm& form = options_.recipe.form_of(stem, w);
      const bool rounds = form.integers || (form.palette && form.palette->vector == 1);
      if (calibration_ && rounds && w.is_matrix() && !w.input.empty())
        by_input[w.input].push_back(i);
      else
        plain.push_back(i);
    }
    std::vector<std::vector<size_t>> out;
    int64_t bytes = kMostBytes;
    for (const auto& [input, members] : by_input) {
      const int64_t channels = chosen[members[0]]->weight.type.dim(1).size(), more = channels * channels * 4;
      if (bytes + more > kMostBytes) out.emplace_back(), bytes = 0;
      bytes += more;
      out.back().insert(out.back().end(), members.begin(), members.end());
    }
    return out;
  }

  // Many weights: one to a core. Few: all cores on each.
  void encode_some(Work& work, const std::vector<size_t>& members, const Hessians* hessians) {
    const auto one = [&](size_t i) {
      const Weight& w = work.chosen[i]->weight;
      try {
        work.encoded[i] = encode(w, options_.recipe.form_of(work.stem, w), pool_,
                                 hessians ? hessians->at(w.input).get() : nullptr);
      } catch (Error& e) {
        if (e.message().find(w.name) == std::string::npos) e.within(fmt::format("weight '{}'", w.name));
        throw;
      }
    };
    const auto count = static_cast<int64_t>(members.size());
    const int64_t batch = 2 * pool_.threads();
    for (int64_t at = 0; at < count; at += batch) {
      const int64_t n = std::min(batch, count - at);
      if (n < pool_.threads())
        for (int64_t i = 0; i < n; ++i) one(members[static_cast<size_t>(at + i)]);
      else
        pool_.parallel_for(n, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) one(members[static_cast<size_t>(at + i)]);
        });
      work.done += n;
      if (options_.progress &&
          !options_.progress(work.done, static_cast<int64_t>(work.chosen.size()), work.stem))
        throw errorf("cancelled");
    }
  }

  static uint64_t weight_file_bytes(const Package& package) {
    std::map<const MappedFile*, uint64_t> files;
    for (const auto& function : package.program.functions)
      for_each_op(std::as_const(function->body), [&](const Operation& op) {
        const auto see = [&](const Constant& c) {
          if (const auto* blob = std::get_if<Blob>(&c.data); blob && blob->file)
            files[blob->file.get()] = blob->file->size();
        };
        for (const auto& [name, c] : op.attributes) see(c);
        for (const Input& input : op.inputs)
          for (const Binding& b : input.bindings)
            if (b.literal) see(*b.literal);
      });
    uint64_t out = 0;
    for (const auto& [file, bytes] : files) out += bytes;
    return out;
  }

  void report_on(const FoundWeights& before, const Replacements& replacements, const std::string& stem,
                 const fs::path& out) {
    const Package written = read_package(out);
    const FoundWeights after(written.program);
    for (const FoundWeight& w : before.weights()) {
      const FoundUse& use = w.uses[0];
      const auto form = forms_.find(&w.weight);
      if (!replacements.contains({use.function, use.value}) || form == forms_.end()) continue;
      const FoundWeight* now = after.find(use.function, use.value);
      if (!now)
        throw errorf("the weight '{}' is not in the package that was written", use.value).at(out.string());
      const Measured m = measure(w.weight, now->weight, pool_);
      const auto count = static_cast<double>(w.weight.type.size());
      CompressReport::Row row;
      row.package = stem;
      row.weight = w.weight.name;
      row.dims = w.weight.dims();
      row.form = form->second.text();
      row.bytes_before = w.weight.stored_bytes;
      row.bytes_after = now->weight.stored_bytes;
      row.bits = 8 * static_cast<double>(row.bytes_after) / count;
      row.sqnr_db = decibels(m.signal, m.noise);
      row.sparsity = static_cast<double>(m.zeros) / count;
      row.functions = w.uses.size();
      row.calibrated = calibrated_.contains(&w.weight);
      report_.rows.push_back(std::move(row));
      report_.signal += m.signal;
      report_.noise += m.noise;
      for (const Advice& a : advice_for(form->second, w.weight)) warn(a);
    }
  }

  void warn(const Advice& advice) {
    for (auto& w : report_.warnings)
      if (w.rule == advice.rule) {
        ++w.weights;
        return;
      }
    report_.warnings.push_back({advice.rule, advice.text, 1});
  }

  const CompressOptions& options_;
  ThreadPool pool_;
  std::optional<Calibration> calibration_;
  CompressReport report_;
  std::map<const Weight*, StorageForm> forms_;
  std::set<const Weight*> calibrated_;
};

// Packages are compressed one by one, everything else is copied; bundle.json gets the new sizes and hashes.
void compress_bundle(Compressor& c, const fs::path& in, const fs::path& out, const CompressOptions& options) {
  const BundleInfo info = BundleInfo::read(in);
  if (!info.embedding_parts.empty())
    throw errorf("the bundle's embedding is its head, whose rows must stay as they are")
        .at(in.string())
        .hint("convert without --embedding head");
  if (!options.calibration.empty()) c.calibrate(in);
  StagedOutput staged(out, options.overwrite);
  staged.make_folder();
  std::vector<std::string> packages;
  for (const Stage& stage : info.stages)
    if (std::find(packages.begin(), packages.end(), stage.package) == packages.end())
      packages.push_back(stage.package);
  for (const auto& entry : fs::directory_iterator(in)) {
    const std::string name = entry.path().filename().string();
    if (name == kBundleFile || std::find(packages.begin(), packages.end(), name) != packages.end()) continue;
    fs::copy(entry.path(), staged.path() / name, fs::copy_options::recursive);
  }
  for (const std::string& package : packages) c.package(in / package, staged.path() / package, false);
  BundleInfo written = info;
  written.precision = options.recipe.text();
  written.tool = options.tool;
  BundleWriter(staged.path(), c.pool()).finish(written);
  c.report().bytes_before = folder_bytes(in);
  c.report().bytes_after = folder_bytes(staged.path());
  staged.commit();
}

}  // namespace

double CompressReport::sqnr_db() const { return decibels(signal, noise); }

CompressReport compress(const fs::path& in, const fs::path& out, const CompressOptions& options) {
  check_recipe(options.recipe);
  if (!fs::exists(in)) throw Error("is not there").at(in.string());
  check_output(in, out, options.overwrite, {kBundleFile, "Manifest.json"});
  Compressor c(options);
  try {
    if (fs::exists(in / kBundleFile))
      compress_bundle(c, in, out, options);
    else if (!options.calibration.empty())
      throw Error("calibration runs a model on a text, and this is no bundle")
          .at(in.string())
          .hint("leave out --calibrate, or give the bundle");
    else
      c.package(in, out, options.overwrite);
  } catch (const fs::filesystem_error& e) {
    throw errorf("cannot be written: {}", e.code().message()).at(e.path1().string());
  }
  return std::move(c.report());
}

}  // namespace anemone
