// FunctionInfo: a function prepared for analysis. Every value has a number, every block knows its uses, and constants
// are available as stored tensors or, when small, as elements. Immutable except for what it decodes on demand.
//     FunctionInfo info(function);
//     if (info.is_constant(info.id(value))) info.stored(info.id(value))->read(0, n, out);
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mil/op.h"
#include "mil/program.h"

namespace anemone {

// Constants up to this size are decoded once and known to type rules; larger ones stay as they are stored.
inline constexpr int64_t kSmallElements = 4096;

struct NumberedBlock {
  std::vector<std::vector<int>> uses;  // by operation: the values it or its nested blocks use
  std::vector<int> outputs;

  // The operations that use a value, in order: (value, operation) of each.
  std::span<const std::pair<int, int>> users(int id) const;
  std::vector<std::pair<int, int>> by_value;  // all of them, sorted
};

class FunctionInfo {
 public:
  explicit FunctionInfo(const Function& function);

  const Function& function() const { return function_; }
  int values() const { return static_cast<int>(values_.size()); }
  int id(const Value* value) const;
  const Value* value(int id) const { return values_[static_cast<size_t>(id)]; }
  const NumberedBlock& block(const Block& block) const { return blocks_.at(&block); }

  // The value comes from a const or constexpr operation.
  bool is_constant(int id) const { return constant_[static_cast<size_t>(id)]; }
  // Such a value, read as it is stored.
  std::shared_ptr<const StoredTensor> stored(int id) const;
  // Its elements, 4 bytes each, where it is small or lies in the file like that; else empty. Not for strings.
  const void* dense(int id) const;
  // A constant bound in place.
  const void* dense(const Constant& literal) const;

 private:
  void number(const Block& block);
  void add(const Value* value);
  std::vector<int> uses_of(const Operation& op) const;
  std::shared_ptr<const StoredTensor> make_stored(const Value& value) const;
  const void* decode(const void* key, const StoredTensor& tensor) const;

  const Function& function_;
  std::vector<const Value*> values_;  // by number
  std::vector<bool> constant_;        // by number
  // Numbers by value: a table with free places, because planning asks several times for every operand.
  struct Entry {
    const Value* value = nullptr;
    int id = 0;
  };
  static size_t hash_of(const Value* value);
  void insert(Entry entry);
  std::vector<Entry> ids_;  // its size is a power of two
  std::unordered_map<const Block*, NumberedBlock> blocks_;
  mutable std::recursive_mutex mutex_;
  mutable std::unordered_map<int, std::shared_ptr<const StoredTensor>> stored_;
  mutable std::unordered_map<const void*, std::vector<uint32_t>> decoded_;
};

}  // namespace anemone
