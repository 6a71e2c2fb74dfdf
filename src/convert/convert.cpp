#include "convert/convert.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/staged.h"
#include "base/thread_pool.h"
#include "convert/files.h"
#include "convert/residual.h"
#include "convert/rope_tables.h"
#include "convert/target.h"
#include "families/family.h"
#include "package/package.h"
#include "plan/shards.h"
#include "text/tokenizer.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;
using lower::TokenCount;

constexpr int64_t kMostContext = 1 << 20;  // far above what a cache on the device can hold

class Converter {
 public:
  Converter(const fs::path& source, const ConvertOptions& options)
      : options_(options),
        shared_(std::make_shared<const Checkpoint>(Checkpoint::open(source))),
        checkpoint_(*shared_),
        model_(describe(checkpoint_)),
        pool_(options.threads),
        weights_(checkpoint_, options.precision),
        target_(parse_target(options.target)),
        // iPhones refuse more than two states.
        kv_(options.kv.value_or(target_.phone() ? lower::KvKind::packed : lower::KvKind::state)) {
    if (options.progress) weights_.on_part = [this](uint64_t bytes) { advance(bytes); };
  }

  ConvertReport run(const fs::path& bundle) {
    check_output(checkpoint_.path(), bundle, options_.overwrite, {kBundleFile});
    check();
    plan();
    StagedOutput staged(bundle, options_.overwrite);
    folder_ = staged.path();
    check_disk(staged.target().parent_path());
    choose_residual_scale();
    staged.make_folder();
    describe_bundle();
    write_embedding();
    if (options_.whole) {
      write_whole();
    } else {
      for (size_t i = 0; i < shards_.layers.size(); ++i) write_layers(i);
      for (size_t i = 0; i < shards_.heads.size(); ++i) write_head(i);
    }
    report_.info.tokenizer = write_tokenizer(checkpoint_, folder_);
    check_tokenizer();
    report_.info.files = hash_files(folder_, pool_);
    write_text(folder_ / kBundleFile, report_.info.json());
    for (const BundleFile& f : report_.info.files) report_.bytes += f.bytes;
    staged.commit();
    return std::move(report_);
  }

 private:
  void check() {
    first_ = options_.first_layer;
    last_ = options_.last_layer ? options_.last_layer : model_.layers.size();
    if (first_ >= last_ || last_ > model_.layers.size())
      throw errorf("the model has no layers {} to {}", first_, static_cast<int64_t>(last_) - 1)
          .expected(fmt::format("0 to {}", model_.layers.size() - 1));
    if (options_.context.empty() || options_.tokens.empty())
      throw errorf("a bundle needs a context and a number of tokens")
          .hint("such as --context 2048 --tokens 1");
    check_head_rows();
    if (const double s = options_.residual_scale.value_or(1); !(s >= 0x1p-16 && s <= 0x1p16))
      throw errorf("a residual scale must be 2^-16 to 2^16").found(fmt::format("{}", s));
    const bool several = options_.context.size() * options_.tokens.size() > 1;
    for (const TokenCount& t : options_.tokens) {
      if (!t.fixed() && several)
        throw errorf("a range of tokens does not go together with several functions in one package")
            .hint(
                "the ANE compiler refuses flexible sizes in multifunction programs: give fixed counts, such "
                "as --tokens 1,64");
      if (!t.fixed() && options_.kv_write == lower::KvWrite::slice)
        throw errorf("--kv-write slice needs a fixed number of tokens")
            .hint("use --kv-write mask with a range");
      if (t.least < 1) throw errorf("a token count is at least 1");
      if (t.most < t.least)
        throw errorf("a range of tokens goes from fewer to more")
            .found(fmt::format("{}-{}", t.least, t.most));
    }
    check_twice();
    if (options_.embedding_in_head) check_tied();
    for (const int64_t context : options_.context) {
      if (context < 2 || context > kMostContext)
        throw errorf("the context must be 2 to {}", kMostContext).found(fmt::format("{}", context));
      for (const TokenCount& t : options_.tokens)
        if (t.most > context) throw errorf("{} tokens at once do not fit a context of {}", t.most, context);
    }
    check_model_context();
  }

