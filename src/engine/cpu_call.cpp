#include "engine/cpu_call.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>

#include "base/error.h"
#include "base/shape.h"
#include "kernels/convert.h"

namespace anemone {
namespace {

constexpr int64_t kGrain = 1 << 14;

// Every value is a half already. Signalling NaNs are said not to be.
bool all_halves(const float* values, int64_t count, ThreadPool& pool) {
  std::atomic<bool> all = true;
  pool.parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 256;
    float rounded[kBlock];
    for (int64_t i = begin; i < end && all; i += kBlock) {
      const int64_t n = std::min(kBlock, end - i);
      std::memcpy(rounded, values + i, static_cast<size_t>(n) * 4);
      round_halves(rounded, n);
      if (std::memcmp(rounded, values + i, static_cast<size_t>(n) * 4) != 0) all = false;
    }
  });
  return all;
}

// The shape that a call gives an input.
std::vector<int64_t> shape_for(const CpuFunction& function, const TensorInfo& info,
                               const InputShapes& shapes) {
  if (const auto it = shapes.find(info.name); it != shapes.end()) {
    check_shape("input", info, it->second);
    return is_scalar(info) ? std::vector<int64_t>{} : it->second;
  }
  if (std::ranges::all_of(info.shape, [](int64_t d) { return d >= 0; })) return info.shape;
  if (!info.optional)
    throw errorf("the call does not say the shape of the flexible input '{}'", info.name)
        .expected(describe_inputs(function.signature()));
  std::vector<int64_t> shape = function.default_shape(info);
  check_shape("input", info, shape);
  return shape;
}

// classify gives the index of the best class, and the probabilities in the order of the classes.
const Operation* classifier(const Value& value) {
  return value.producer && value.producer->type == "classify" ? value.producer : nullptr;
}

}  // namespace

CpuCall::CpuCall(std::shared_ptr<CpuFunction> function, const InputShapes& shapes)
    : function_(std::move(function)), kept_(function_->results().size()) {
  for (const auto& [name, shape] : shapes) find_input(function_->signature(), name);
  for (const CpuFunction::Input& input : function_->inputs()) {
    Slot slot;
    slot.type = Type::tensor(input.info->dtype, shape_for(*function_, *input.info, shapes));
    slots_.push_back(std::move(slot));
  }
}

CpuCall::~CpuCall() { CpuCall::rest(); }

Workspace& CpuCall::work() {
  if (!work_) work_ = &function_->borrow();
  return *work_;
}

// The workspace serves whichever call runs next: sessions that take turns share one.
void CpuCall::rest() {
  if (work_) function_->give_back(*work_);
  work_ = nullptr;
  ran_ = false;
  given_.clear();
  for (Slot& slot : slots_) slot.from = Slot::From::nowhere;
}

size_t CpuCall::index(const std::string& name) const {
  return static_cast<size_t>(&find_input(function_->signature(), name) -
                             function_->signature().inputs.data());
}

void* CpuCall::own_memory(size_t input) {
  return work().memory(work().inputs[input], bytes_of(slots_[input]));
}

TensorView CpuCall::input(const std::string& name) {
  const size_t i = index(name);
  Slot& slot = slots_[i];
  void* data = own_memory(i);
  if (slot.from != Slot::From::own && bytes_of(slot) > 0) std::memset(data, 0, bytes_of(slot));
  slot.from = Slot::From::own;
  return view_elements(slot.type, data);
}

void CpuCall::lend(const std::string& name, const TensorView& view) {
  const size_t i = index(name);
  Slot& slot = slots_[i];
  const TensorInfo& info = *function_->inputs()[i].info;
  check_shape("input", info, view.shape);
  if (!is_scalar(info) && view.shape != slot.type.dims())
    throw errorf("the input '{}' has another shape than the call was made for", name)
        .found(shape_text(view.shape))
        .expected(shape_text(slot.type.dims()));
  if (view.strides.size() != view.shape.size() || (!view.data && view.size() > 0))
    throw errorf("what is lent as the input '{}' is no view of elements", name)
        .found(fmt::format("{} strides for {}", view.strides.size(), shape_text(view.shape)));
  slot.from = Slot::From::lent;
  slot.lent = view;
}

