#include "engine/cpu_predictor.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "base/shape.h"
#include "engine/executor.h"

namespace anemone {
namespace {

class CpuState : public State {
 public:
  struct Entry {
    Type type;  // the state's content
    Buffer memory;
    mutable StateBounds bounds;
  };

  CpuState(const Function& function, bool half) : half_(half) {
    for (const auto& input : function.inputs) {
      if (input->type.kind != Type::Kind::state) continue;
      try {
        Entry entry{input->type.content(), Buffer::zeros(static_cast<uint64_t>(input->type.size()) * 4),
                    StateBounds(input->type.content())};
        entries_.emplace(input->name, std::move(entry));
      } catch (Error& e) {
        e.within(fmt::format("state '{}'", input->name));
        throw;
      }
    }
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (const auto& [name, entry] : entries_) out.push_back(name);
    return out;
  }

  Array get(const std::string& name) const override {
    const Entry& entry = find(name);
    return give_output(entry.type, entry.memory.data());
  }

  void set(const std::string& name, const Array& value) override {
    const Entry& entry = find(name);
    const TensorInfo info{name, entry.type.dtype, entry.type.dims(), {}, {}, false};
    Type type;
    std::vector<uint32_t> values = take_tensor("state", info, value, type);
    if (half_ && type.dtype == DType::fp16)
      for (uint32_t& v : values) v = std::bit_cast<uint32_t>(round_to_half(std::bit_cast<float>(v)));
    if (!values.empty()) std::memcpy(entry.memory.data(), values.data(), values.size() * 4);
    if (type.is_float())
      entry.bounds.reset(reinterpret_cast<const float*>(entry.memory.data()));
    else
      entry.bounds.forget();
  }

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const auto& [name, entry] : entries_) sum += entry.memory.size();
    return sum;
  }

  // By name, so that functions of one package can share a state (prefill, then decode).
  const Entry& find(const std::string& name) const {
    const auto it = entries_.find(name);
    if (it != entries_.end()) return it->second;
    std::string known;
    for (const auto& [other, entry] : entries_) known += (known.empty() ? "" : ", ") + other;
    throw errorf("there is no state '{}'", name)
        .expected(known.empty() ? "a function without states" : known);
  }

 private:
  std::map<std::string, Entry> entries_;
  bool half_;
};

class CpuPredictor : public Predictor {
 public:
  CpuPredictor(std::shared_ptr<const Package> package, const Function& function, Signature signature,
               const PredictOptions& options, std::shared_ptr<ThreadPool> pool)
      : package_(std::move(package)),
        signature_(std::move(signature)),
        options_(options),
        info_(function),
        pool_(pool ? std::move(pool) : std::make_shared<ThreadPool>(options.threads)) {
    for (const std::string& tap : options.taps) check_tap(tap);
    for (const auto& input : function.inputs)
      if (input->type.kind == Type::Kind::state && !input->type.fixed())
        throw errorf("the state '{}' has no fixed shape", input->name)
            .at(fmt::format("function '{}'", function.name))
            .found(input->type.text());
  }

  const Signature& signature() const override { return signature_; }

  std::unique_ptr<State> make_state() const override {
    return std::make_unique<CpuState>(info_.function(), options_.arithmetic == Arithmetic::fp16);
  }

