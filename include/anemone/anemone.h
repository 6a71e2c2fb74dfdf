/* The C interface: bundles, tokens, chats and streamed text, for C and for every language that can call C.
 *     anemone_bundle* bundle = NULL;
 *     if (anemone_bundle_open("smollm2", NULL, &bundle)) return fail(anemone_last_error());
 *     anemone_session* session = NULL;
 *     anemone_session_new(bundle, &session);
 *     anemone_generate_text(session, "Once upon a time", NULL, on_text, NULL, NULL);
 *
 * Every function that can fail returns a status. What anemone_last_error() says belongs to the calling thread and
 * holds until its next call. Texts are UTF-8. What a function makes is freed with the function that its comment names;
 * null is always fine there. A bundle may be shared by threads; a session belongs to one thread at a time, except for
 * anemone_session_cancel(). Structs of options begin with their size, so that later versions can add fields. */
#ifndef ANEMONE_H
#define ANEMONE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ANEMONE_API_VERSION 1

typedef enum {
  ANEMONE_OK = 0,
  ANEMONE_ERROR = 1,     /* anemone_last_error() says what, where and what to do */
  ANEMONE_CANCELLED = 2, /* a callback or anemone_session_cancel() stopped it */
} anemone_status;

typedef enum {
  ANEMONE_BACKEND_AUTO = 0, /* Core ML on a Mac, an iPhone or an iPad, else the CPU engine */
  ANEMONE_BACKEND_CPU = 1,
  ANEMONE_BACKEND_COREML = 2,
} anemone_backend;

typedef enum { /* what Core ML may use, beside the CPU */
               ANEMONE_UNITS_ANE = 0,
               ANEMONE_UNITS_GPU = 1,
               ANEMONE_UNITS_CPU = 2,
               ANEMONE_UNITS_ALL = 3,
} anemone_compute_units;

typedef struct anemone_bundle anemone_bundle;
typedef struct anemone_session anemone_session;

/* "0.1.0"; and ANEMONE_API_VERSION as the library was built. */
const char* anemone_version(void);
int anemone_api_version(void);
/* Of the last call of this thread that failed; "" before. */
const char* anemone_last_error(void);
/* Frees texts and ids that functions below made. */
void anemone_free(void* memory);

/* ---- bundles */

typedef struct {
  size_t size; /* sizeof(anemone_open_options): set by anemone_open_options_init() */
  anemone_backend backend;
  anemone_compute_units compute_units;
  int fp16;                 /* CPU engine: round as the Neural Engine does */
  int threads;              /* CPU engine; 0: one per core */
  const char* cache_folder; /* of compiled packages; null: the usual one */
  /* Told what Core ML does before a function can run: "compiling", "loading", "warming up", "". First loads take
   * minutes. Anything but 0 gives up. May be null. */
  int (*progress)(void* user, const char* phase, const char* package, const char* function, double seconds);
  void* user;
} anemone_open_options;

void anemone_open_options_init(anemone_open_options* options);
/* `options` may be null. Close it when its sessions are gone. */
anemone_status anemone_bundle_open(const char* path, const anemone_open_options* options,
                                   anemone_bundle** out);
void anemone_bundle_close(anemone_bundle* bundle);
/* Loads every function now; else each is loaded when it is first needed. */
anemone_status anemone_bundle_load(anemone_bundle* bundle);

const char* anemone_bundle_backend(const anemone_bundle* bundle); /* "coreml" or "cpu" */
int64_t anemone_bundle_context(const anemone_bundle* bundle);     /* most positions of a session */
int64_t anemone_bundle_vocabulary(const anemone_bundle* bundle);  /* logits of a position */
int anemone_bundle_has_chat(const anemone_bundle* bundle);        /* whether the model knows turns */

/* ---- tokens and chats */

/* Ids of a text. `special`: with what the model wants around a text. Free with anemone_free(). */
anemone_status anemone_encode(const anemone_bundle* bundle, const char* text, int special, int32_t** ids,
                              size_t* count);
/* The text of ids. `skip_special`: without special tokens. Free with anemone_free(). */
anemone_status anemone_decode(const anemone_bundle* bundle, const int32_t* ids, size_t count,
                              int skip_special, char** text);
/* The ids of a conversation up to the opening of the next answer, by the model's chat template. Free them. */
anemone_status anemone_chat_ids(const anemone_bundle* bundle, const char* const* roles,
                                const char* const* contents, size_t messages, int32_t** ids, size_t* count);
/* The same as text. */
anemone_status anemone_chat_text(const anemone_bundle* bundle, const char* const* roles,
                                 const char* const* contents, size_t messages, char** text);

/* ---- sessions */

/* One text: its states, its position. */
anemone_status anemone_session_new(anemone_bundle* bundle, anemone_session** out);
/* A session of its own with the same past. */
anemone_status anemone_session_fork(const anemone_session* session, anemone_session** out);
void anemone_session_free(anemone_session* session);
int64_t anemone_session_position(const anemone_session* session);
/* Forgets all tokens from `position` on. */
anemone_status anemone_session_rewind(anemone_session* session, int64_t position);
/* Appends tokens. `logits` takes those of the last one, anemone_bundle_vocabulary() of them; it may be null. */
anemone_status anemone_session_feed(anemone_session* session, const int32_t* ids, size_t count,
                                    float* logits);
/* From any thread: what the session is doing ends with ANEMONE_CANCELLED, before its next call of the model. */
void anemone_session_cancel(anemone_session* session);

/* ---- text */

typedef struct {
  size_t size; /* sizeof(anemone_generate_options): set by anemone_generate_options_init() */
  int64_t max_new;
  double temperature; /* 0: always the best token */
  int64_t top_k;      /* 0: off */
  double top_p, min_p, repetition_penalty;
  uint64_t seed;
  const char* const* stops; /* texts that end the answer */
  size_t stop_count;
  int ignore_eos;
  int slide; /* when the context is full, drop the older half and go on */
} anemone_generate_options;

void anemone_generate_options_init(anemone_generate_options* options);

typedef struct {
  size_t size; /* sizeof(anemone_result): set it before the call */
  int64_t prompt_tokens, reused_tokens, new_tokens;
  double first_token_seconds, decode_seconds;
  const char* stopped; /* "length", "end of text", "stop text", …; never freed */
} anemone_result;

/* A piece of the answer, whole characters, as soon as it is certain. Anything but 0 cancels. */
typedef int (*anemone_on_text)(void* user, const char* piece);

/* Reads the prompt (what the session has seen already is not computed again) and streams the answer. `options`,
 * `on_text` and `result` may be null. */
anemone_status anemone_generate(anemone_session* session, const int32_t* prompt, size_t count,
                                const anemone_generate_options* options, anemone_on_text on_text, void* user,
                                anemone_result* result);
/* The same for a text, without a chat template. */
anemone_status anemone_generate_text(anemone_session* session, const char* prompt,
                                     const anemone_generate_options* options, anemone_on_text on_text,
                                     void* user, anemone_result* result);

#ifdef __cplusplus
}
#endif

#endif
