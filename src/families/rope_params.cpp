#include "families/rope_params.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/thread_pool.h"
#include "checkpoint/byte_reader.h"

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKnownTypes = "default, linear, llama3, yarn, longrope or dynamic";

void expect_positive(const char* what, double value, const std::string& file) {
  if (!(value > 0 && value < 1e30))
    throw errorf("the rope {} must be positive", what).at(file).found(fmt::format("{}", value));
}

// What YaRN multiplies cos and sin with: 0.1 m ln(s) + 1.
double yarn_mscale(double factor, double m) { return factor <= 1 ? 1 : 0.1 * m * std::log(factor) + 1; }

// LongRoPE's: sqrt(1 + ln(s) / ln(original)), s how many times longer the context is.
double longrope_attention_factor(double times_longer, int64_t original) {
  if (times_longer <= 1 || original <= 1) return 1;
  return std::sqrt(1 + std::log(times_longer) / std::log(static_cast<double>(original)));
}

void check_factors(const Rope& rope, const std::vector<double>& factors, const std::string& name,
                   const std::string& file) {
  if (static_cast<int64_t>(factors.size()) != rope.dims / 2)
    throw errorf("{} has the wrong number of entries", name)
        .at(file)
        .found(std::to_string(factors.size()))
        .expected(fmt::format("{}: half of the {} rotated dimensions", rope.dims / 2, rope.dims));
  for (const double f : factors) expect_positive(name.c_str(), f, file);
}

void check(const Rope& rope, int64_t head_dim, const std::string& file) {
  if (rope.dims < 2 || rope.dims % 2 != 0 || rope.dims > head_dim)
    throw Error("the number of rotated dimensions is not possible")
        .at(file)
        .found(std::to_string(rope.dims))
        .expected(fmt::format("an even number up to the head size {}", head_dim));
  expect_positive("base", rope.base, file);
  expect_positive("scaling factor", rope.factor, file);
  expect_positive("attention factor", rope.attention_factor, file);
  if (rope.scaling == RopeScaling::yarn && rope.base <= 1)
    throw Error("YaRN needs a rope base above 1").at(file).found(fmt::format("{}", rope.base));
  if (rope.scaling == RopeScaling::llama3 && rope.high_freq_factor <= rope.low_freq_factor)
    throw Error("the rope scaling's high_freq_factor must be above its low_freq_factor")
        .at(file)
        .found(fmt::format("{} and {}", rope.high_freq_factor, rope.low_freq_factor));
  if ((rope.scaling == RopeScaling::ntk_alpha || rope.scaling == RopeScaling::dynamic) && rope.dims <= 2)
    throw Error("scaling the rope base needs more than 2 rotated dimensions").at(file);
  if (rope.scaling == RopeScaling::dynamic && rope.factor < 1)
    throw Error("the dynamic rope scaling's factor must be at least 1")
        .at(file)
        .found(fmt::format("{}", rope.factor));
}

// config.json: a dictionary of scaling parameters in the old spelling, in the new one, or both.
class ConfigRope {
 public:
  ConfigRope(const Hparams& hp, const RopeQuery& query) : hp_(hp), query_(query), file_(hp.file()) {
    if (const auto scaling = hp.find_object({"rope_scaling", ""}); scaling && query.scaled)
      dicts_.push_back(*scaling);
    if (const auto parameters = hp.find_object({"rope_parameters", ""})) {
      const auto part = parameters->find(query.layer_type);
      if (part != parameters->end() && part->is_object())
        dicts_.push_back(*part);
      else if (query.scaled)
        dicts_.push_back(*parameters);
    }
  }

  Rope read() {
    rope_.base = number_or_beside("rope_theta", query_.base_key).value_or(query_.base);
    const double part = number_or_beside("partial_rotary_factor", {"partial_rotary_factor", ""}).value_or(1);
    if (!(part > 0 && part <= 1))
      throw Error("'partial_rotary_factor' is out of range")
          .at(file_)
          .found(fmt::format("{}", part))
          .expected("above 0, up to 1");
    rope_.dims = static_cast<int64_t>(static_cast<double>(query_.head_dim) * part);
    const std::string type = scaling_type();
    if (type == "linear") {
      rope_.scaling = RopeScaling::linear;
      rope_.factor = required("factor");
    } else if (type == "llama3") {
      read_llama3();
    } else if (type == "longrope" || type == "su" || (type == "yarn" && find("short_factor"))) {
      read_longrope();
    } else if (type == "yarn") {
      read_yarn();
    } else if (type == "dynamic" && number("alpha").value_or(0) > 0) {
      rope_.scaling = RopeScaling::ntk_alpha;
      rope_.alpha = *number("alpha");
    } else if (type == "dynamic") {
      rope_.scaling = RopeScaling::dynamic;
      rope_.factor = required("factor");
      rope_.original_context = query_.context;
    } else if (type != "default" && type != "none") {
      throw Error("the rope scaling is of a type that is not supported")
          .at(file_)
          .found(printable(type))
          .expected(kKnownTypes);
    }
    check(rope_, query_.head_dim, file_);
    return rope_;
  }

