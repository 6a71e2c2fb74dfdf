// Catalogue: the clean bundles that mutants are made of: every family, every form, every storage of weights.
//     std::vector<SubjectPlan> plans = plan_subjects(16, 1, {});
//     std::optional<Subject> s = make_subject(plans[0], folder);      // nothing: the model does not take the form
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "mutation/subject.h"

namespace anemone::mutation {

struct Form {
  std::string name;
  ConvertOptions options;
};

struct Storage {
  std::string name;
  Precision precision = Precision::fp16;
  std::string recipe;  // JSON; empty: none
};

// A model to make bundles of: a given one, or one that is made up by a seed.
struct Source {
  std::string name;  // "llama-tiny", "made llama"
  fs::path path;     // empty for one that is to be made
  std::string made;  // its family then
  uint64_t seed = 0;
  bool encoder = false, experts = false;
};

struct SubjectPlan {
  Source source;
  Form form;
  Storage storage;

  std::string name() const { return source.name + ", " + form.name + ", " + storage.name; }
};

struct PlanFilter {
  std::string family, form, storage;  // parts of names, of a storage all of it; empty: all
  bool given_only = false;            // no made-up models
};

// Models below the roots of test data whose family is known, sorted; then one made-up model of every family.
std::vector<Source> all_sources(uint64_t seed);
std::vector<Form> decoder_forms();
std::vector<Form> encoder_forms();
// Of models with experts, besides.
std::vector<Form> expert_forms(bool encoder);
std::vector<Storage> all_storages();

// So many plans, in which families, forms and storages take turns. All combinations where there are fewer.
std::vector<SubjectPlan> plan_subjects(size_t count, uint64_t seed, const PlanFilter& filter);
// Nothing where the model and the form do not go together.
std::optional<Subject> make_subject(const SubjectPlan& plan, const fs::path& folder);

}  // namespace anemone::mutation
