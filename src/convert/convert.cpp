#include "convert/convert.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "base/error.h"
#include "base/staged.h"
#include "base/thread_pool.h"
#include "bundle/embedding.h"
#include "bundle/files.h"
#include "bundle/writer.h"
#include "compress/compressed_program.h"
#include "convert/request.h"
#include "convert/residual.h"
#include "convert/rope_tables.h"
#include "convert/stages.h"
#include "families/experts.h"
#include "families/family.h"
#include "families/weights.h"
#include "plan/precision.h"
#include "text/tokenizer.h"
#include "text/tokenizer_export.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

class Converter {
 public:
  Converter(const fs::path& source, const ConvertOptions& options)
      : options_(options),
        shared_(std::make_shared<const Checkpoint>(Checkpoint::open(source))),
        checkpoint_(*shared_),
        model_(describe(checkpoint_)),
        pool_(options.threads),
        weights_(checkpoint_, options.precision) {
    weights_.keep_blocks = options.keep_blocks;
    // Weights that get other forms are read several times: then the bytes read do not measure the progress.
    if (options.progress) weights_.on_part = [this](uint64_t bytes) { advance(options_.recipe ? 0 : bytes); };
  }

  ConvertReport run(const fs::path& bundle) {
    if (options_.recipe) {
      check_recipe(*options_.recipe);
      patterns_.emplace(*options_.recipe);
    }
    check_output(checkpoint_.path(), bundle, options_.overwrite, {kBundleFile});
    if (!options_.skip.empty()) set_skip(model_, options_.skip);
    if (options_.keep_blocks) check_blocks();
    request_ = make_request(model_, options_);
    report_.notes = checkpoint_.notes();
    report_.notes.insert(report_.notes.end(), request_.notes.begin(), request_.notes.end());
    report_.chosen = request_.chosen;
    stages_ = plan_stages(model_, request_, options_);
    plan_tables();
    sum_up();
    StagedOutput staged(bundle, options_.overwrite);
    check_disk(staged.target().parent_path());
    choose_residual_scale();
    staged.make_folder();
    fill_info();
    BundleWriter writer(staged.path(), pool_);
    for (const Planned& table : tables_) write_table(writer, table);
    for (auto begin = stages_.begin(); begin != stages_.end();) {
      const auto end = std::find_if(begin, stages_.end(),
                                    [&](const StagePlan& plan) { return plan.package != begin->package; });
      write_stages(writer, {begin, end});
      begin = end;
    }
    if (options_.keep_blocks) note_kept();
    report_.info.tokenizer = write_tokenizer(checkpoint_, writer.folder());
    export_tokenizer(writer.folder());
    check_tokenizer();
    writer.finish(report_.info);
    for (const BundleFile& f : report_.info.files) report_.bytes += f.bytes;
    if (report_.compressed) sum_up_compressed(writer.folder());
    if (patterns_) patterns_->check();
    staged.commit();
    return std::move(report_);
  }

 private:
  // A table of vectors that the host reads.
  struct Planned {
    const WeightRef* ref;
    EmbeddingTable table;
    uint64_t bytes = 0;
  };

  void check_blocks() const {
    bool any = false;
    each_weight(model_, [&](const WeightUse& w) {
      any = any || (w.is_matrix && KeptBlocks::of(checkpoint_, w.ref, 1));
    });
    if (!any)
      throw errorf("--keep-blocks: the checkpoint holds no blocks of 4 or 8 bits that Core ML can take")
          .at(checkpoint_.path().string())
          .hint("leave it out: the weights are quantized again");
  }

  void note_kept() {
    report_.notes.push_back(fmt::format(
        "{} matrices keep their blocks: with blocks along the inputs Core ML computes on the CPU, or on the "
        "ANE with wrong numbers (rule Q02); for the ANE leave out --keep-blocks",
        weights_.kept));
  }