  Prediction predict(const std::map<std::string, Array>& inputs, State* state) const override {
    std::unique_ptr<Executor> executor = borrow();
    Prediction result = run(*executor, inputs, state);
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(executor));
    return result;
  }

  uint64_t arena_bytes() const {
    std::lock_guard lock(mutex_);
    uint64_t sum = 0;
    for (const auto& executor : idle_) sum += executor->arena_bytes();
    return sum;
  }

 private:
  struct Taken {
    Type type;
    std::vector<uint32_t> data;
  };

  void check_tap(const std::string& tap) const {
    for (int id = 0; id < info_.values(); ++id)
      if (info_.value(id)->name == tap) return;
    throw errorf("there is no value '{}' in the function '{}'", tap, signature_.function);
  }

  std::unique_ptr<Executor> borrow() const {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Executor>(info_, cache_, *pool_, options_);
    std::unique_ptr<Executor> out = std::move(idle_.back());
    idle_.pop_back();
    return out;
  }

  Prediction run(Executor& executor, const std::map<std::string, Array>& inputs, State* state) const {
    std::map<std::string, Taken> taken;
    for (const auto& [name, array] : inputs) take(name, array, taken);
    for (const TensorInfo& input : signature_.inputs)
      if (!taken.contains(input.name)) take_default(input, taken);
    auto* cpu_state = dynamic_cast<CpuState*>(state);
    for (const auto& input : info_.function().inputs) {
      const int id = info_.id(input.get());
      if (input->type.kind == Type::Kind::state) {
        if (!cpu_state) throw errorf("the function '{}' needs a state", signature_.function);
        const CpuState::Entry& entry = cpu_state->find(input->name);
        if (entry.type != input->type.content())
          throw errorf("the state '{}' was made for another function", input->name)
              .found(entry.type.text())
              .expected(input->type.content().text());
        executor.set_input(id, &entry.type, entry.memory.data(), &entry.bounds);
      } else {
        Taken& t = taken.at(input->name);
        executor.set_input(id, &t.type, t.data.data());
      }
    }
    executor.execute();
    Prediction result;
    result.fault = executor.fault();
    for (const Value* value : info_.function().body.outputs) give(executor, value, result);
    for (const std::string& tap : options_.taps)
      for (int id = 0; id < info_.values(); ++id)
        if (info_.value(id)->name == tap && executor.cell(id).data) give(executor, info_.value(id), result);
    return result;
  }

  void take(const std::string& name, const Array& array, std::map<std::string, Taken>& taken) const {
    const auto& known = signature_.inputs;
    const auto it =
        std::find_if(known.begin(), known.end(), [&](const TensorInfo& t) { return t.name == name; });
    if (it == known.end())
      throw errorf("the function '{}' has no input '{}'", signature_.function, name)
          .expected(describe_inputs(signature_));
    Taken t;
    t.data = take_tensor("input", *it, array, t.type);
    if (options_.arithmetic == Arithmetic::fp16 && t.type.dtype == DType::fp16)
      for (uint32_t& v : t.data) v = std::bit_cast<uint32_t>(round_to_half(std::bit_cast<float>(v)));
    taken.emplace(name, std::move(t));
  }

  void take_default(const TensorInfo& input, std::map<std::string, Taken>& taken) const {
    if (!input.optional)
      throw errorf("the input '{}' is missing", input.name).expected(describe_inputs(signature_));
    const Interface& interface = package_->description.interface(signature_.function);
    const ArrayFeature& feature = interface.find(input.name)->type.array;
    bool fits = feature.shape.size() == input.shape.size();
    for (size_t i = 0; fits && i < input.shape.size(); ++i)
      fits = input.shape[i] < 0 || input.shape[i] == feature.shape[i];
    if (!fits)  // before an array of it is made: it may say anything
      throw errorf("the default of the input '{}' has the wrong shape", input.name)
          .found(anemone::shape_text(feature.shape))
          .expected(describe(input));
    Array array(DType::fp64, feature.shape);
    double value = 0;
    if (const auto* i = std::get_if<int32_t>(&feature.default_value)) value = *i;
    if (const auto* f = std::get_if<float>(&feature.default_value)) value = *f;
    if (const auto* d = std::get_if<double>(&feature.default_value)) value = *d;
    for (double& v : array.values<double>()) v = value;
    take(input.name, array, taken);
  }

  void give(const Executor& executor, const Value* value, Prediction& result) const {
    const Cell cell = executor.cell(info_.id(value));
    if (!cell.type && info_.is_constant(info_.id(value))) {
      const auto weight = info_.stored(info_.id(value));
      std::vector<uint32_t> data(static_cast<size_t>(weight->type().size()));
      weight->read(0, weight->type().size(), data.data());
      result.outputs.insert_or_assign(value->name, give_output(weight->type(), data.data()));
      return;
    }
    if (value->producer && value->producer->type == "classify") return give_classes(cell, *value, result);
    if (!cell.type || !cell.type->is_tensor() || !cell.data)
      throw errorf("the output '{}' is not a tensor", value->name);
    result.outputs.insert_or_assign(value->name, give_output(*cell.type, cell.data));
  }

  // classify gives the index of the best class, and the probabilities in the order of the classes.
  void give_classes(const Cell& cell, const Value& value, Prediction& result) const {
    const Operation& op = *value.producer;
    const Constant* classes = op.input("classes")->bindings[0].constant();
    std::vector<std::string> names;
    for (const Constant& item : std::get<Constant::Items>(classes->data)) {
      if (item.is_strings())
        names.push_back(std::get<Constant::Strings>(item.data).at(0));
      else
        names.push_back(fmt::format("{}", decode_ints(*stored_constant(item)).at(0)));
    }
    if (&value == op.outputs[0].get()) {
      const auto best = static_cast<size_t>(*static_cast<const int32_t*>(cell.data));
      result.labels[value.name] = {names.at(best)};
      return;
    }
    const int64_t count = static_cast<int64_t>(names.size());
    result.labels[value.name] = std::move(names);
    result.outputs.insert_or_assign(value.name, give_output(Type::tensor(DType::fp32, {count}), cell.data));
  }

  std::shared_ptr<const Package> package_;
  Signature signature_;
  PredictOptions options_;
  FunctionInfo info_;
  std::shared_ptr<ThreadPool> pool_;
  mutable PlanCache cache_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Executor>> idle_;
};

}  // namespace

std::unique_ptr<Predictor> make_cpu_predictor(std::shared_ptr<const Package> package,
                                              const std::string& function, const PredictOptions& options,
                                              std::shared_ptr<ThreadPool> pool) {
  if (!package) throw Error("a predictor needs a package");
  const std::vector<Signature> all = signatures(*package);
  const std::string& usual = package->description.default_function;
  const std::string& wanted = function.empty() ? usual : function;
  std::string names;
  for (const Signature& signature : all) {
    names += (names.empty() ? "" : ", ") + signature.function;
    if (!wanted.empty() && signature.function != wanted) continue;
    const Function* found = package->program.find_function(signature.function);
    ANEMONE_CHECK(found);
    return std::make_unique<CpuPredictor>(std::move(package), *found, signature, options, std::move(pool));
  }
  throw errorf("there is no function '{}'", wanted).at(package->path.string()).expected(names);
}

uint64_t arena_bytes(const Predictor& predictor) {
  const auto* cpu = dynamic_cast<const CpuPredictor*>(&predictor);
  return cpu ? cpu->arena_bytes() : 0;
}

uint64_t state_bytes(const State& state) {
  const auto* cpu = dynamic_cast<const CpuState*>(&state);
  return cpu ? cpu->bytes() : 0;
}

std::unique_ptr<Predictor> make_predictor(std::shared_ptr<const Package> package, const std::string& function,
                                          const PredictOptions& options) {
  return make_cpu_predictor(std::move(package), function, options);
}

}  // namespace anemone