  // A bundle without words is still of use, so these are notes.
  void check_tokenizer() {
    if (report_.info.tokenizer.empty()) {
      report_.notes.push_back("the checkpoint has no tokenizer: the bundle takes token ids, not text");
      return;
    }
    try {
      const int32_t tokens = Tokenizer::load(tokenizer_source(checkpoint_))->vocabulary_size();
      if (tokens > model_.vocab)
        report_.notes.push_back(fmt::format(
            "the tokenizer has {} tokens and the model knows {}: text that needs the others cannot be read",
            tokens, model_.vocab));
    } catch (const Error& e) {
      report_.notes.push_back(
          fmt::format("the tokenizer cannot be read, so the bundle takes token ids, not text: {}", e.what()));
    }
  }

  // Beyond the length that a model was made for most only get worse; with a dynamic rope the keys in the cache
  // would have to be rotated anew with every token.
  void check_model_context() {
    const int64_t longest = *std::max_element(options_.context.begin(), options_.context.end());
    for (const Rope& rope : model_.ropes)
      if (rope.scaling == RopeScaling::dynamic && longest > rope.original_context)
        throw errorf("the model's dynamic rope scaling changes with every token beyond {} positions",
                     rope.original_context)
            .found(fmt::format("a context of {}", longest))
            .hint(fmt::format("--context {} or less", rope.original_context));
    if (longest > model_.context)
      report_.notes.push_back(fmt::format(
          "the model was made for {} positions at most, and the context is {}", model_.context, longest));
  }

  void check_head_rows() const {
    constexpr int64_t kMostPieces = 1024;  // each is an output, and a program of more takes minutes to write
    if (options_.head_rows < 1) throw errorf("a convolution of the head has at least one row");
    const int64_t pieces = (model_.vocab + options_.head_rows - 1) / options_.head_rows;
    if (pieces > kMostPieces)
      throw errorf("a head of {} rows in convolutions of {} would have {} of them", model_.vocab,
                   options_.head_rows, pieces)
          .expected(fmt::format("at most {}", kMostPieces))
          .hint(fmt::format("--head-rows {} or more", (model_.vocab + kMostPieces - 1) / kMostPieces));
  }

  void check_tied() const {
    if (!model_.tied_head || model_.lm_head.interleaved_head)
      throw errorf("--embedding head needs a model whose head is its embedding")
          .hint("this one has a table of its own: --embedding fp16 or int8");
    if (options_.precision == Precision::int8_tensor)
      throw errorf("--embedding head goes with --precision int8 and fp16")
          .hint("one scale for a whole piece of the head is too coarse for an embedding");
  }

  // Functions are named by these.
  void check_twice() const {
    std::set<int64_t> contexts, tokens;
    for (const int64_t context : options_.context)
      if (!contexts.insert(context).second) throw errorf("the context {} is given twice", context);
    for (const TokenCount& t : options_.tokens)
      if (!tokens.insert(t.most).second) throw errorf("the token count {} is given twice", t.most);
  }

  void plan() {
    const auto bytes = [&](const WeightRef& ref) {
      return CheckpointWeights::bytes(ref, options_.precision);
    };
    shards_ = plan_shards(
        model_, first_, last_, bytes,
        {.bytes = options_.shard_bytes, .head_rows = options_.head_rows, .whole = options_.whole});
    if (!options_.embedding_in_head)
      embedding_bytes_ =
          static_cast<uint64_t>(model_.vocab * model_.hidden) * (options_.embedding_int8 ? 1 : 2);
    total_ = embedding_bytes_ + shards_.bytes();
    uint64_t largest = options_.whole ? shards_.bytes() : 0;
    for (const auto* list : {&shards_.layers, &shards_.heads})
      for (const Shard& shard : *list) largest = std::max(largest, shard.bytes);
    for (std::string& note : target_notes(target_, largest, options_.context.back()))
      report_.notes.push_back(std::move(note));
  }

  // Weights, the programs (a few MB at most), and room to breathe.
  void check_disk(const fs::path& folder) const {
    struct statvfs info {};
    if (::statvfs(folder.c_str(), &info) != 0) return;
    const uint64_t free = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
    const uint64_t need = total_ + total_ / 100 + (4 << 20);
    if (free < need)
      throw errorf("the disk has too little room for the bundle")
          .at(folder.string())
          .found(fmt::format("{:.1f} MB free", static_cast<double>(free) / 1e6))
          .expected(fmt::format("{:.1f} MB", static_cast<double>(need) / 1e6));
  }

