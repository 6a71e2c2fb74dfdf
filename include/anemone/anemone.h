/* The C interface: bundles, tokens, chats and streamed text, for C and for every language that can call C.
 *     anemone_bundle* bundle = NULL;
 *     if (anemone_bundle_open("smollm2", NULL, &bundle)) return fail(anemone_last_error());
 *     anemone_session* session = NULL;
 *     anemone_session_new(bundle, &session);
 *     anemone_generate_text(session, "Once upon a time", NULL, on_text, NULL, NULL);
 *
 * Errors: a function that can fail returns a status. anemone_last_error() then says why, for the calling thread, until
 *   another call of this thread fails. A failed call gives nothing: the places for results hold null or 0.
 * Owners: what a function makes is freed with the function that its comment names; null is always fine there. Handles
 *   may be closed in any order: a session keeps what it needs of its bundle.
 * Threads: a bundle and a tokenizer may be shared by threads. A session and an answer belong to one thread at a time,
 *   except for anemone_session_cancel().
 * Callbacks run on the calling thread. They must not throw, and must not use the bundle or a session of it, except to
 *   cancel one.
 * Texts are UTF-8 and end with a 0; a byte 0 inside of one that is given out is U+FFFD. Structs begin with their size,
 *   which their _init function sets: a program keeps working with later versions of the library, which only add fields
 *   at the end, and with earlier ones, which leave the fields alone that they do not know. */
#ifndef ANEMONE_H
#define ANEMONE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define ANEMONE_API
#else
#define ANEMONE_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when functions or fields are added. What is there stays. */
#define ANEMONE_API_VERSION 2

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

/* What Core ML may use, beside the CPU. */
typedef enum {
  ANEMONE_UNITS_ANE = 0,
  ANEMONE_UNITS_GPU = 1,
  ANEMONE_UNITS_CPU = 2,
  ANEMONE_UNITS_ALL = 3,
} anemone_compute_units;

/* How the CPU engine computes. */
typedef enum {
  ANEMONE_FP32 = 0,
  ANEMONE_FP16 = 1, /* rounds as the Neural Engine does */
  ANEMONE_FAST = 2, /* activations of 8 bits: what the command uses for text */
} anemone_arithmetic;

typedef struct anemone_bundle anemone_bundle;
typedef struct anemone_tokenizer anemone_tokenizer;
typedef struct anemone_session anemone_session;
typedef struct anemone_answer anemone_answer;

/* The library's version, "0.1.0"; and ANEMONE_API_VERSION as it was built. */
ANEMONE_API const char* anemone_version(void);
ANEMONE_API int anemone_api_version(void);
/* Of the last call of this thread that failed; "" before. */
ANEMONE_API const char* anemone_last_error(void);
/* Frees texts and ids that functions below made. */
ANEMONE_API void anemone_free(void* memory);

/* ---- bundles */

typedef struct {
  size_t size;
  anemone_backend backend;
  anemone_compute_units compute_units;
  anemone_arithmetic arithmetic;
  int threads;              /* CPU engine; 0: one per core */
  const char* cache_folder; /* of compiled packages; null: the usual one */
  /* Told what Core ML does before a function can run: "compiling", "loading", "warming up", "". First loads take
   * minutes. Anything but 0 gives up. May be null. It is called for as long as the bundle is in use. */
  int (*progress)(void* user, const char* phase, const char* package, const char* function, double seconds);
  void* user;
} anemone_open_options;

/* The defaults. `size` is the struct's size as the caller knows it: nothing behind it is written. */
ANEMONE_API void anemone_open_options_init_sized(anemone_open_options* options, size_t size);
static inline void anemone_open_options_init(anemone_open_options* options) {
  anemone_open_options_init_sized(options, sizeof(*options));
}
/* `options` may be null. Free with anemone_bundle_close(). */
ANEMONE_API anemone_status anemone_bundle_open(const char* path, const anemone_open_options* options,
                                               anemone_bundle** out);
