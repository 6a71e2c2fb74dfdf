#include "package/weight_layout.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <unordered_set>

#include "base/error.h"
#include "base/shape.h"
#include "base/thread_pool.h"
#include "package/blob.h"

namespace anemone {
namespace {

constexpr int64_t kMinElements = 10;
// Sources up to this size are produced at once, so that equal ones (tables, scales) are found.
constexpr uint64_t kSmallSource = 65536;

// Which constants the rule may move into the weight file: elsewhere coremltools expects values in place.
bool may_move(const Operation& op, bool is_attribute, const std::string& name) {
  if (op.type == "const") return is_attribute && name == "val";
  return op.type.starts_with("constexpr_") && name != "name";
}

struct Use {
  const Constant* constant;
  bool may_move;
};

// In the order in which the program is written.
class Collector {
 public:
  std::vector<Use> uses;

  void program(const Program& program) {
    std::vector<const Function*> sorted;
    for (const auto& function : program.functions) sorted.push_back(function.get());
    std::ranges::sort(sorted, {}, [](const Function* f) -> const std::string& { return f->name; });
    for (const Function* function : sorted) {
      block(function->body);
      attributes(function->attributes);
    }
    attributes(program.attributes);
  }

 private:
  void constant(const Constant& constant, bool movable) {
    uses.push_back({&constant, movable});
    if (const auto* items = std::get_if<Constant::Items>(&constant.data))
      for (const Constant& item : *items) this->constant(item, false);
  }

  void attributes(const Attributes& all) {
    for (const auto& [name, value] : all) constant(value, false);
  }

  void block(const Block& block) {
    for (const auto& op : block.ops) operation(*op);
    attributes(block.attributes);
  }

