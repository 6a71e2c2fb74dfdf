#include "engine/cpu_function.h"

#include "base/error.h"
#include "base/shape.h"

namespace anemone {
namespace {

Signature find_signature(const Package* package, const std::string& name) {
  if (!package) throw Error("a predictor needs a package");
  const std::string& wanted = name.empty() ? package->description.default_function : name;
  std::string names;
  for (Signature& signature : signatures(*package)) {
    if (wanted.empty() || signature.function == wanted) return std::move(signature);
    names += (names.empty() ? "" : ", ") + signature.function;
  }
  throw errorf("there is no function '{}'", wanted).at(package->path.string()).expected(names);
}

const ArrayFeature& feature_of(const Package& package, const Signature& signature, const TensorInfo& input) {
  return package.description.interface(signature.function).find(input.name)->type.array;
}

}  // namespace

void* Workspace::memory(Buffer& buffer, uint64_t bytes_needed) {
  if (!buffer.data() || buffer.size() < bytes_needed) {
    buffer = Buffer(bytes_needed);
    measure();
  }
  return buffer.data();
}

void Workspace::measure() {
  uint64_t sum = executor.arena_bytes();
  for (const Buffer& buffer : inputs) sum += buffer.size();
  for (const Buffer& buffer : results) sum += buffer.size();
  bytes = sum;
}

CpuFunction::CpuFunction(std::shared_ptr<const Package> package, const std::string& name,
                         const PredictOptions& options, std::vector<std::string> taps,
                         std::shared_ptr<ThreadPool> pool)
    : package_(std::move(package)),
      signature_(find_signature(package_.get(), name)),
      arithmetic_(options.arithmetic),
      taps_(std::move(taps)),
      info_(*package_->program.find_function(signature_.function)),
      pool_(std::move(pool)),
      timeline_(options.timeline) {
  add_inputs();
  add_results();
}

void CpuFunction::add_inputs() {
  auto info = signature_.inputs.begin();  // in the order of the function's, without its states
  for (const auto& input : info_.function().inputs) {
    if (input->type.kind != Type::Kind::state)
      inputs_.push_back({&*info++, info_.id(input.get())});
    else if (!input->type.fixed())
      throw errorf("the state '{}' has no fixed shape", input->name)
          .at(fmt::format("function '{}'", signature_.function))
          .found(input->type.text());
  }
}

void CpuFunction::add_results() {
  for (const Value* value : info_.function().body.outputs) results_.push_back({value->name, info_.id(value)});
  for (const std::string& tap : taps_) {
    const size_t before = results_.size();
    for (int id = 0; id < info_.values(); ++id)
      if (info_.value(id)->name == tap) results_.push_back({tap, id});
    if (results_.size() == before)
      throw errorf("there is no value '{}' in the function '{}'", tap, signature_.function);
  }
}

std::vector<int64_t> CpuFunction::default_shape(const TensorInfo& input) const {
  const std::vector<int64_t>& shape = feature_of(*package_, signature_, input).shape;
  bool fits = shape.size() == input.shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = input.shape[i] < 0 || input.shape[i] == shape[i];
  if (!fits)  // before memory is made for it: it may say anything
    throw errorf("the default of the input '{}' has the wrong shape", input.name)
        .found(shape_text(shape))
        .expected(describe(input));
  return shape;
}

double CpuFunction::default_value(const TensorInfo& input) const {
  const ArrayFeature& feature = feature_of(*package_, signature_, input);
  if (const auto* i = std::get_if<int32_t>(&feature.default_value)) return *i;
  if (const auto* f = std::get_if<float>(&feature.default_value)) return *f;
  if (const auto* d = std::get_if<double>(&feature.default_value)) return *d;
  return 0;
}

Workspace& CpuFunction::borrow() {
  std::lock_guard lock(mutex_);
  if (idle_.empty()) {
    auto work = std::make_unique<Workspace>(info_, cache_, *pool_, arithmetic_, taps_, timeline_.get());
    work->inputs.resize(inputs_.size());
    work->results.resize(results_.size());
    idle_.reserve(workspaces_.size() + 1);  // so that giving back cannot fail
    workspaces_.push_back(std::move(work));
    return *workspaces_.back();
  }
  Workspace& out = *idle_.back();
  idle_.pop_back();
  return out;
}

void CpuFunction::give_back(Workspace& work) {
  std::lock_guard lock(mutex_);
  idle_.push_back(&work);
}

uint64_t CpuFunction::memory_bytes() const {
  std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const auto& work : workspaces_) sum += work->bytes;
  return sum;
}

}  // namespace anemone
