// The C interface over Bundle, Session, PromptFormat and Generator. No exception leaves it.
#include "anemone/anemone.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "anemone/error.h"
#include "base/error.h"
#include "coreml/coreml_backend.h"
#include "engine/cpu_backend.h"
#include "runtime/generate.h"
#include "runtime/prompt.h"
#include "runtime/session.h"

struct anemone_bundle {
  std::shared_ptr<const anemone::Bundle> bundle;
  std::unique_ptr<anemone::PromptFormat> format;  // null: no tokenizer came with it
};

struct anemone_session {
  const anemone_bundle* owner;
  anemone::Session session;
  std::atomic<bool> cancelled{false};

  anemone_session(const anemone_bundle* b, anemone::Session s) : owner(b), session(std::move(s)) {}
};

namespace anemone {
namespace {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

// Runs the body; what it throws becomes a status.
template <class Body>
anemone_status guarded(const Body& body) noexcept {
  try {
    return body();
  } catch (const Cancelled&) {
    last_error() = "cancelled";
    return ANEMONE_CANCELLED;
  } catch (const std::exception& e) {
    try {
      last_error() = e.what();
    } catch (...) {
    }
    return ANEMONE_ERROR;
  }
}

template <class T>
T& expect(T* pointer, const char* what) {
  if (!pointer) throw errorf("{} is null", what);
  return *pointer;
}

const PromptFormat& format_of(const anemone_bundle* bundle) {
  const auto& format = expect(bundle, "the bundle").format;
  if (!format) throw errorf("the bundle has no tokenizer").at(bundle->bundle->path().string());
  return *format;
}

void* copy_out(const void* from, size_t bytes) {
  void* out = std::malloc(bytes ? bytes : 1);
  if (!out) throw std::bad_alloc();
  if (bytes) std::memcpy(out, from, bytes);
  return out;
}

void give(const std::vector<int32_t>& values, int32_t** ids, size_t* count) {
  expect(count, "the place for the number of ids") = values.size();
  expect(ids, "the place for the ids") =
      static_cast<int32_t*>(copy_out(values.data(), values.size() * sizeof(int32_t)));
}

void give(const std::string& text, char** out) {
  expect(out, "the place for the text") = static_cast<char*>(copy_out(text.c_str(), text.size() + 1));
}

// Options of an older caller are shorter: what is missing has its default.
template <class T>
T taken(const T* given, void (*init)(T*)) {
  T out;
  init(&out);
  if (!given) return out;
  if (given->size == 0 || given->size > 4096)
    throw errorf("options without a size: call their _init function first");
  const size_t size = out.size;
  std::memcpy(&out, given, std::min(given->size, size));
  out.size = size;
  return out;
}

std::shared_ptr<const Backend> backend_of(const anemone_open_options& o) {
  const ComputeUnits units = o.compute_units == ANEMONE_UNITS_ANE   ? ComputeUnits::ane
                             : o.compute_units == ANEMONE_UNITS_GPU ? ComputeUnits::gpu
                             : o.compute_units == ANEMONE_UNITS_CPU ? ComputeUnits::cpu
                                                                    : ComputeUnits::all;
  const bool core_ml = o.backend == ANEMONE_BACKEND_COREML ||
                       (o.backend == ANEMONE_BACKEND_AUTO && core_ml_missing(units).empty());
  if (!core_ml)
    return cpu_backend({.arithmetic = o.fp16 ? Arithmetic::fp16 : Arithmetic::fp32, .threads = o.threads});
  CoreMlOptions options;
  options.units = units;
  if (o.cache_folder) options.cache = o.cache_folder;
  if (o.progress)
    options.progress = [o](const LoadStep& step) {
      static constexpr const char* kPhases[] = {"compiling", "loading", "warming up", ""};
      return o.progress(o.user, kPhases[static_cast<int>(step.phase)], step.package.c_str(),
                        step.function.c_str(), step.seconds) == 0;
    };
  return coreml_backend(options);
}

std::vector<Message> messages_of(const char* const* roles, const char* const* contents, size_t count) {
  std::vector<Message> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back({&expect(expect(&roles, "the list of roles")[i], "a role"),
                   &expect(expect(&contents, "the list of contents")[i], "a content")});
  return out;
}

GenerateOptions options_of(const anemone_generate_options& o) {
  GenerateOptions out;
  out.max_new = o.max_new;
  out.sampling = {.temperature = o.temperature,
                  .top_k = o.top_k,
                  .top_p = o.top_p,
                  .min_p = o.min_p,
                  .repetition_penalty = o.repetition_penalty,
                  .seed = o.seed};
  for (size_t i = 0; i < o.stop_count; ++i) out.stops.emplace_back(&expect(o.stops[i], "a stop text"));
  out.ignore_eos = o.ignore_eos != 0;
  out.slide = o.slide != 0;
  return out;
}

void report(const Generation& g, anemone_result* result) {
  if (!result) return;
  anemone_result full{};
  full.size = sizeof(full);
  full.prompt_tokens = g.stats.prompt_tokens;
  full.reused_tokens = g.stats.reused_tokens;
  full.new_tokens = g.stats.new_tokens;
  full.first_token_seconds = g.stats.first_seconds;
  full.decode_seconds = g.stats.decode_seconds;
  full.stopped = stop_reason_text(g.why).data();  // literals: they end with a 0
  const size_t size = std::min(result->size ? result->size : sizeof(full), sizeof(full));
  std::memcpy(result, &full, size);
  result->size = size;
}

anemone_status generate(anemone_session& s, std::span<const int32_t> prompt,
                        const anemone_generate_options* given, anemone_on_text on_text, void* user,
                        anemone_result* result) {
  GenerateOptions options = options_of(taken(given, anemone_generate_options_init));
  bool stopped = false;
  s.cancelled = false;
  options.keep_going = [&] { return !stopped && !s.cancelled; };
  if (on_text)
    options.on_text = [&](std::string_view piece) {
      if (!stopped && on_text(user, std::string(piece).c_str()) != 0) stopped = true;
    };
  const auto tokenizer = s.owner->format ? s.owner->format->tokenizer() : nullptr;
  const Generation g = Generator(tokenizer, options).run(s.session, prompt);
  report(g, result);
  if (g.why != StopReason::cancelled) return ANEMONE_OK;
  throw Cancelled();
}

}  // namespace

// Names with C's linkage are the header's, whatever namespace they stand in.
extern "C" {

const char* anemone_version(void) { return ANEMONE_LIBRARY_VERSION; }
int anemone_api_version(void) { return ANEMONE_API_VERSION; }
const char* anemone_last_error(void) { return last_error().c_str(); }
void anemone_free(void* memory) { std::free(memory); }

void anemone_open_options_init(anemone_open_options* options) {
  if (!options) return;
  *options = {};
  options->size = sizeof(*options);
}

anemone_status anemone_bundle_open(const char* path, const anemone_open_options* options,
                                   anemone_bundle** out) {
  return guarded([&] {
    anemone_bundle*& place = expect(out, "the place for the bundle");
    place = nullptr;
    auto made = std::make_unique<anemone_bundle>();
    made->bundle =
        Bundle::open(&expect(path, "the path"), backend_of(taken(options, anemone_open_options_init)));
    if (!made->bundle->info().tokenizer.empty())
      made->format = std::make_unique<PromptFormat>(load_tokenizer(*made->bundle));
    place = made.release();
    return ANEMONE_OK;
  });
}

void anemone_bundle_close(anemone_bundle* bundle) { delete bundle; }

anemone_status anemone_bundle_load(anemone_bundle* bundle) {
  return guarded([&] {
    const Bundle& b = *expect(bundle, "the bundle").bundle;
    for (size_t s = 0; s < b.info().stages.size(); ++s)
      for (const StageFunction& f : b.info().stages[s].functions) b.predictor(s, f.name);
    return ANEMONE_OK;
  });
}

const char* anemone_bundle_backend(const anemone_bundle* bundle) {
  return bundle ? bundle->bundle->backend().name().data() : "";
}
int64_t anemone_bundle_context(const anemone_bundle* bundle) {
  return bundle ? bundle->bundle->tiers().back() : 0;
}
int64_t anemone_bundle_vocabulary(const anemone_bundle* bundle) {
  return bundle ? bundle->bundle->info().vocab : 0;
}
int anemone_bundle_has_chat(const anemone_bundle* bundle) {
  return bundle && bundle->format && bundle->format->has_turns() ? 1 : 0;
}

anemone_status anemone_encode(const anemone_bundle* bundle, const char* text, int special, int32_t** ids,
                              size_t* count) {
  return guarded([&] {
    const auto& tokenizer = *format_of(bundle).tokenizer();
    give(tokenizer.encode(&expect(text, "the text"), {.add_special = special != 0}), ids, count);
    return ANEMONE_OK;
  });
}

anemone_status anemone_decode(const anemone_bundle* bundle, const int32_t* ids, size_t count,
                              int skip_special, char** text) {
  return guarded([&] {
    if (count) expect(ids, "the list of ids");
    give(format_of(bundle).tokenizer()->decode({ids, count}, skip_special != 0), text);
    return ANEMONE_OK;
  });
}

anemone_status anemone_chat_ids(const anemone_bundle* bundle, const char* const* roles,
                                const char* const* contents, size_t messages, int32_t** ids, size_t* count) {
  return guarded([&] {
    give(format_of(bundle).conversation(messages_of(roles, contents, messages)), ids, count);
    return ANEMONE_OK;
  });
}

anemone_status anemone_chat_text(const anemone_bundle* bundle, const char* const* roles,
                                 const char* const* contents, size_t messages, char** text) {
  return guarded([&] {
    give(format_of(bundle).text(messages_of(roles, contents, messages)), text);
    return ANEMONE_OK;
  });
}

anemone_status anemone_session_new(anemone_bundle* bundle, anemone_session** out) {
  return guarded([&] {
    anemone_session*& place = expect(out, "the place for the session");
    place = nullptr;
    place = new anemone_session(&expect(bundle, "the bundle"), Session(bundle->bundle));
    return ANEMONE_OK;
  });
}

anemone_status anemone_session_fork(const anemone_session* session, anemone_session** out) {
  return guarded([&] {
    anemone_session*& place = expect(out, "the place for the session");
    place = nullptr;
    place = new anemone_session(expect(session, "the session").owner, session->session.fork());
    return ANEMONE_OK;
  });
}

void anemone_session_free(anemone_session* session) { delete session; }

int64_t anemone_session_position(const anemone_session* session) {
  return session ? session->session.position() : 0;
}

anemone_status anemone_session_rewind(anemone_session* session, int64_t position) {
  return guarded([&] {
    expect(session, "the session").session.rewind(position);
    return ANEMONE_OK;
  });
}

anemone_status anemone_session_feed(anemone_session* session, const int32_t* ids, size_t count,
                                    float* logits) {
  return guarded([&] {
    anemone_session& s = expect(session, "the session");
    if (count) expect(ids, "the list of ids");
    s.cancelled = false;
    s.session.watch([&](int64_t, int64_t) { return !s.cancelled; });
    try {
      const std::span<const float> last = s.session.forward_view({ids, count}, true);
      if (logits) std::memcpy(logits, last.data(), last.size_bytes());
    } catch (...) {
      s.session.watch(nullptr);
      throw;
    }
    s.session.watch(nullptr);
    return ANEMONE_OK;
  });
}

void anemone_session_cancel(anemone_session* session) {
  if (session) session->cancelled = true;
}

void anemone_generate_options_init(anemone_generate_options* options) {
  if (!options) return;
  *options = {};
  options->size = sizeof(*options);
  options->max_new = 128;
  options->top_p = 1;
  options->repetition_penalty = 1;
}

anemone_status anemone_generate(anemone_session* session, const int32_t* prompt, size_t count,
                                const anemone_generate_options* options, anemone_on_text on_text, void* user,
                                anemone_result* result) {
  return guarded([&] {
    if (count) expect(prompt, "the prompt");
    return generate(expect(session, "the session"), {prompt, count}, options, on_text, user, result);
  });
}

anemone_status anemone_generate_text(anemone_session* session, const char* prompt,
                                     const anemone_generate_options* options, anemone_on_text on_text,
                                     void* user, anemone_result* result) {
  return guarded([&] {
    anemone_session& s = expect(session, "the session");
    const std::vector<int32_t> ids = format_of(s.owner).plain(&expect(prompt, "the prompt"));
    return generate(s, ids, options, on_text, user, result);
  });
}

}  // extern "C"
}  // namespace anemone
