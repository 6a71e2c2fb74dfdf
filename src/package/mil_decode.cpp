#include <algorithm>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include "base/shape.h"
#include "base/thread_pool.h"
#include "package/mil_codec.h"
#include "package/wire.h"

namespace anemone {
namespace {

using wire::at_place;
using wire::bytes;
using wire::Fields;
using wire::varint;

// Names that an operation may bind to: those of its own block so far, and those of the blocks around it. Names lie in
// the values, which do not move.
class Scope {
 public:
  Value* find(std::string_view name) const {
    const auto it = values_.find(name);
    return it == values_.end() ? nullptr : it->second.value;
  }

  void define(Value& value) {
    const auto [it, fresh] = values_.try_emplace(value.name, Entry{&value, level_});
    if (!fresh && it->second.level == level_) throw errorf("the value '{}' is defined twice", value.name);
    undo_.push_back({&value, fresh ? Entry{} : it->second});
    it->second = {&value, level_};
  }

  void expect(size_t values) {
    values_.reserve(values_.size() + values);
    undo_.reserve(undo_.size() + values);
  }

  size_t enter() {
    ++level_;
    return undo_.size();
  }

  void leave(size_t mark) {
    --level_;
    for (; undo_.size() > mark; undo_.pop_back()) {
      const auto& [value, entry] = undo_.back();
      const auto it = values_.find(value->name);
      if (entry.value)
        it->second = entry;
      else
        values_.erase(it);
    }
  }

 private:
  struct Entry {
    Value* value = nullptr;
    int level = 0;
  };

  std::unordered_map<std::string_view, Entry> values_;
  std::vector<std::pair<const Value*, Entry>> undo_;  // what was defined, and what it hides
  int level_ = 0;
};

struct MapEntry {
  std::string_view key, value;
};

MapEntry read_entry(std::string_view message) {
  MapEntry out;
  std::string rest;
  for (Fields f(message); f.next();) switch (f.key()) {
      case bytes(1): out.key = f.text_view(); break;
      case bytes(2): out.value = f.view(); break;
      default: f.keep(rest);  // protobuf's own maps have no place for these either
    }
  return out;
}

std::unique_ptr<Value> named_value(std::string_view message, Operation* producer) {
  auto out = std::make_unique<Value>();
  out->producer = producer;
  at_place([&] { return fmt::format("value '{}'", out->name); },
           [&] {
             for (Fields f(message); f.next();) switch (f.key()) {
                 case bytes(1): out->name = f.text_view(); break;
                 case bytes(2): out->type = decode_type(f.view()); break;
                 default: f.keep(out->extra);
               }
             if (out->name.empty()) throw Error("a value has no name");
             if (out->type.kind == Type::Kind::none) throw Error("a value has no type");
           });
  return out;
}

// The functions of a program by name, and what else it says.
struct ProgramParts {
  Program rest;  // without its functions
  std::vector<MapEntry> functions;
};

// The fields of a function.
struct FunctionParts {
  std::vector<std::unique_ptr<Value>> inputs;
  std::string_view opset, body;
  std::vector<std::string_view> attributes;
  std::string extra;  // blocks for other opsets among them
};

Opset opset_of(std::string_view name) {
  const std::optional<Opset> known = opset_from_name(name);
  if (known && opset_info(*known).file_name == name) return *known;
  throw errorf("the opset '{}' is not known", name)
      .expected(
          fmt::format("{} to {}", opset_info(Opset::ios15).file_name, opset_info(Opset::ios26).file_name));
}

FunctionParts read_function(const MapEntry& entry) {
  if (entry.key.empty()) throw Error("a function has no name");
  FunctionParts out;
  std::vector<std::string_view> blocks;
  for (Fields f(entry.value); f.next();) switch (f.key()) {
      case bytes(1): out.inputs.push_back(named_value(f.view(), nullptr)); break;
      case bytes(2): out.opset = f.text_view(); break;
      case bytes(3): blocks.push_back(f.view()); break;
      case bytes(4): out.attributes.push_back(f.view()); break;
      default: f.keep(out.extra);
    }
  opset_of(out.opset);
  bool found = false;
  for (const std::string_view block : blocks) {
    const MapEntry named = read_entry(block);
    if (named.key == out.opset && !found) {
      out.body = named.value;
      found = true;
    } else {
      wire::Message kept;
      kept.data(3, block);
      out.extra += kept.bytes();
    }
  }
  if (!found) throw errorf("the function has no block for its opset {}", out.opset);
  return out;
}

// The types of a function's results, found without decoding an operation.
FunctionOutline outline_of(const MapEntry& entry) {
  FunctionParts parts = read_function(entry);
  FunctionOutline out{std::string(entry.key), std::move(parts.inputs), {}};
  std::vector<std::string_view> names, ops;
  for (Fields f(parts.body); f.next();) switch (f.key()) {
      case bytes(2): names.push_back(f.text_view()); break;
      case bytes(3): ops.push_back(f.view()); break;
      default: f.skip();
    }
  std::vector<std::string_view> found(names.size());
  const auto look_at = [&](std::string_view value) {
    for (Fields f(value); f.next();) {
      if (f.key() != bytes(1)) {
        f.skip();
        continue;
      }
      const std::string_view name = f.view();
      for (size_t i = 0; i < names.size(); ++i)
        if (names[i] == name) found[i] = value;
    }
  };
  for (Fields f(entry.value); f.next();) f.key() == bytes(1) ? look_at(f.view()) : f.skip();
  for (const std::string_view op : ops)
    for (Fields f(op); f.next();) f.key() == bytes(3) ? look_at(f.view()) : f.skip();
  for (size_t i = 0; i < names.size(); ++i) {
    if (!found[i].data()) throw errorf("the block returns '{}', which is not defined", names[i]);
    out.outputs.push_back(named_value(found[i], nullptr));
  }
  return out;
}

class ProgramReader {
 public:
  explicit ProgramReader(const BlobOpener& blobs) : blobs_(blobs) {}

