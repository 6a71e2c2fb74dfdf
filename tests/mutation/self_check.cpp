#include "mutation/self_check.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <set>

#include "base/error.h"
#include "mutation/bytes.h"
#include "mutation/campaign.h"
#include "mutation/workers.h"
#include "support/gguf_text.h"

namespace anemone::mutation {
namespace {

class Checks {
 public:
  explicit Checks(fs::path folder) : folder_(std::move(folder)) {}

  std::vector<std::string> run() {
    numbers();
    words();
    bytes();
    gguf();
    workers();
    oracle();
    groups();
    return std::move(faults_);
  }

 private:
  void expect(bool holds, const std::string& what) {
    if (!holds) faults_.push_back(what);
  }

  // p = (3/4, 1/4), q = (1/2, 1/2): KL = 3/4 ln(3/2) + 1/4 ln(1/2).
  void numbers() {
    const std::vector<float> p = {std::log(3.0f), 0}, q = {5, 5}, bad = {NAN, 0};
    const double wanted = 0.75 * std::log(1.5) + 0.25 * std::log(0.5);
    expect(std::abs(kl_of_logits(p, q) - wanted) < 1e-6, "the KL of two tokens");
    expect(kl_of_logits(p, p) == 0, "the KL of equal logits");
    expect(std::isinf(kl_of_logits(p, bad)), "a NaN differs without end");
  }

  void words() {
    expect(names_place("layer 1 drifts first, k: …", {"layer 1"}), "a layer is found in a reason");
    expect(!names_place("layer 12 drifts first", {"layer 1"}), "layer 12 is not layer 1");
    expect(!names_place("xl0_q_weight_2", {"l0_q_weight"}), "a name inside another is none");
  }

  void bytes() {
    std::string b("\x00\x3c\x00\xc0", 4);  // 1 and -2 in fp16
    negate(b, {0, 4}, DType::fp16);
    expect(b == std::string("\x00\xbc\x00\x40", 4), "fp16 negated");
    scale(b, {2, 4}, DType::fp16, 0.5f);
    expect(b == std::string("\x00\xbc\x00\x3c", 4), "fp16 halved");
    std::string pair("\x1f", 1);  // -1 and 1 in int4
    negate(pair, {0, 1}, DType::int4);
    expect(pair == "\xf1", "int4 negated");
    std::string letters = "abcdef";
    turn(letters, {1, 5}, 1);
    expect(letters == "aebcdf", "bytes moved on");
  }

  void gguf() {
    const auto number = [](uint64_t n, size_t bytes) {
      return std::string(reinterpret_cast<const char*>(&n), bytes);
    };
    const auto text = [&](const std::string& s) { return number(s.size(), 8) + s; };
    const std::string before = text("key") + number(9, 4) + number(8, 4) + number(2, 8);
    std::string file = before + text("one") + text("second") + text("id") + number(4, 4) + number(7, 4);
    expect(edit_gguf_strings(file, "key", [](auto& all) { std::swap(all[0], all[1]); }),
           "a list of GGUF is found");
    expect(add_to_gguf_number(file, "id", 2), "a number of GGUF is found");
    expect(file == before + text("second") + text("one") + text("id") + number(4, 4) + number(9, 4),
           "GGUF is changed");
    expect(!edit_gguf_string(file, "key", [](std::string&) {}), "a list is no text");
  }

  // Answers come back, a crash stays with its job, one that does not end is ended, a retry is a retry.
  void workers() {
    std::vector<std::string> got(6);
    run_jobs(
        got.size(), 2, 2, folder_,
        [](size_t job, const JobPlace& place) -> std::string {
          if (job == 1) std::abort();
          for (std::atomic<int> turn = 0; job == 3;) ++turn;
          place.say('x');
          if (job == 4 && place.tries == 0) std::abort();
          return fmt::format("{} {}", job, place.tries);
        },
        [&](size_t job, const std::string& answer, const std::string& failure) {
          got[job] = answer + failure;
        },
        [](char phase) { return phase == 'x'; });
    const std::vector<std::string> wanted = {
        "0 0", "ended by signal 6", "2 0", "did not end within 2 s", "4 1", "5 0"};
    for (size_t i = 0; i < got.size(); ++i)
      expect(got[i] == wanted[i], fmt::format("job {}: '{}' instead of '{}'", i, got[i], wanted[i]));
  }

  Subject subject() {
    const SubjectPlan plan{
        {"made llama", {}, "llama", 1, false}, decoder_forms().front(), all_storages().front()};
    return make_subject(plan, folder_).value();
  }

  // A copy differs in nothing; a cache that forgets does, and a page of zeros in a file does by a bit.
  void oracle() {
    const Subject s = subject();
    Oracle oracle(s);
    const auto compare = [&](const std::function<void(Workspace&)>& change, Counts counts) {
      Workspace w(s, folder_ / "mutant");
      Mutation m;
      m.counts = counts;
      change(w);
      w.finish(true);
      return oracle.compare(w.path(), m, true);
    };
    const Difference none = compare([](Workspace&) {}, Counts::any_bit);
    expect(!none.counts && none.kl == 0, "a copy counts: " + none.where);
    const Difference eos = compare(
        [](Workspace& w) { w.edit_info([](Json& j) { j.at("tokens").at("eos") = {5}; }); }, Counts::results);
    expect(eos.counts && eos.where == "text", "another end of a text counts");
    const Difference table = compare(
        [](Workspace& w) {
          w.edit_bytes("embedding.bin", [](std::string& b) { zero(b, {0, b.size() / 2}); });
        },
        Counts::results);
    expect(table.counts && table.kl > kCountsKl, "half an embedding of zeros counts");
    const Difference broken =
        compare([](Workspace& w) { w.edit_info([](Json& j) { j.erase("stages"); }); }, Counts::results);
    expect(broken.counts && std::isinf(broken.kl), "a bundle that does not open counts");
  }

  // Every group finds sites in a plain bundle, and names where they are.
  void groups() {
    const Subject s = subject();
    for (const Group& group : all_groups()) {
      Rng rng(1, group.name);
      const std::vector<Mutation> sites = group.sites(s, rng);
      expect(!sites.empty(), fmt::format("the group {} has no sites", group.name));
      for (const Mutation& m : sites)
        if (m.group != group.name || m.kind.empty() || m.place.empty() || m.expected.places.empty() ||
            !m.apply) {
          expect(false, fmt::format("a site of {} is not whole: {} {}", group.name, m.kind, m.place));
          break;
        }
    }
  }

  fs::path folder_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> self_check(const fs::path& folder) { return Checks(folder).run(); }

}  // namespace anemone::mutation