// fp16 arithmetic: values of that type are halves before the function sees them.
bool CpuCall::rounds(size_t input) const {
  return function_->half() && slots_[input].type.dtype == DType::fp16;
}

bool CpuCall::readable_in_place(size_t input) const {
  const Slot& slot = slots_[input];
  const TensorView& view = slot.lent;
  const DType native = slot.type.is_float() ? DType::fp32 : DType::int32;
  if (view.dtype != native || !view.dense() || reinterpret_cast<uintptr_t>(view.data) % 4 != 0) return false;
  if (view.size() == 0) return false;           // it may have no place
  if (inside(given_, view.data)) return false;  // this call's own output, which the run writes to
  return !rounds(input) || all_halves(static_cast<const float*>(view.data), view.size(), function_->pool());
}

// The elements of an input as the executor takes them.
void* CpuCall::bind_input(size_t input) {
  const TensorInfo& info = *function_->inputs()[input].info;
  Slot& slot = slots_[input];
  void* data = nullptr;
  if (slot.from == Slot::From::lent && readable_in_place(input)) {
    data = slot.lent.data;
  } else {
    data = own_memory(input);
    if (slot.from == Slot::From::lent) {
      take_elements("input", info, slot.lent, data);
      copied_bytes_ += bytes_of(slot);
    } else if (slot.from == Slot::From::nowhere) {
      if (!info.optional) throw missing_input(function_->signature(), info.name);
      function_->default_shape(info);  // says what is wrong with it
      double value = function_->default_value(info);
      TensorView all = TensorView::row_major(DType::fp64, slot.type.dims(), &value);
      std::ranges::fill(all.strides, 0);
      take_elements("input", info, all, data);
    }
    if (rounds(input))
      function_->pool().parallel_for(slot.type.size(), kGrain, [&](int64_t begin, int64_t end) {
        round_halves(static_cast<float*>(data) + begin, end - begin);
      });
  }
  if (!slot.type.is_float())
    check_elements("input", info, {static_cast<const int32_t*>(data), static_cast<size_t>(slot.type.size())});
  const auto* begin = static_cast<const std::byte*>(data);
  bound_.emplace_back(begin, begin + bytes_of(slot));
  return data;
}

void CpuCall::bind_states(State* state) {
  const auto* own = dynamic_cast<const CpuState*>(state);
  if (state && !own) throw Error("the state was made by another backend").expected("one of the CPU engine");
  for (const auto& input : function_->info().function().inputs) {
    if (input->type.kind != Type::Kind::state) continue;
    if (!own) throw errorf("the function '{}' needs a state", function_->signature().function);
    const CpuState::Entry& entry = own->find(input->name);
    if (entry.type != input->type.content())
      throw errorf("the state '{}' was made for another function", input->name)
          .found(entry.type.text())
          .expected(input->type.content().text());
    work_->executor.set_input(function_->info().id(input.get()), &entry.type, entry.memory.data(),
                              &entry.bounds, entry.halves);
  }
}

void CpuCall::get_ready() {
  Executor& executor = work().executor;
  std::deque<Type> states;  // as make_state() gives them
  for (size_t i = 0; i < slots_.size(); ++i)
    executor.set_input(function_->inputs()[i].id, &slots_[i].type, nullptr);
  for (const auto& input : function_->info().function().inputs) {
    if (input->type.kind != Type::Kind::state) continue;
    const Type& content = states.emplace_back(input->type.content());
    executor.set_input(function_->info().id(input.get()), &content, nullptr, nullptr,
                       CpuState::keeps_halves(content, function_->arithmetic()));
  }
  executor.get_ready();
}

void CpuCall::run(State* state) {
  const TimedSlice slice(function_->timeline(), Timeline::Level::call, "call",
                         function_->signature().function);
  prepare(state).execute();
  settle();
}