  // `only`: that function alone; empty: all.
  Program program(std::string_view message, std::string_view only) {
    ProgramParts parts = read_parts(message);
    if (!only.empty())
      std::erase_if(parts.functions, [&](const MapEntry& entry) { return entry.key != only; });
    Program out = std::move(parts.rest);
    out.functions = decode_functions(parts.functions, message.size());
    if (out.functions.empty()) throw errorf("the program has no function '{}'", only);
    std::ranges::sort(out.functions, {},
                      [](const auto& function) -> const std::string& { return function->name; });
    return out;
  }

  std::vector<FunctionOutline> outlines(std::string_view message) {
    std::vector<FunctionOutline> out;
    for (const MapEntry& entry : read_parts(message).functions)
      out.push_back(at_place([&] { return fmt::format("function '{}'", entry.key); },
                             [&] { return outline_of(entry); }));
    std::ranges::sort(out, {}, &FunctionOutline::name);
    return out;
  }

 private:
  ProgramParts read_parts(std::string_view message) {
    ProgramParts out;
    out.rest.version = 0;
    for (Fields f(message); f.next();) switch (f.key()) {
        case varint(1): out.rest.version = f.integer(); break;
        case bytes(2): out.functions.push_back(read_entry(f.view())); break;
        case bytes(4): attribute(f.view(), out.rest.attributes); break;
        default: f.keep(out.rest.extra);  // docString, 3, among them
      }
    std::set<std::string_view> names;
    for (const MapEntry& entry : out.functions)
      if (!names.insert(entry.key).second) throw errorf("the function '{}' is defined twice", entry.key);
    if (out.rest.version != 1)
      throw errorf("the program has version {}", out.rest.version).expected("version 1");
    if (out.functions.empty()) throw Error("the program has no function");
    return out;
  }

  // Large ones side by side: they share nothing but the weight files.
  std::vector<std::unique_ptr<Function>> decode_functions(const std::vector<MapEntry>& entries, size_t size) {
    constexpr size_t kLarge = 1 << 18;
    std::vector<std::unique_ptr<Function>> out(entries.size());
    std::vector<std::exception_ptr> failures(entries.size());
    std::mutex mutex;
    const BlobOpener one_at_a_time = [&](const std::string& file, uint64_t offset, const Type& type) {
      std::lock_guard lock(mutex);
      return blobs_(file, offset, type);
    };
    const auto cores = static_cast<size_t>(std::max(1u, std::thread::hardware_concurrency()));
    ThreadPool pool(size < kLarge ? 1 : static_cast<int>(std::clamp<size_t>(entries.size(), 1, cores)));
    pool.parallel_for(static_cast<int64_t>(entries.size()), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) try {
          out[i] = at_place([&] { return fmt::format("function '{}'", entries[i].key); },
                            [&] { return ProgramReader(one_at_a_time).function(entries[i]); });
        } catch (...) {
          failures[i] = std::current_exception();
        }
    });
    for (const std::exception_ptr& failure : failures)  // the first, whichever came first
      if (failure) std::rethrow_exception(failure);
    return out;
  }

  void attribute(std::string_view message, Attributes& out) {
    const MapEntry entry = read_entry(message);
    at_place([&] { return fmt::format("attribute '{}'", entry.key); },
             [&] {
               if (!out.try_emplace(std::string(entry.key), decode_constant(entry.value, blobs_)).second)
                 throw Error("is given twice");
             });
  }

  Value* resolve(std::string_view name) const {
    if (Value* found = scope_.find(name)) return found;
    throw errorf("the value '{}' is used but not defined before", name);
  }

  std::unique_ptr<Function> function(const MapEntry& entry) {
    FunctionParts parts = read_function(entry);
    auto out = std::make_unique<Function>();
    out->name = entry.key;
    out->opset = opset_of(parts.opset);
    out->inputs = std::move(parts.inputs);
    out->extra = std::move(parts.extra);
    for (const std::string_view view : parts.attributes) attribute(view, out->attributes);
    const size_t mark = scope_.enter();
    for (const auto& input : out->inputs) scope_.define(*input);
    block(parts.body, out->body, 0);
    scope_.leave(mark);
    return out;
  }