  // A bundle without a tokenizer is still useful, so these are notes.
  void check_tokenizer() {
    if (report_.info.tokenizer.empty()) {
      report_.notes.push_back("the checkpoint has no tokenizer: the bundle takes token ids, not text");
      return;
    }
    try {
      const int32_t tokens = Tokenizer::load(checkpoint_.tokenizer().load)->vocabulary_size();
      report_.reads_text = true;
      if (tokens > model_.vocab)
        report_.notes.push_back(fmt::format(
            "the tokenizer has {} tokens, but the model only {}: text that needs the others cannot be used",
            tokens, model_.vocab));
    } catch (const Error& e) {
      report_.notes.push_back(
          fmt::format("the tokenizer cannot be read, so the bundle takes token ids, not text: {}", e.what()));
    }
  }

  // For other programs: a tokenizer.json beside the file that we read.
  void export_tokenizer(const fs::path& folder) {
    try {
      for (const TokenizerFile& file : exported_tokenizer(checkpoint_))
        write_text(folder / file.name, file.made);
    } catch (const Error& e) {
      report_.notes.push_back(
          fmt::format("no tokenizer.json is written for other programs: {}", e.message()));
    }
  }

  void plan_tables() {
    BundleInfo& b = report_.info;
    const Embedding& e = model_.embedding;
    b.first_position = e.first_position;
    each_weight(model_, [&](const WeightUse& w) {
      if (w.place != WeightUse::Place::table) return;
      const bool tokens = &w.ref == &e.tokens;
      if (tokens && options_.embedding_in_head) {
        b.tokens = {"", options_.precision == Precision::fp16 ? "fp16" : "int8", "", model_.vocab};
        return;
      }
      const std::string name = tokens ? "embedding" : &w.ref == &e.positions ? "positions" : "types";
      const bool int8 = tokens && options_.embedding_int8;
      EmbeddingTable& table = tokens ? b.tokens : &w.ref == &e.positions ? b.positions : b.types;
      table = {name + ".bin", int8 ? "int8" : "fp16", int8 ? name + "_scales.bin" : "", w.ref.rows()};
      tables_.push_back({&w.ref, table, static_cast<uint64_t>(w.elements()) * (int8 ? 1 : 2)});
    });
  }

  void sum_up() {
    uint64_t largest = 0;
    for (const StagePlan& stage : stages_) {
      total_ += stage.bytes;
      largest = std::max(largest, stage.bytes);
    }
    for (const Planned& table : tables_) total_ += table.bytes;
    const int64_t longest = std::max(request_.contexts.back(), request_.tokens.back().most);
    for (std::string& note : target_notes(request_.target, largest, longest))
      report_.notes.push_back(std::move(note));
  }

  // Weights, the programs (a few MB at most), and a reserve.
  void check_disk(const fs::path& folder) const {
    struct statvfs info {};
    if (::statvfs(folder.c_str(), &info) != 0) return;
    const uint64_t free = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
    const uint64_t need = total_ + total_ / 100 + (4 << 20);
    if (free < need)
      throw errorf("there is not enough disk space for the bundle")
          .at(folder.string())
          .found(fmt::format("{:.1f} MB free", static_cast<double>(free) / 1e6))
          .expected(fmt::format("{:.1f} MB", static_cast<double>(need) / 1e6));
  }

  void sum_up_compressed(const fs::path& folder) {
    CompressReport& c = *report_.compressed;
    c.idle_skips = patterns_->idle_skips();
    c.bytes_before = c.bytes_after = folder_bytes(folder);
    for (const CompressReport::Row& row : c.rows) {
      c.bytes_before += row.bytes_before;
      c.bytes_before -= row.bytes_after;
    }
  }

  void choose_residual_scale() {
    if (options_.residual_scale) {
      residual_scale_ = *options_.residual_scale;
      return;
    }
    current_ = "how large values become";
    if (!step_to(0)) throw errorf("cancelled");
    if (options_.glance) return glance_at_scale();
    const ResidualChoice choice = anemone::choose_residual_scale(shared_, model_, options_.threads);
    residual_scale_ = choice.scale;
    report_.notes.push_back(
        fmt::format("the residual stream reaches {:.0f} (layer {}) on ordinary text: scale {}",
                    choice.largest, choice.layer, choice.scale));
  }

