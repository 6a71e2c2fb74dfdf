/* What the stand-in for Core ML runs packages on: our CPU engine in fp16 arithmetic, as plain C. tests/swift/engine.cpp
 * implements it. Functions that can fail give null or -1; stand_in_error() says why, for the calling thread. */
#ifndef ANEMONE_STAND_IN_H
#define ANEMONE_STAND_IN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stand_in_model stand_in_model;
typedef struct stand_in_state stand_in_state;
typedef struct stand_in_result stand_in_result;

enum { STAND_IN_INPUTS = 0, STAND_IN_OUTPUTS = 1, STAND_IN_STATES = 2 };

const char* stand_in_error(void);

/* `function` null: the package's only one; for several, it must be named. */
stand_in_model* stand_in_open(const char* package, const char* function);
void stand_in_close(stand_in_model* model);
int stand_in_count(const stand_in_model* model, int kind);
const char* stand_in_name(const stand_in_model* model, int kind, int index);
int stand_in_is_int32(const stand_in_model* model, int kind, int index);
int stand_in_rank(const stand_in_model* model, int kind, int index);
int64_t stand_in_size(const stand_in_model* model, int kind, int index, int axis);

stand_in_state* stand_in_state_new(const stand_in_model* model);
void stand_in_state_free(stand_in_state* state);
int stand_in_state_get(const stand_in_state* state, const char* name, float* values, int64_t count);
int stand_in_state_set(stand_in_state* state, const char* name, const float* values, int64_t count);

/* Dense arrays by name: shapes lie one behind the other. `state` may be null. */
stand_in_result* stand_in_predict(const stand_in_model* model, stand_in_state* state, int inputs,
                                  const char* const* names, const int* ranks, const int64_t* shapes,
                                  const float* const* values);
void stand_in_result_free(stand_in_result* result);
int stand_in_result_rank(const stand_in_result* result, const char* name); /* -1: no such output */
int64_t stand_in_result_size(const stand_in_result* result, const char* name, int axis);
const float* stand_in_result_values(const stand_in_result* result, const char* name);

#ifdef __cplusplus
}
#endif

#endif