Executor& CpuCall::prepare(State* state) {
  ran_ = false;
  work();
  fault_.reset();
  bound_.clear();
  kept_.assign(kept_.size(), false);
  for (size_t i = 0; i < slots_.size(); ++i)
    work_->executor.set_input(function_->inputs()[i].id, &slots_[i].type, bind_input(i));
  bind_states(state);
  return work_->executor;
}

void CpuCall::settle() {
  fault_ = work_->executor.fault();
  settle_results();
  work_->measure();
  ran_ = true;
}

bool CpuCall::inside(const Memory& memory, const void* data) {
  const auto* place = static_cast<const std::byte*>(data);
  return std::ranges::any_of(memory, [place](const auto& piece) {
    return std::greater_equal<>()(place, piece.first) && std::less<>()(place, piece.second);
  });
}

// An output can be an input in another shape. It must hold when what was lent is gone or filled anew.
void CpuCall::settle_results() {
  given_.clear();
  for (size_t r = 0; r < kept_.size(); ++r) {
    const Cell& cell = work_->executor.cell(function_->results()[r].id);
    if (!cell.type || !cell.type->is_tensor() || !cell.data) continue;
    const uint64_t bytes = static_cast<uint64_t>(cell.type->size()) * 4;
    const void* data = cell.data;
    if (inside(bound_, data)) {
      data = std::memcpy(keep(r, bytes), data, bytes);
      copied_bytes_ += bytes;
    }
    given_.emplace_back(static_cast<const std::byte*>(data), static_cast<const std::byte*>(data) + bytes);
  }
}

void* CpuCall::keep(size_t result, uint64_t bytes) const {
  void* data = work_->memory(work_->results[result], bytes);
  kept_[result] = true;
  return data;
}

// Outputs are always there; a tap may be in a block that was not run.
bool CpuCall::has(size_t result) const {
  return result < function_->info().function().body.outputs.size() ||
         work_->executor.cell(function_->results()[result].id).data;
}

std::vector<std::string> CpuCall::outputs() const {
  std::vector<std::string> out;
  for (size_t r = 0; ran_ && r < kept_.size(); ++r)
    if (const std::string& name = function_->results()[r].name; has(r) && !std::ranges::count(out, name))
      out.push_back(name);
  return out;
}

size_t CpuCall::find_result(const std::string& name) const {
  if (!ran_) throw errorf("there is no output '{}': the call has not been run", name);
  for (size_t r = kept_.size(); r-- > 0;)
    if (function_->results()[r].name == name && has(r)) return r;
  std::string known;
  for (const std::string& other : outputs()) known += (known.empty() ? "" : ", ") + other;
  throw errorf("there is no output '{}'", name).expected(known);
}

TensorView CpuCall::output(const std::string& name) const {
  const size_t r = find_result(name);
  const FunctionInfo& info = function_->info();
  const int id = function_->results()[r].id;
  const Cell& cell = work_->executor.cell(id);
  if (!cell.type && info.is_constant(id)) {
    const auto weight = info.stored(id);
    if (!kept_[r])
      weight->read(0, weight->type().size(), keep(r, static_cast<uint64_t>(weight->type().size()) * 4));
    return view_elements(weight->type(), work_->results[r].data());
  }
  if (const Operation* classify = classifier(*info.value(id))) {
    if (info.value(id) == classify->outputs[0].get())
      return TensorView::row_major(DType::string, {1}, nullptr);
    return TensorView::row_major(DType::fp32, {cell.type->size()}, cell.data);
  }
  if (!cell.type || !cell.type->is_tensor() || !cell.data)
    throw errorf("the output '{}' is not a tensor", name);
  return view_elements(*cell.type, kept_[r] ? work_->results[r].data() : cell.data);
}

std::vector<std::string> CpuCall::labels(const std::string& name) const {
  const int id = function_->results()[find_result(name)].id;
  const Value& value = *function_->info().value(id);
  const Operation* classify = classifier(value);
  if (!classify) return {};
  std::vector<std::string> names = class_names(*classify);
  if (&value != classify->outputs[0].get()) return names;
  return {names.at(static_cast<size_t>(*static_cast<const int32_t*>(work_->executor.cell(id).data)))};
}

}  // namespace anemone