  void block(std::string_view message, Block& out, int depth) {
    if (depth > wire::kMaxDepth)
      throw Error("blocks nest too deep").expected(fmt::format("at most {} levels", wire::kMaxDepth));
    // A function's own block shares the scope of the function's inputs.
    const size_t mark = depth > 0 ? scope_.enter() : 0;
    std::vector<std::string_view> outputs, ops;
    for (Fields f(message); f.next();) switch (f.key()) {
        case bytes(1):
          out.inputs.push_back(named_value(f.view(), nullptr));
          scope_.define(*out.inputs.back());
          break;
        case bytes(2): outputs.push_back(f.text_view()); break;
        case bytes(3): ops.push_back(f.view()); break;
        case bytes(4): attribute(f.view(), out.attributes); break;
        default: f.keep(out.extra);
      }
    out.ops.reserve(ops.size());
    scope_.expect(ops.size());
    for (const std::string_view view : ops) out.ops.push_back(operation(view, depth));
    for (const std::string_view name : outputs) {
      Value* value = scope_.find(name);
      if (!value) throw errorf("the block returns '{}', which is not defined", name);
      out.outputs.push_back(value);
    }
    if (depth > 0) scope_.leave(mark);
  }

  std::unique_ptr<Operation> operation(std::string_view message, int depth) {
    auto out = std::make_unique<Operation>();
    at_place([&] { return fmt::format("op '{}' ({})", out->name(), out->type); },
             [&] {
               std::vector<std::string_view> inputs, blocks;
               for (Fields f(message); f.next();) switch (f.key()) {
                   case bytes(1): out->type = f.text_view(); break;
                   case bytes(2): inputs.push_back(f.view()); break;
                   case bytes(3): out->outputs.push_back(named_value(f.view(), out.get())); break;
                   case bytes(4): blocks.push_back(f.view()); break;
                   case bytes(5): attribute(f.view(), out->attributes); break;
                   default: f.keep(out->extra);
                 }
               for (const std::string_view view : inputs) out->inputs.push_back(input(view));
               if (out->type.empty()) throw Error("an operation has no type");
               std::ranges::sort(out->inputs, {}, &Input::name);
               for (size_t i = 1; i < out->inputs.size(); ++i)
                 if (out->inputs[i].name == out->inputs[i - 1].name)
                   throw errorf("the input '{}' is given twice", out->inputs[i].name);
               for (const std::string_view view : blocks) {
                 out->blocks.push_back(std::make_unique<Block>());
                 block(view, *out->blocks.back(), depth + 1);
               }
               for (const auto& value : out->outputs) scope_.define(*value);
               if (out->type == "const") check_const(*out);
             });
    return out;
  }

  static void check_const(const Operation& op) {
    const auto value = op.attributes.find("val");
    if (value == op.attributes.end() || op.outputs.size() != 1)
      throw Error("a const operation needs the attribute 'val' and one output");
    if (!compatible(value->second.type, op.outputs[0]->type))
      throw Error("the value of a const operation has another type than its output")
          .found(value->second.type.text())
          .expected(op.outputs[0]->type.text());
  }

  Input input(std::string_view message) {
    const MapEntry entry = read_entry(message);
    Input out;
    out.name = entry.key;
    at_place([&] { return fmt::format("input '{}'", out.name); },
             [&] {
               for (Fields f(entry.value); f.next();) {
                 if (f.key() == bytes(1))
                   out.bindings.push_back(binding(f.view()));
                 else
                   f.keep(out.extra);
               }
             });
    return out;
  }

  Binding binding(std::string_view message) {
    Binding out;
    for (Fields f(message); f.next();) switch (f.key()) {
        case bytes(1): out.value = resolve(f.view()); break;
        case bytes(2):
          out.literal = std::make_shared<const Constant>(decode_constant(f.view(), blobs_));
          break;
        default: f.keep(out.extra);
      }
    if ((out.value != nullptr) == (out.literal != nullptr))
      throw Error(out.value ? "is bound to a name and a constant" : "is bound to nothing");
    return out;
  }

  const BlobOpener& blobs_;
  Scope scope_;
};

}  // namespace

Program decode_program(std::string_view message, const BlobOpener& blobs, std::string_view only) {
  return at_place([] { return std::string("program"); },
                  [&] { return ProgramReader(blobs).program(message, only); });
}

std::vector<FunctionOutline> outline_program(std::string_view message) {
  const BlobOpener none = [](const std::string& file, uint64_t offset, const Type& type) {
    return Blob{file, offset, 0, packed_bytes(type.size(), dtype_bits(type.dtype)), nullptr};
  };
  return at_place([] { return std::string("program"); },
                  [&] { return ProgramReader(none).outlines(message); });
}

}  // namespace anemone