ANEMONE_API void anemone_bundle_close(anemone_bundle* bundle);
/* Loads every function now; else each is loaded when it is first needed. */
ANEMONE_API anemone_status anemone_bundle_load(anemone_bundle* bundle);

ANEMONE_API const char* anemone_bundle_backend(const anemone_bundle* bundle); /* "coreml" or "cpu" */
ANEMONE_API int64_t anemone_bundle_context(const anemone_bundle* bundle);    /* most positions of a session */
ANEMONE_API int64_t anemone_bundle_vocabulary(const anemone_bundle* bundle); /* logits of a position */
/* The bundle's tokenizer. Free with anemone_tokenizer_close(). */
ANEMONE_API anemone_status anemone_bundle_tokenizer(const anemone_bundle* bundle, anemone_tokenizer** out);

/* ---- tokens and chats */

/* Of a bundle, a tokenizer.json, a tokenizer.model, a GGUF file, or a folder with one of these. Nothing else of a
 * bundle is opened. Free with anemone_tokenizer_close(). */
ANEMONE_API anemone_status anemone_tokenizer_open(const char* path, anemone_tokenizer** out);
ANEMONE_API void anemone_tokenizer_close(anemone_tokenizer* tokenizer);
ANEMONE_API int64_t anemone_tokenizer_vocabulary(const anemone_tokenizer* tokenizer); /* highest id + 1 */
/* Whether a chat template came with it: the model knows turns. */
ANEMONE_API int anemone_tokenizer_has_chat(const anemone_tokenizer* tokenizer);
/* The id of a token by its text, "<|im_end|>" say; -1 where there is none. */
ANEMONE_API int32_t anemone_tokenizer_find(const anemone_tokenizer* tokenizer, const char* token);

enum {
  ANEMONE_ADD_SPECIAL = 1, /* with what the model wants around a text: beginning, end */
  ANEMONE_PLAIN_TEXT = 2,  /* "<|im_end|>" in the text stays text: for text from strangers */
};
/* Ids of a text. `flags`: some of the above, or 0. Free with anemone_free(). */
ANEMONE_API anemone_status anemone_encode(const anemone_tokenizer* tokenizer, const char* text, int flags,
                                          int32_t** ids, size_t* count);
/* The text of ids. `skip_special`: without special tokens. Free with anemone_free(). */
ANEMONE_API anemone_status anemone_decode(const anemone_tokenizer* tokenizer, const int32_t* ids,
                                          size_t count, int skip_special, char** text);
/* The ids of a conversation up to the opening of the next answer, by the model's chat template. Without a template the
 * contents are joined to one text. `flags`: 0, or ANEMONE_PLAIN_TEXT, with which special tokens that stand in the
 * contents stay text: nobody can close his turn and speak as another. Free with anemone_free(). */
ANEMONE_API anemone_status anemone_chat_ids(const anemone_tokenizer* tokenizer, const char* const* roles,
                                            const char* const* contents, size_t messages, int flags,
                                            int32_t** ids, size_t* count);
/* The same as text. */
ANEMONE_API anemone_status anemone_chat_text(const anemone_tokenizer* tokenizer, const char* const* roles,
                                             const char* const* contents, size_t messages, char** text);

/* ---- sessions */

/* One text: its states, its position. Free with anemone_session_free(). */
ANEMONE_API anemone_status anemone_session_new(anemone_bundle* bundle, anemone_session** out);
/* A session of its own with the same past. */
ANEMONE_API anemone_status anemone_session_fork(const anemone_session* session, anemone_session** out);
ANEMONE_API void anemone_session_free(anemone_session* session);
ANEMONE_API int64_t anemone_session_position(const anemone_session* session);
/* Forgets all tokens from `position` on. */
ANEMONE_API anemone_status anemone_session_rewind(anemone_session* session, int64_t position);
/* Appends tokens. `logits` takes those of the last one, anemone_bundle_vocabulary() of them; it may be null. */
ANEMONE_API anemone_status anemone_session_feed(anemone_session* session, const int32_t* ids, size_t count,
                                                float* logits);