  void choose_residual_scale() {
    if (options_.residual_scale) {
      residual_scale_ = *options_.residual_scale;
      return;
    }
    const ResidualChoice choice = anemone::choose_residual_scale(shared_, model_, options_.threads);
    residual_scale_ = choice.scale;
    report_.notes.push_back(
        fmt::format("the residual stream reaches {:.0f} (layer {}) on ordinary text: scale {}",
                    choice.largest, choice.layer, choice.scale));
  }

  void describe_bundle() {
    BundleInfo& b = report_.info;
    b.tool = options_.tool;
    b.family = model_.family;
    b.name = model_.name;
    b.architecture = model_.architecture;
    b.source = checkpoint_.path().filename().string();
    b.author = checkpoint_.author();
    b.license = checkpoint_.licence();
    b.hidden = model_.hidden;
    b.layers = static_cast<int64_t>(last_ - first_);
    b.heads = model_.heads;
    b.kv_heads = model_.kv_heads;
    b.head_dim = model_.head_dim;
    b.cache_width = lower::cache_width(model_);
    b.vocab = model_.vocab;
    b.model_context = model_.context;
    b.precision = options_.precision == Precision::fp16   ? "fp16"
                  : options_.precision == Precision::int8 ? "int8"
                                                          : "int8-tensor";
    b.kv = kv_ == lower::KvKind::state ? "state" : kv_ == lower::KvKind::packed ? "packed" : "io";
    b.kv_write = options_.kv_write == lower::KvWrite::mask ? "mask" : "slice";
    b.target = target_.name;
    b.argmax = options_.argmax;
    b.residual_scale = residual_scale_;
    b.bos = model_.bos;
    b.eos = model_.eos;
    bool full = false;
    int64_t window = 0;
    for (size_t i = first_; i < last_; ++i) {
      const int64_t w = model_.layers[i].window;
      full = full || w == 0;
      if (w && window && w != window)
        throw errorf("layers with windows of {} and of {} in one model", window, w);
      window = w ? w : window;
    }
    if (full) b.masks.push_back({"mask", 0});
    if (window) b.masks.push_back({"mask_local", window});
    for (size_t r = 0; r < model_.ropes.size(); ++r) b.ropes.push_back(rope_table(model_.ropes[r], r));
  }

  // What sources made since the last whole file, and what they make now.
  void advance(uint64_t bytes) {
    const std::lock_guard lock(progress_mutex_);
    done_ = std::min(done_ + bytes, total_);
    const auto now = std::chrono::steady_clock::now();
    if (now - last_call_ < std::chrono::milliseconds(50)) return;
    last_call_ = now;
    if (!options_.progress(done_, total_, current_)) throw errorf("cancelled");
  }

  // A file is whole: the figures are exact again.
  void step(uint64_t bytes) {
    whole_files_ += bytes;
    done_ = whole_files_;
    if (options_.progress && !options_.progress(done_, total_, current_)) throw errorf("cancelled");
  }

  std::string function_name(int64_t context, const TokenCount& tokens) const {
    std::string name;
    if (options_.context.size() > 1) name = fmt::format("c{}", context);
    if (options_.tokens.size() > 1) name += fmt::format("{}t{}", name.empty() ? "" : "_", tokens.most);
    return name.empty() ? "main" : name;
  }

  lower::LayersSpec layers_spec(const Shard& range, int64_t context, const TokenCount& tokens) const {
    lower::LayersSpec spec;
    spec.first = range.first;
    spec.last = range.last;
    spec.final_norm = range.last == last_;
    spec.context = context;
    spec.tokens = tokens;
    spec.kv = kv_;
    spec.write = options_.kv_write;
    if (options_.context.size() > 1) spec.state_suffix = fmt::format("_c{}", context);
    spec.residual_scale = residual_scale_;
    return spec;
  }

