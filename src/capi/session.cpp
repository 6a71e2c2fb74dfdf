// Sessions and streamed text of the C interface.
#include "capi/handles.h"

namespace anemone {
namespace {

// The session, ready for a call that anemone_session_cancel() can stop from here on.
anemone_session& begin(anemone_session* session) {
  anemone_session& s = expect(session, "the session");
  s.cancelled = false;
  return s;
}

// Runs the body on the session, which anemone_session_cancel() can stop.
template <class Body>
void watched(anemone_session& s, const Body& body) {
  struct Watch {
    explicit Watch(anemone_session& of) : s(of) {
      s.session.watch([this](int64_t, int64_t) { return !s.cancelled; });
    }
    ~Watch() { s.session.watch(nullptr); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    anemone_session& s;
  } const watch(s);
  body();
}

void report(const Generation& g, anemone_result* result) {
  if (!result) return;
  anemone_result full{};
  full.prompt_tokens = g.stats.prompt_tokens;
  full.reused_tokens = g.stats.reused_tokens;
  full.new_tokens = g.stats.new_tokens;
  full.first_token_seconds = g.stats.first_seconds;
  full.decode_seconds = g.stats.decode_seconds;
  full.stopped = stop_reason_text(g.why).data();  // literals: they end with a 0
  full.size = result->size;
  std::memcpy(result, &full, std::min(result->size, sizeof(full)));
}

anemone_status generate(anemone_session& s, std::span<const int32_t> prompt,
                        const anemone_generate_options* given, anemone_on_text on_text, void* user,
                        anemone_result* result) {
  const anemone_generate_options wanted = taken(given, anemone_generate_options_init_sized);
  GenerateOptions options = options_of(wanted);
  bool stopped = false;
  options.keep_going = [&] { return !stopped && !s.cancelled; };
  if (on_text)
    options.on_text = [&](std::string_view piece) {
      if (!stopped && on_text(user, without_zeros(piece).c_str()) != 0) stopped = true;
    };
  const auto tokenizer = s.owner.format ? s.owner.format->tokenizer() : nullptr;
  const Generation g = Generator(tokenizer, options).run(s.session, prompt);
  report(g, result);
  if (g.why == StopReason::cancelled || stopped) throw Cancelled();
  return ANEMONE_OK;
}

// The place for a result, with zeros in it; null is fine.
void empty(anemone_result* result) {
  if (!result) return;
  if (result->size < sizeof(size_t) || result->size > kMostBytes)
    throw errorf("a result without a size: call anemone_result_init() first");
  anemone_result_init_sized(result, result->size);
}

}  // namespace

GenerateOptions options_of(const anemone_generate_options& o) {
  GenerateOptions out;
  out.max_new = o.max_new;
  out.sampling = {.temperature = o.temperature,
                  .top_k = o.top_k,
                  .top_p = o.top_p,
                  .min_p = o.min_p,
                  .repetition_penalty = o.repetition_penalty,
                  .repetition_window = o.repetition_window,
                  .presence_penalty = o.presence_penalty,
                  .frequency_penalty = o.frequency_penalty,
                  .seed = o.seed};
  for (const char* stop : list_of(o.stops, o.stop_count, "the list of stop texts"))
    out.stops.emplace_back(&expect(stop, "a stop text"));
  for (const int32_t id : list_of(o.ends, o.end_count, "the list of end tokens")) out.ends.push_back(id);
  out.ignore_eos = o.ignore_eos != 0;
  out.slide = o.slide != 0;
  return out;
}

extern "C" {

anemone_status anemone_session_new(anemone_bundle* bundle, anemone_session** out) {
  return guarded([&] {
    anemone_session*& place = emptied(out, "the place for the session");
    const anemone_bundle& owner = expect(bundle, "the bundle");
    place = new anemone_session(owner, Session(owner.bundle));
    return ANEMONE_OK;
  });
}

anemone_status anemone_session_fork(const anemone_session* session, anemone_session** out) {
  return guarded([&] {
    anemone_session*& place = emptied(out, "the place for the session");
    const anemone_session& from = expect(session, "the session");
    place = new anemone_session(from.owner, from.session.fork());
    return ANEMONE_OK;
  });
}

void anemone_session_free(anemone_session* session) { delete session; }

int64_t anemone_session_position(const anemone_session* session) {
  return session ? session->session.position() : 0;
}

anemone_status anemone_session_rewind(anemone_session* session, int64_t position) {
  return guarded([&] {
    anemone_session& s = begin(session);
    watched(s, [&] { s.session.rewind(position); });  // recurrent layers compute some tokens again
    return ANEMONE_OK;
  });
}

anemone_status anemone_session_feed(anemone_session* session, const int32_t* ids, size_t count,
                                    float* logits) {
  return guarded([&] {
    anemone_session& s = begin(session);
    const auto list = list_of(ids, count, "the list of ids");
    if (list.empty()) throw errorf("no tokens to append");
    watched(s, [&] {
      const std::span<const float> last = s.session.forward_view(list, true);
      if (logits) std::memcpy(logits, last.data(), last.size_bytes());
    });
    return ANEMONE_OK;
  });
}

anemone_status anemone_session_feed_best(anemone_session* session, const int32_t* ids, size_t count,
                                         int32_t* best) {
  return guarded([&] {
    anemone_session& s = begin(session);
    int32_t& place = emptied(best, "the place for the best id");
    const auto list = list_of(ids, count, "the list of ids");
    if (list.empty()) throw errorf("no tokens to append");
    watched(s, [&] { place = static_cast<int32_t>(s.session.forward_best(list)); });
    return ANEMONE_OK;
  });
}

void anemone_session_cancel(anemone_session* session) {
  if (session) session->cancelled = true;
}

void anemone_generate_options_init_sized(anemone_generate_options* options, size_t size) {
  anemone_generate_options defaults{};
  defaults.max_new = 128;
  defaults.top_p = 1;
  defaults.repetition_penalty = 1;
  defaults.repetition_window = 64;
  defaults.seed = 1;
  put_defaults(options, size, defaults);
}

void anemone_result_init_sized(anemone_result* result, size_t size) {
  anemone_result defaults{};
  defaults.stopped = "";
  put_defaults(result, size, defaults);
}

anemone_status anemone_generate(anemone_session* session, const int32_t* prompt, size_t count,
                                const anemone_generate_options* options, anemone_on_text on_text, void* user,
                                anemone_result* result) {
  return guarded([&] {
    anemone_session& s = begin(session);
    empty(result);
    return generate(s, list_of(prompt, count, "the prompt"), options, on_text, user, result);
  });
}

anemone_status anemone_generate_text(anemone_session* session, const char* prompt,
                                     const anemone_generate_options* options, anemone_on_text on_text,
                                     void* user, anemone_result* result) {
  return guarded([&] {
    anemone_session& s = begin(session);
    empty(result);
    if (!s.owner.format) throw errorf("the bundle has no tokenizer").at(s.owner.bundle->path().string());
    return generate(s, s.owner.format->plain(&expect(prompt, "the prompt")), options, on_text, user, result);
  });
}

}  // extern "C"
}  // namespace anemone
