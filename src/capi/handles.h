// What the handles of the C interface are, and how its functions fail: no exception leaves them.
//     return guarded([&] { give(tokenizer.encode(text), ids, count); return ANEMONE_OK; });
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "anemone/anemone.h"
#include "base/error.h"
#include "runtime/generate.h"
#include "runtime/prompt.h"
#include "runtime/session.h"

struct anemone_bundle {
  std::shared_ptr<const anemone::Bundle> bundle;
  std::shared_ptr<const anemone::PromptFormat> format;  // null: no tokenizer came with it
};

struct anemone_tokenizer {
  std::shared_ptr<const anemone::PromptFormat> format;
};

struct anemone_session {
  anemone_bundle owner;  // its own hold, so that the bundle's handle may be closed first
  anemone::Session session;
  std::atomic<bool> cancelled{false};

  anemone_session(anemone_bundle b, anemone::Session s) : owner(std::move(b)), session(std::move(s)) {}
};

namespace anemone {

// Keeps a text for anemone_last_error() of this thread.
void note_error(const char* text) noexcept;

// Runs the body; what it throws becomes a status.
template <class Body>
anemone_status guarded(const Body& body) noexcept {
  try {
    return body();
  } catch (const Cancelled& e) {
    note_error(e.what());
    return ANEMONE_CANCELLED;
  } catch (const std::exception& e) {
    note_error(e.what());
    return ANEMONE_ERROR;
  } catch (...) {
    note_error("something that is no error was thrown");
    return ANEMONE_ERROR;
  }
}

template <class T>
T& expect(T* pointer, const char* what) {
  if (!pointer) throw errorf("{} is null", what);
  return *pointer;
}

// The place for a result, emptied: a call that fails gives nothing.
template <class T>
T& emptied(T* place, const char* what) {
  T& out = expect(place, what);
  out = T{};
  return out;
}

template <class T>
std::span<const T> list_of(const T* items, size_t count, const char* what) {
  if (count) expect(items, what);
  return {items, count};
}

// For C, where a text ends at its first 0: U+FFFD takes the place of one inside.
std::string without_zeros(std::string_view text);

// Copies for anemone_free().
int32_t* copied(const std::vector<int32_t>& ids);
char* copied(std::string_view text);  // without_zeros()

// More than any struct of the interface will ever have.
constexpr size_t kMostBytes = 4096;

// Writes defaults into a caller's struct, which may be shorter or longer than ours.
template <class T>
void put_defaults(T* place, size_t size, T defaults) {
  if (!place || size < sizeof(size_t) || size > kMostBytes) return;
  defaults.size = size;
  std::memset(place, 0, size);
  std::memcpy(place, &defaults, std::min(size, sizeof(T)));
}

// Options of an older caller are shorter: what is missing has its default.
template <class T>
T taken(const T* given, void (*init)(T*, size_t)) {
  T out;
  init(&out, sizeof(out));
  if (!given) return out;
  if (given->size < sizeof(size_t) || given->size > kMostBytes)
    throw errorf("options without a size: call their _init function first");
  std::memcpy(&out, given, std::min(given->size, sizeof(out)));
  out.size = sizeof(out);
  return out;
}

// Sampling, stops and limits; the stops are copied, `ends` are not among them.
GenerateOptions options_of(const anemone_generate_options& options);

}  // namespace anemone