 private:
  // The first dictionary that has the key, and not as null.
  const Json* find(const char* key) const {
    for (const Json& dict : dicts_)
      if (const auto at = dict.find(key); at != dict.end() && !at->is_null()) return &dict;
    return nullptr;
  }
  std::optional<double> number(const char* key) const {
    const Json* dict = find(key);
    return dict ? find_json_number(*dict, key, file_) : std::nullopt;
  }
  // A number that may stand in a dictionary, beside it, or in both places if it is the same there.
  std::optional<double> number_or_beside(const char* key, const Key& beside) const {
    const std::optional<double> inside = number(key), outside = hp_.find_number(beside);
    if (inside && outside && *inside != *outside)
      throw Error("the rope is described twice, and the two differ")
          .at(file_)
          .found(fmt::format("'{}' {} inside its parameters, {} {} beside them", key, *inside,
                             hp_.named(beside), *outside));
    return inside ? inside : outside;
  }
  std::vector<double> numbers(const char* key) const {
    const Json* dict = find(key);
    return dict ? json_numbers(*dict, key, file_) : std::vector<double>();
  }
  double required(const char* key) const {
    const std::optional<double> value = number(key);
    if (!value) throw errorf("the rope scaling has no '{}'", key).at(file_);
    return *value;
  }
  std::string scaling_type() const {
    for (const Json& dict : dicts_)
      for (const char* key : {"rope_type", "type"})
        if (const auto at = dict.find(key); at != dict.end() && at->is_string())
          return at->get<std::string>();
    return "default";
  }
  // The scaling's own value, the model's, or the whole context.
  int64_t original_context() const {
    constexpr const char* kName = "original_max_position_embeddings";
    const int64_t otherwise = query_.original_context ? query_.original_context : query_.context;
    const double value = number_or_beside(kName, {kName, ""}).value_or(static_cast<double>(otherwise));
    if (!(value >= 1 && value < 0x1p31))
      throw Error("'original_max_position_embeddings' is out of range")
          .at(file_)
          .found(fmt::format("{}", value));
    return static_cast<int64_t>(value);
  }
  double times_longer() const {
    return number("factor").value_or(static_cast<double>(query_.context) /
                                     static_cast<double>(rope_.original_context));
  }

  void read_llama3() {
    rope_.scaling = RopeScaling::llama3;
    rope_.factor = required("factor");
    rope_.low_freq_factor = required("low_freq_factor");
    rope_.high_freq_factor = required("high_freq_factor");
    rope_.original_context = original_context();
  }

  void read_yarn() {
    rope_.scaling = RopeScaling::yarn;
    rope_.original_context = original_context();
    rope_.factor = times_longer();
    rope_.beta_fast = number("beta_fast").value_or(32);
    rope_.beta_slow = number("beta_slow").value_or(1);
    expect_positive("beta_fast", rope_.beta_fast, file_);
    expect_positive("beta_slow", rope_.beta_slow, file_);
    if (const Json* dict = find("truncate"); dict && dict->at("truncate").is_boolean())
      rope_.truncate = dict->at("truncate").get<bool>();
    const double mscale = number("mscale").value_or(0), all_dim = number("mscale_all_dim").value_or(0);
    const double own = mscale != 0 && all_dim != 0
                           ? yarn_mscale(rope_.factor, mscale) / yarn_mscale(rope_.factor, all_dim)
                           : yarn_mscale(rope_.factor, 1);
    rope_.attention_factor = number("attention_factor").value_or(own);
  }

  void read_longrope() {
    rope_.scaling = RopeScaling::longrope;
    rope_.original_context = original_context();
    rope_.short_factors = numbers("short_factor");
    rope_.long_factors = numbers("long_factor");
    check_factors(rope_, rope_.short_factors, "'short_factor'", file_);
    check_factors(rope_, rope_.long_factors, "'long_factor'", file_);
    rope_.attention_factor = number("attention_factor")
                                 .value_or(longrope_attention_factor(times_longer(), rope_.original_context));
  }

  const Hparams& hp_;
  const RopeQuery& query_;
  std::string file_;
  std::vector<Json> dicts_;  // what the first of them says counts
  Rope rope_;
};

Rope read_config_rope(const Hparams& hp, const RopeQuery& query) { return ConfigRope(hp, query).read(); }

std::vector<double> tensor_values(const TensorReader& tensor) {
  if (tensor.shape().size() != 1 || tensor.rows() > 65536)
    throw errorf("tensor '{}' is not a list of rope factors", tensor.name())
        .found(std::to_string(tensor.rows()));
  std::vector<float> values(static_cast<size_t>(tensor.rows()));
  tensor.read_rows(0, tensor.rows(), values);
  return {values.begin(), values.end()};
}