/* Appends tokens and gives the best id to follow; also for bundles that give no logits. */
ANEMONE_API anemone_status anemone_session_feed_best(anemone_session* session, const int32_t* ids,
                                                     size_t count, int32_t* best);
/* From any thread: what the session is doing ends with ANEMONE_CANCELLED, before its next call of the model. Where it
 * does nothing, nothing happens. */
ANEMONE_API void anemone_session_cancel(anemone_session* session);

/* ---- text */

typedef struct {
  size_t size;
  int64_t max_new;
  double temperature; /* 0: always the best token */
  int64_t top_k;      /* 0: off */
  double top_p, min_p, repetition_penalty;
  uint64_t seed;
  const char* const* stops; /* texts that end the answer; they are not given out */
  size_t stop_count;
  int ignore_eos;
  int slide;                 /* when the context is full, drop the older half and go on */
  int64_t repetition_window; /* how many of the last tokens repetition_penalty looks at */
  double presence_penalty, frequency_penalty;
  const int32_t* ends; /* ids that end the answer, beside the bundle's and the tokenizer's */
  size_t end_count;
} anemone_generate_options;

ANEMONE_API void anemone_generate_options_init_sized(anemone_generate_options* options, size_t size);
static inline void anemone_generate_options_init(anemone_generate_options* options) {
  anemone_generate_options_init_sized(options, sizeof(*options));
}

typedef struct {
  size_t size;
  int64_t prompt_tokens, reused_tokens, new_tokens;
  double first_token_seconds, decode_seconds;
  const char* stopped; /* "length", "end of text", "stop text", …; never freed */
} anemone_result;

ANEMONE_API void anemone_result_init_sized(anemone_result* result, size_t size);
static inline void anemone_result_init(anemone_result* result) {
  anemone_result_init_sized(result, sizeof(*result));
}

/* A piece of the answer, whole characters, as soon as it is certain. Anything but 0 cancels. */
typedef int (*anemone_on_text)(void* user, const char* piece);

/* Reads the prompt (what the session has seen already is not computed again) and streams the answer. `options`,
 * `on_text` and `result` may be null. A cancelled answer fills `result` too; after an error it holds zeros. */
ANEMONE_API anemone_status anemone_generate(anemone_session* session, const int32_t* prompt, size_t count,
                                            const anemone_generate_options* options, anemone_on_text on_text,
                                            void* user, anemone_result* result);
/* The same for a text, without a chat template. */
ANEMONE_API anemone_status anemone_generate_text(anemone_session* session, const char* prompt,
                                                 const anemone_generate_options* options,
                                                 anemone_on_text on_text, void* user, anemone_result* result);

/* ---- answers, for hosts that run the model themselves
 *     anemone_answer_pick(answer, logits, vocabulary, &id);
 *     anemone_answer_take(answer, id, &text, &over);            show `text`; go on unless `over` */

/* An answer in the making: picks tokens from logits, turns them into text, says when it is over. `tokenizer` may be
 * null: then there is no text. `slide` means nothing here. Free with anemone_answer_free(). */
ANEMONE_API anemone_status anemone_answer_new(const anemone_tokenizer* tokenizer, const int32_t* prompt,
                                              size_t count, const anemone_generate_options* options,
                                              anemone_answer** out);
ANEMONE_API void anemone_answer_free(anemone_answer* answer);
/* The next token by the options: penalties, temperature and so on. It is not taken yet. */
ANEMONE_API anemone_status anemone_answer_pick(anemone_answer* answer, const float* logits, size_t count,
                                               int32_t* id);
/* Takes a token into the answer. `text`: what became certain by it, until the next call with this answer. `over`: 1
 * where the answer ends with it (an end token is not a part of the answer). `text` and `over` may be null. */
ANEMONE_API anemone_status anemone_answer_take(anemone_answer* answer, int32_t id, const char** text,
                                               int* over);
/* Once, at the end: what was held back, and why it ended ("cancelled" where it was not over). Both may be null. */
ANEMONE_API anemone_status anemone_answer_finish(anemone_answer* answer, const char** text,
                                                 const char** stopped);

#ifdef __cplusplus
}
#endif

#endif