  lower::HeadSpec head_spec(const Shard& range, const TokenCount& tokens) const {
    lower::HeadSpec spec;
    spec.first_row = static_cast<int64_t>(range.first);
    spec.last_row = static_cast<int64_t>(range.last);
    spec.piece_rows = options_.head_rows;
    spec.tokens = tokens;
    spec.argmax = options_.argmax;
    return spec;
  }

  std::vector<HeadPiece> head_pieces(const Shard& range) const {
    std::vector<HeadPiece> pieces;
    const auto last = static_cast<int64_t>(range.last);
    for (auto row = static_cast<int64_t>(range.first); row < last; row += options_.head_rows) {
      HeadPiece& piece = pieces.emplace_back();
      const size_t number = pieces.size() - 1;
      piece.first_row = row;
      piece.rows = std::min(options_.head_rows, last - row);
      if (options_.argmax) {
        piece.best = fmt::format("best_{}", number);
        piece.high = fmt::format("high_{}", number);
        piece.low = fmt::format("low_{}", number);
      } else {
        piece.logits = fmt::format("logits_{}", number);
      }
    }
    return pieces;
  }

  void write_layers(size_t index) {
    const Shard& range = shards_.layers[index];
    Package package;
    Stage stage = layers_stage(Stage::Kind::layers, fmt::format("layers_{:02}.mlpackage", index), range);
    for_functions(stage, [&](const std::string& name, int64_t context, const TokenCount& tokens) {
      lower::build_layers(package.program, name, model_, weights_, layers_spec(range, context, tokens));
    });
    finish(package, stage, range.bytes, fmt::format("layers {}-{}", range.first, range.last - 1));
  }

  void write_head(size_t index) {
    const Shard& range = shards_.heads[index];
    Package package;
    Stage stage;
    stage.kind = Stage::Kind::head;
    stage.package = fmt::format("head_{:02}.mlpackage", index);
    for (const TokenCount& tokens : options_.tokens) {
      const std::string name = options_.tokens.size() > 1 ? fmt::format("t{}", tokens.most) : "main";
      lower::build_head(package.program, name, model_, weights_, head_spec(range, tokens));
      stage.functions.push_back({name, tokens.least, tokens.most, 0});
    }
    stage.pieces = head_pieces(range);
    finish(package, stage, range.bytes, fmt::format("rows {}-{}", range.first, range.last - 1));
  }

  // Layers and head in one package: every function does both.
  void write_whole() {
    const Shard &layers = shards_.layers[0], &head = shards_.heads[0];
    Package package;
    Stage stage = layers_stage(Stage::Kind::whole, "whole.mlpackage", layers);
    for_functions(stage, [&](const std::string& name, int64_t context, const TokenCount& tokens) {
      lower::build_whole(package.program, name, model_, weights_, layers_spec(layers, context, tokens),
                         head_spec(head, tokens));
    });
    stage.pieces = head_pieces(head);
    finish(package, stage, layers.bytes + head.bytes,
           fmt::format("layers {}-{}, head", layers.first, layers.last - 1));
  }

  static Stage layers_stage(Stage::Kind kind, std::string package, const Shard& range) {
    Stage stage;
    stage.kind = kind;
    stage.package = std::move(package);
    stage.first_layer = static_cast<int64_t>(range.first);
    stage.last_layer = static_cast<int64_t>(range.last);
    return stage;
  }

  // Calls `build` for each length and number of tokens, and notes the function in the stage.
  void for_functions(Stage& stage,
                     const std::function<void(const std::string&, int64_t, const TokenCount&)>& build) const {
    for (const int64_t context : options_.context)
      for (const TokenCount& tokens : options_.tokens) {
        const std::string name = function_name(context, tokens);
        build(name, context, tokens);
        stage.functions.push_back({name, tokens.least, tokens.most, context});
      }
  }

  void finish(Package& package, const Stage& stage, uint64_t bytes, const std::string& holds) {
    package.spec_version = opset_info(package.program.functions[0]->opset).spec_version;
    package.description = description_of(package.program);
    set_token_ranges(package);
    Metadata meta;
    meta.description = fmt::format("{}: {}", model_.name.empty() ? model_.family : model_.name, holds);
    meta.author = checkpoint_.author();
    meta.license = checkpoint_.licence();
    meta.user["anemone.tool"] = options_.tool;
    meta.user["anemone.source"] = checkpoint_.path().filename().string();
    package.description.metadata = meta;
    current_ = stage.package;
    WriteOptions write;
    write.pool = &pool_;
    const WriteReport written = write_package(package, folder_ / stage.package, write);
    report_.rows.push_back({stage.package, holds, bytes, written.weight_bytes});
    report_.info.stages.push_back(stage);
    if (options_.embedding_in_head)
      for (size_t i = 0; i < stage.pieces.size(); ++i) note_rows(stage, i);
    step(bytes);
  }