void read_gguf_longrope(const Hparams& hp, int64_t context, const TensorReader* shorter,
                        const TensorReader* longer, Rope& rope) {
  const std::string file = hp.file();
  if (!shorter || !longer)
    throw Error("longrope needs both lists of factors")
        .at(file)
        .found(shorter ? "only 'rope_factors_short.weight'"
                       : (longer ? "only 'rope_factors_long.weight'" : "neither"))
        .expected("'rope_factors_short.weight' and 'rope_factors_long.weight'");
  rope.scaling = RopeScaling::longrope;
  rope.short_factors = tensor_values(*shorter);
  rope.long_factors = tensor_values(*longer);
  check_factors(rope, rope.short_factors, "'rope_factors_short.weight'", file);
  check_factors(rope, rope.long_factors, "'rope_factors_long.weight'", file);
  rope.original_context = hp.integer({"", "rope.scaling.original_context_length"});
  const double times_longer = static_cast<double>(context) / static_cast<double>(rope.original_context);
  rope.attention_factor = hp.find_number({"", "rope.scaling.attn_factor"})
                              .value_or(longrope_attention_factor(times_longer, rope.original_context));
}

void read_gguf_yarn(const Hparams& hp, Rope& rope) {
  rope.scaling = RopeScaling::yarn;
  rope.factor = hp.number({"", "rope.scaling.factor"});
  rope.original_context = hp.integer({"", "rope.scaling.original_context_length"});
  rope.beta_fast = hp.find_number({"", "rope.scaling.yarn_beta_fast"}).value_or(32);
  rope.beta_slow = hp.find_number({"", "rope.scaling.yarn_beta_slow"}).value_or(1);
  expect_positive("beta_fast", rope.beta_fast, hp.file());
  expect_positive("beta_slow", rope.beta_slow, hp.file());
  if (hp.find_number({"", "rope.scaling.yarn_ext_factor"}).value_or(1) != 1)
    throw errorf("{} is not supported", hp.named({"", "rope.scaling.yarn_ext_factor"})).at(hp.file());
  const double log_multiplier = hp.find_number({"", "rope.scaling.yarn_log_multiplier"}).value_or(0);
  const double own = log_multiplier == 0
                         ? yarn_mscale(rope.factor, 1)
                         : yarn_mscale(rope.factor, 1) / yarn_mscale(rope.factor, log_multiplier);
  // One key has the whole factor, as config.json says it; the other is a further factor.
  rope.attention_factor = hp.find_number({"", "rope.scaling.yarn_attn_factor"})
                              .value_or(own * hp.find_number({"", "rope.scaling.attn_factor"}).value_or(1));
}

Rope read_gguf_rope(const Hparams& hp, const RopeQuery& query) {
  Rope rope;
  const std::string file = hp.file();
  rope.base = hp.find_number(query.base_key).value_or(query.base);
  rope.dims = hp.find_integer({"", "rope.dimension_count"}).value_or(query.head_dim);
  if (query.scaled) {
    const Checkpoint& c = hp.checkpoint();
    const TensorReader* divisors = c.find("rope_freqs.weight");
    const TensorReader* shorter = c.find("rope_factors_short.weight");
    const TensorReader* longer = c.find("rope_factors_long.weight");
    const std::string type = hp.find_text({"", "rope.scaling.type"}).value_or("none");
    if (divisors && (type != "none" || shorter || longer))
      throw errorf("'rope_freqs.weight' together with another rope scaling is not supported")
          .at(file)
          .found(type != "none" ? printable(type) : "rope_factors_*.weight");
    if (divisors) {
      rope.scaling = RopeScaling::divisors;
      rope.divisors = tensor_values(*divisors);
      check_factors(rope, rope.divisors, "'rope_freqs.weight'", file);
    } else if (type == "longrope" || shorter || longer) {
      read_gguf_longrope(hp, query.context, shorter, longer, rope);
    } else if (type == "yarn") {
      read_gguf_yarn(hp, rope);
    } else if (type == "linear" || type == "none") {
      rope.factor =
          hp.find_number({"", type == "linear" ? "rope.scaling.factor" : "rope.scale_linear"}).value_or(1);
      if (rope.factor != 1) rope.scaling = RopeScaling::linear;
    } else {
      throw errorf("{} names a scaling that is not supported", hp.named({"", "rope.scaling.type"}))
          .at(file)
          .found(printable(type))
          .expected("none, linear, yarn or longrope");
    }
  }
  check(rope, query.head_dim, file);
  return rope;
}

}  // namespace

Rope read_rope(const Hparams& hp, const RopeQuery& query) {
  constexpr ByNaming<Rope (*)(const Hparams&, const RopeQuery&)> kReaders{read_config_rope, read_gguf_rope};
  return kReaders[hp.naming()](hp, query);
}

std::span<const char* const> rope_tables(Naming naming) {
  static constexpr const char* kConfig[] = {"*rotary_emb.inv_freq"};
  static constexpr const char* kGguf[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                          "rope_factors_short.weight", "*.attn_rot_embd.weight"};
  return ByNaming<std::span<const char* const>>(kConfig, kGguf)[naming];
}

}  // namespace anemone