  void operation(const Operation& op) {
    std::vector<const Input*> sorted;
    for (const Input& input : op.inputs) sorted.push_back(&input);
    std::ranges::sort(sorted, {}, [](const Input* input) -> const std::string& { return input->name; });
    for (const Input* input : sorted)
      for (const Binding& binding : input->bindings)
        if (binding.literal) constant(*binding.literal, may_move(op, false, input->name));
    for (const auto& inner : op.blocks) block(*inner);
    for (const auto& [name, value] : op.attributes) constant(value, may_move(op, true, name));
  }
};

bool rule_allows(DType dtype, int spec_version) {
  switch (dtype) {
    case DType::fp16:
    case DType::fp32:
    case DType::int8:
    case DType::uint8: return true;
    case DType::int16:
    case DType::uint16:
    case DType::int32:
    case DType::uint32:
    case DType::int4:
    case DType::uint1:
    case DType::uint2:
    case DType::uint3:
    case DType::uint4:
    case DType::uint6: return spec_version >= 9;
    default: return false;
  }
}

bool goes_to_file(const Use& use, int spec_version) {
  const Constant& constant = *use.constant;
  if (constant.is_blob()) return true;
  const auto* source = std::get_if<Constant::Source>(&constant.data);
  if (!source && !std::holds_alternative<Constant::Bytes>(constant.data)) return false;
  const Type& type = source ? (*source)->type() : constant.type;
  if (!type.is_tensor() || type.size() < kMinElements) return false;
  if (source) return blob_dtype_code(type.dtype) != 0;
  // One that carries fields we do not know stays as it was.
  return use.may_move && constant.extra.empty() && rule_allows(type.dtype, spec_version);
}

FileBlob blob_of_constant(const Constant& constant) {
  FileBlob out;
  const auto* source = std::get_if<Constant::Source>(&constant.data);
  const Type& type = source ? (*source)->type() : constant.type;
  out.dtype = type.dtype;
  out.elements = type.size();
  out.bytes = packed_bytes(out.elements, dtype_bits(type.dtype));
  if (blob_dtype_code(type.dtype) == 0)
    throw errorf("values of {} cannot be stored in a weight file", dtype_name(type.dtype));
  if (!source) {
    constant.check_size();
    out.data = constant.bytes();
    if (constant.is_blob()) out.file = std::get<Blob>(constant.data).file;
  } else if (out.bytes <= kSmallSource && !(*source)->late()) {
    auto made = std::make_shared<Constant::Bytes>(out.bytes);
    (*source)->rows(0, type.rank() == 0 ? 1 : type.dim(0).size(), *made);
    out.data = *made;
    out.made = std::move(made);
  } else {
    out.source = *source;
  }
  return out;
}

// A hash of up to 18 pieces of 4 KiB, head and tail among them: enough to distinguish the weights of layers.
uint64_t sampled_hash(std::span<const std::byte> data) {
  constexpr size_t kPiece = 4096, kPieces = 18;
  if (data.size() <= kPiece * kPieces) return XXH3_64bits(data.data(), data.size());
  uint64_t hash = 0;
  for (size_t i = 0; i < kPieces; ++i) {
    const size_t at = (data.size() - kPiece) / (kPieces - 1) * i;
    hash = XXH3_64bits_withSeed(data.data() + at, kPiece, hash);
  }
  return XXH3_64bits_withSeed(data.data() + data.size() - kPiece, kPiece, hash);
}

void release(const FileBlob& blob, size_t at, size_t bytes) {
  if (blob.file)
    blob.file->release(static_cast<uint64_t>(blob.data.data() - blob.file->bytes().data()) + at, bytes);
}

bool same_data(const FileBlob& a, const FileBlob& b) {
  if (a.data.data() == b.data.data()) return true;
  constexpr size_t kPart = size_t{16} << 20;
  for (size_t at = 0; at < a.data.size(); at += kPart) {
    const size_t part = std::min(kPart, a.data.size() - at);
    const bool same = std::memcmp(a.data.data() + at, b.data.data() + at, part) == 0;
    for (const FileBlob* blob : {&a, &b}) release(*blob, at, part);
    if (!same) return false;
  }
  return true;
}

// Gives equal blobs one number. `leader[i]` is the first blob equal to blob i.
std::vector<size_t> find_equal(const std::vector<FileBlob>& blobs) {
  std::vector<size_t> leader(blobs.size());
  std::map<std::pair<DType, int64_t>, std::vector<size_t>> by_type;
  for (size_t i = 0; i < blobs.size(); ++i) {
    leader[i] = i;
    if (!blobs[i].source) by_type[{blobs[i].dtype, blobs[i].elements}].push_back(i);
  }
  for (const auto& [type, members] : by_type) {
    if (members.size() < 2) continue;  // nothing to compare with: its data is not read
    std::unordered_map<uint64_t, std::vector<size_t>> by_hash;
    for (const size_t i : members) {
      std::vector<size_t>& candidates = by_hash[sampled_hash(blobs[i].data)];
      // A touched page may have mapped two megabytes: 886 MB resident for 1 GB of weights without this.
      release(blobs[i], 0, blobs[i].data.size());
      const auto found =
          std::ranges::find_if(candidates, [&](size_t j) { return same_data(blobs[i], blobs[j]); });
      if (found != candidates.end())
        leader[i] = *found;
      else
        candidates.push_back(i);
    }
  }
  return leader;
}

void prepare_sources(const std::vector<Use>& uses, ThreadPool& pool) {
  std::unordered_set<const WeightSource*> done;
  for (const Use& use : uses)
    if (const auto* source = std::get_if<Constant::Source>(&use.constant->data))
      if (done.insert(source->get()).second) (*source)->prepare(pool);
}

// Where the bytes are, before looking at them: blobs of one record and constants of one source are equal by
// name.
const void* origin(const Constant& constant) {
  if (const auto* source = std::get_if<Constant::Source>(&constant.data)) return source->get();
  return constant.bytes().data();
}

}  // namespace

std::optional<uint64_t> WeightLayout::place(const Constant& constant) const {
  const auto it = blob_of.find(&constant);
  return it == blob_of.end() ? std::nullopt : std::optional(blobs[it->second].record_offset);
}

WeightLayout lay_out_weights(const Program& program, int spec_version, ThreadPool& pool) {
  Collector collector;
  collector.program(program);
  prepare_sources(collector.uses, pool);

  std::vector<FileBlob> all;
  std::vector<std::pair<const Constant*, size_t>> users;
  std::map<std::tuple<const void*, DType, int64_t>, size_t> by_origin;
  for (const Use& use : collector.uses) {
    if (!goes_to_file(use, spec_version)) continue;
    FileBlob blob = blob_of_constant(*use.constant);
    const auto [it, fresh] =
        by_origin.try_emplace({origin(*use.constant), blob.dtype, blob.elements}, all.size());
    if (fresh) all.push_back(std::move(blob));
    users.emplace_back(use.constant, it->second);
  }

  const std::vector<size_t> leader = find_equal(all);
  WeightLayout layout;
  std::vector<size_t> number(all.size());
  uint64_t end = kBlobAlignment;  // past the header
  for (size_t i = 0; i < all.size(); ++i) {
    if (leader[i] != i) {
      number[i] = number[leader[i]];
      continue;
    }
    number[i] = layout.blobs.size();
    FileBlob& blob = layout.blobs.emplace_back(std::move(all[i]));
    blob.record_offset = (end + kBlobAlignment - 1) / kBlobAlignment * kBlobAlignment;
    if (__builtin_add_overflow(blob.data_offset(), blob.bytes, &end))
      throw Error("the weights are too large");
  }
  for (const auto& [constant, index] : users) layout.blob_of[constant] = number[index];
  layout.file_bytes = end;
  layout.shared = users.size() - layout.blobs.size();
  return layout;
}

}  // namespace anemone
