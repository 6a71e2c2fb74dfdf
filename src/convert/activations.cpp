#include "convert/activations.h"

#include <algorithm>

#include "anemone/package.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "package/package.h"
#include "runtime/encoder.h"
#include "runtime/session.h"

namespace anemone {
namespace {

bool has_value(const Function& f, const std::string& name) {
  bool found =
      std::any_of(f.inputs.begin(), f.inputs.end(), [&](const auto& in) { return in->name == name; });
  for_each_op(std::as_const(f.body), [&](const Operation& op) {
    for (const auto& output : op.outputs) found = found || output->name == name;
  });
  return found;
}

// Looks at what one call gave for its first `tokens` columns.
void add_call(const Call& call, int64_t tokens, const Hessians& out, ThreadPool& pool) {
  const std::vector<std::string> given = call.outputs();
  for (const auto& [name, hessian] : out) {
    if (std::find(given.begin(), given.end(), name) == given.end()) continue;
    const TensorView x = call.output(name);
    // [1, channels, positions, 1], as the lowering shapes everything.
    if (x.shape.size() != 4 || x.shape[1] != hessian->channels()) continue;
    std::vector<float> values = x.to_float();
    const int64_t width = static_cast<int64_t>(values.size()) / hessian->channels();
    const int64_t count = std::min(tokens, width);
    for (int64_t c = 1; count < width && c < hessian->channels(); ++c)
      std::copy_n(values.begin() + c * width, count, values.begin() + c * count);
    hessian->add(values.data(), count, pool);
  }
}

// Whole calls, so that no padding is looked at; a text shorter than a call goes token by token.
void read_growing(const std::shared_ptr<const Bundle>& bundle, std::span<const int32_t> ids) {
  Session session(bundle);
  const int64_t count = static_cast<int64_t>(ids.size()),
                unit = count < bundle->most_tokens() ? 1 : bundle->most_tokens();
  const int64_t window = session.capacity() / unit * unit;
  for (int64_t at = 0; at + unit <= count; at += unit) {
    if (at % window == 0) session.rewind(0);
    session.forward(ids.subspan(static_cast<size_t>(at), static_cast<size_t>(unit)));
  }
}

// Texts as long as the bundle takes them, and what is left.
void read_whole(const std::shared_ptr<const Bundle>& bundle, std::span<const int32_t> ids) {
  const Encoder encoder(bundle);
  const auto most = static_cast<size_t>(encoder.longest());
  for (; !ids.empty(); ids = ids.subspan(std::min(ids.size(), most)))
    encoder.encode({.ids = ids.first(std::min(ids.size(), most))});
}

}  // namespace

Activations::Activations(std::filesystem::path bundle, std::vector<int32_t> ids, MakeBackend backend,
                         int64_t most_tokens)
    : bundle_(std::move(bundle)), ids_(std::move(ids)), backend_(std::move(backend)) {
  ANEMONE_CHECK(backend_);
  const int64_t count = std::min(static_cast<int64_t>(ids_.size()), most_tokens);
  if (count < 64)
    throw errorf("{} tokens are too few for calibration", std::max<int64_t>(0, count))
        .expected("a text of at least 64; a few thousand are good");
  ids_.resize(static_cast<size_t>(count));
}

Hessians Activations::collect(const std::string& package, const std::map<std::string, int64_t>& inputs,
                              bool full, ThreadPool& pool) const {
  Hessians out;
  for (const auto& [name, channels] : inputs) out[name] = std::make_shared<Hessian>(channels, full);
  const BundleInfo info = BundleInfo::read(bundle_).chosen("");
  const std::shared_ptr<const Package> opened = open_package(bundle_ / package);
  BundleWatch watch;
  watch.taps = [&](size_t stage, const std::string& function) {
    std::vector<std::string> taps;
    const Function* f = opened->program.find_function(function);
    if (info.stages[stage].package != package || !f) return taps;
    for (const auto& [name, channels] : inputs)
      if (has_value(*f, name)) taps.push_back(name);
    return taps;
  };
  watch.seen = [&](size_t stage, const std::string&, const Call& call, int64_t tokens) {
    if (info.stages[stage].package == package) add_call(call, tokens, out, pool);
  };
  const auto bundle = Bundle::open(bundle_, backend_({.threads = pool.threads()}), std::move(watch),
                                   info.variants.empty() ? "" : info.variants.front().name);
  if (info.kind == BundleKind::generate)
    read_growing(bundle, ids_);
  else
    read_whole(bundle, ids_);
  for (const auto& [name, hessian] : out)
    if (hessian->tokens() == 0)
      throw errorf("the value '{}' was not seen while the text ran", name).at(package);
  return out;
}

}  // namespace anemone