  // Nobody asked for it, so a model whose values are not finite is no error here: verify says what is wrong with it.
  void glance_at_scale() {
    try {
      const ResidualChoice choice = glance_at_residual(shared_, model_, options_.threads);
      residual_scale_ = choice.scale;
      if (choice.scale != 1)
        report_.chosen.push_back(
            fmt::format("residual scale {}: the residual stream reaches {:.0f} (layer {}) on ordinary text",
                        choice.scale, choice.largest, choice.layer));
    } catch (const Error& e) {
      report_.notes.push_back(fmt::format("the residual scale stays 1: {}", e.what()));
    }
  }

  void fill_info() {
    BundleInfo& b = report_.info;
    b.kind = request_.kind;
    b.tool = options_.tool;
    b.family = model_.family;
    b.name = model_.name;
    b.architecture = model_.architecture;
    b.source = checkpoint_.path().filename().string();
    b.author = checkpoint_.author();
    b.license = checkpoint_.license();
    b.inferred = model_.inferred;
    b.hidden = model_.hidden;
    b.layers = static_cast<int64_t>(request_.last_layer - request_.first_layer);
    const ModelSizes sizes = sizes_of(model_);
    b.heads = sizes.heads;
    b.kv_heads = sizes.kv_heads;
    b.head_dim = sizes.head_dim;
    b.vocab = model_.vocab;
    b.model_context = model_.context;
    b.precision =
        options_.recipe ? options_.recipe->text() : precision_name(storage_form(options_.precision));
    if (request_.kind == BundleKind::generate) {
      b.kv = request_.kv == lower::KvKind::state    ? "state"
             : request_.kv == lower::KvKind::packed ? "packed"
                                                    : "io";
      b.kv_write = kv_write_name(request_.ways.front().write);
      for (const RunWay& way : request_.ways)
        if (!way.variant.empty()) b.variants.push_back({way.variant, std::string(kv_write_name(way.write))});
    }
    b.target = request_.target.name;
    b.argmax = options_.argmax;
    b.residual_scale = residual_scale_;
    b.skip = options_.skip;
    if (has_experts(model_)) b.experts = way_name(request_.experts);
    b.embedding_scale = model_.embedding.scale * residual_scale_;
    b.bos = model_.bos;
    b.eos = model_.eos;
    b.pad = model_.pad;
    b.masks = lower::masks_of(model_);
    for (const Rope& rope : model_.ropes) b.ropes.push_back(rope_table(rope));
    if (const auto* head = std::get_if<PooledHead>(&model_.head)) {
      b.pooling = head->pooling;
      b.normalize = head->normalize;
    }
    if (const auto* head = std::get_if<ClassHead>(&model_.head)) {
      b.pooling = head->pooling;
      b.labels = head->labels;
      b.scores = head->scores;
    }
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
    if (!step_to(whole_files_)) throw errorf("cancelled");
  }

  // False: cancelled.
  bool step_to(uint64_t done) {
    const std::lock_guard lock(progress_mutex_);
    done_ = done;
    return !options_.progress || options_.progress(done_, total_, current_);
  }

  void write_table(BundleWriter& writer, const Planned& planned) {
    current_ = planned.table.file;
    write_embedding_table(checkpoint_, *planned.ref, writer.folder(), planned.table, pool_);
    report_.rows.push_back(
        {current_, fs::path(planned.table.file).stem().string(), planned.bytes, planned.bytes});
    step(planned.bytes);
  }

  // All stages of one package.
  void write_stages(BundleWriter& writer, std::span<const StagePlan> plans) {
    Artifact artifact;
    for (const StagePlan& plan : plans)
      build_stage(plan, model_, weights_, request_, options_, residual_scale_, artifact);
    const std::string& holds = plans.front().holds;
    artifact.description = fmt::format("{}: {}", model_.name.empty() ? model_.family : model_.name, holds);
    artifact.author = checkpoint_.author();
    artifact.license = checkpoint_.license();
    artifact.notes["anemone.tool"] = options_.tool;
    artifact.notes["anemone.source"] = checkpoint_.path().filename().string();
    std::vector<Stage> stages;
    for (const StagePlan& plan : plans) stages.push_back(finished_stage(writer, plan, artifact));
    current_ = stages.front().package;
    // Whose weights hold the rows of the head.
    size_t head = 0;
    while (head + 1 < plans.size() && !plans[head].has_rows()) ++head;
    const FunctionInterface first = std::move(artifact.interfaces.at(stages[head].functions.front().name));
    const WriteReport written = options_.recipe ? add_compressed(writer, std::move(artifact), plans.front())
                                                : writer.add(std::move(artifact));
    report_.rows.push_back({current_, holds, plans.front().bytes, written.weight_bytes});
    if (options_.embedding_in_head && plans[head].has_rows()) note_rows(stages[head], first.weights, written);
    for (Stage& stage : stages) report_.info.stages.push_back(std::move(stage));
    step(plans.front().bytes);
  }