  // A flexible token count is written as a range, with the fewest as the default.
  void set_token_ranges(Package& package) const {
    const TokenCount& tokens = options_.tokens[0];
    if (tokens.fixed()) return;
    for (const auto& input : package.program.functions[0]->inputs)
      for (Feature& feature : package.description.main.inputs) {
        if (feature.name != input->name || input->type.fixed()) continue;
        ArrayFeature& array = feature.type.array;
        array.shape.clear();
        array.range.clear();
        for (const Dim d : input->type.shape) {
          const int64_t low = d.known() ? d.size() : tokens.least, high = d.known() ? d.size() : tokens.most;
          array.shape.push_back(low);
          array.range.push_back({static_cast<uint64_t>(low), high});
        }
      }
  }

  // Where the rows of a piece of the head lie in the package that was just written.
  void note_rows(const Stage& stage, size_t piece) {
    const Package package = read_package(folder_ / stage.package);
    const std::string name = fmt::format("head_{}_weight", piece);
    EmbeddingPart part{fmt::format("{}/Data/com.apple.CoreML/weights/weight.bin", stage.package), 0, 0,
                       stage.pieces[piece].first_row, stage.pieces[piece].rows};
    const auto offset = [&](const Constant* constant) {
      const Blob* blob = constant ? std::get_if<Blob>(&constant->data) : nullptr;
      if (!blob)
        throw errorf("the last piece of the head, {} rows, is too small to hold embeddings", part.rows)
            .hint("choose another --head-rows");
      return blob->data_offset;
    };
    for (const auto& op : package.program.functions[0]->body.ops) {
      if (op->outputs.empty() || op->outputs[0]->name != name) continue;
      if (op->type == "const") {
        part.offset = offset(op->outputs[0]->constant());
      } else {
        part.offset = offset(op->input("data")->bindings[0].constant());
        part.scales = offset(op->input("scale")->bindings[0].constant());
      }
    }
    ANEMONE_CHECK(part.offset > 0);
    report_.info.embedding_parts.push_back(part);
  }

  void write_embedding() {
    BundleInfo& b = report_.info;
    b.embedding_scale = model_.embedding_scale * residual_scale_;
    if (options_.embedding_in_head) {
      b.embedding_dtype = options_.precision == Precision::fp16 ? "fp16" : "int8";
      return;
    }
    b.embedding_file = "embedding.bin";
    b.embedding_dtype = options_.embedding_int8 ? "int8" : "fp16";
    if (options_.embedding_int8) b.embedding_scales = "embedding_scales.bin";
    current_ = b.embedding_file;
    write_embedding_table(checkpoint_.tensor(model_.embedding.tensor), model_.embedding, folder_, b, pool_);
    report_.rows.push_back({b.embedding_file, "embedding", embedding_bytes_, embedding_bytes_});
    step(embedding_bytes_);
  }

  const ConvertOptions& options_;
  std::shared_ptr<const Checkpoint> shared_;
  const Checkpoint& checkpoint_;
  Model model_;
  ThreadPool pool_;
  CheckpointWeights weights_;
  size_t first_ = 0, last_ = 0;
  ShardPlan shards_;
  uint64_t embedding_bytes_ = 0, total_ = 0;
  std::mutex progress_mutex_;
  uint64_t done_ = 0, whole_files_ = 0;
  std::string current_;  // the file that is being written
  std::chrono::steady_clock::time_point last_call_;
  ConvertTarget target_;
  lower::KvKind kv_;
  double residual_scale_ = 1;
  fs::path folder_;
  ConvertReport report_;
};

}  // namespace

ConvertReport convert(const fs::path& source, const fs::path& bundle, const ConvertOptions& options) {
  return Converter(source, options).run(bundle);
}

}  // namespace anemone