  Stage finished_stage(const BundleWriter& writer, const StagePlan& plan, const Artifact& artifact) {
    Stage stage =
        stage_of(plan, model_, request_, artifact, writer.file_name(artifact.name), residual_scale_);
    if (const WeightRef* bias = choice_bias(plan, model_)) {
      std::vector<float> values(static_cast<size_t>(bias->rows()));
      read_rows(checkpoint_.tensor(bias->tensor), *bias, 0, bias->rows(), values);
      stage.rule->choice_bias.assign(values.begin(), values.end());
    }
    return stage;
  }

  WriteReport add_compressed(BundleWriter& writer, Artifact artifact, const StagePlan& plan) {
    const Program plain = std::move(artifact.program);
    const fs::path package = writer.folder() / writer.file_name(artifact.name);
    // Fitting takes nearly all of the time; what is left of the package's share is for writing.
    const auto progress = [&](int64_t done, int64_t total, const std::string&) {
      return step_to(whole_files_ +
                     plan.bytes / 10 * 9 / static_cast<uint64_t>(total) * static_cast<uint64_t>(done));
    };
    const CompressedProgram compressed(plain, artifact.name, *options_.recipe, pool_, {}, progress);
    compressed.show(*patterns_);
    artifact.program = compressed.rewritten();
    artifact.notes[kCompressNote] = options_.recipe->text();
    const WriteReport written = writer.add(std::move(artifact));
    if (!report_.compressed) report_.compressed.emplace();
    compressed.report(package, *report_.compressed);
    return written;
  }

  // Where the rows of the head lie in the package that was just written: they are the embedding.
  void note_rows(const Stage& stage, const std::vector<NamedWeight>& weights, const WriteReport& written) {
    const std::string& function = stage.functions.front().name;
    const WeightRef& head = model_.vocabulary_head().weight;
    for (const NamedWeight& weight : weights) {
      const int64_t first = weight.ref.row_begin - head.row_begin, rows = weight.ref.rows();
      if (weight.ref != lower::head_rows(head, first, first + rows)) continue;
      const bool int8 = report_.info.tokens.dtype == "int8";
      const WeightPlace* data = written.find(function, weight.value, int8 ? "data" : "");
      const WeightPlace* scales = int8 ? written.find(function, weight.value, "scale") : nullptr;
      if (!data || (int8 && !scales))
        throw errorf("the last piece of the head, {} rows, is too small to hold embeddings", rows)
            .hint("choose another --head-rows");
      report_.info.embedding_parts.push_back({fmt::format("{}/{}", stage.package, data->file), data->offset,
                                              scales ? scales->offset : 0, first, rows});
    }
  }

  const ConvertOptions& options_;
  std::shared_ptr<const Checkpoint> shared_;
  const Checkpoint& checkpoint_;
  Model model_;
  ThreadPool pool_;
  CheckpointWeights weights_;
  ConvertRequest request_;
  std::vector<StagePlan> stages_;
  std::vector<Planned> tables_;
  uint64_t total_ = 0;
  std::mutex progress_mutex_;
  uint64_t done_ = 0, whole_files_ = 0;
  std::string current_;  // the file that is being written
  std::chrono::steady_clock::time_point last_call_;
  double residual_scale_ = 1;
  std::optional<PatternUse> patterns_;  // with a recipe
  ConvertReport report_;
};

}  // namespace

ConvertReport convert(const fs::path& source, const fs::path& bundle, const ConvertOptions& options) {
  return Converter(source, options).run(bundle);
}

}  // namespace anemone
