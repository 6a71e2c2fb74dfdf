// Tokens and chats of the C interface.
#include "bundle/bundle_info.h"
#include "capi/handles.h"

namespace anemone {
namespace {

const PromptFormat& format_of(const anemone_tokenizer* tokenizer) {
  return *expect(tokenizer, "the tokenizer").format;
}

std::vector<Message> messages_of(const char* const* roles, const char* const* contents, size_t count) {
  const auto role = list_of(roles, count, "the list of roles");
  const auto content = list_of(contents, count, "the list of contents");
  std::vector<Message> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back({&expect(role[i], "a role"), &expect(content[i], "a content")});
  return out;
}

std::shared_ptr<const Tokenizer> load(const std::filesystem::path& path) {
  if (!is_bundle(path)) return Tokenizer::load(path);
  const std::string file = BundleInfo::read(path).tokenizer;
  if (file.empty()) throw errorf("the bundle has no tokenizer").at(path.string());
  return Tokenizer::load(path / file);
}

anemone_status give(const std::vector<int32_t>& values, int32_t*& ids, size_t& count) {
  ids = copied(values);
  count = values.size();
  return ANEMONE_OK;
}

}  // namespace

extern "C" {

anemone_status anemone_tokenizer_open(const char* path, anemone_tokenizer** out) {
  return guarded([&] {
    anemone_tokenizer*& place = emptied(out, "the place for the tokenizer");
    place = new anemone_tokenizer{std::make_shared<PromptFormat>(load(&expect(path, "the path")))};
    return ANEMONE_OK;
  });
}

void anemone_tokenizer_close(anemone_tokenizer* tokenizer) { delete tokenizer; }

int64_t anemone_tokenizer_vocabulary(const anemone_tokenizer* tokenizer) {
  return tokenizer ? tokenizer->format->tokenizer()->vocabulary_size() : 0;
}

int anemone_tokenizer_has_chat(const anemone_tokenizer* tokenizer) {
  return tokenizer && tokenizer->format->has_turns() ? 1 : 0;
}

int32_t anemone_tokenizer_find(const anemone_tokenizer* tokenizer, const char* token) {
  int32_t id = kNoToken;
  guarded([&] {
    if (tokenizer && token) id = tokenizer->format->tokenizer()->find(token);
    return ANEMONE_OK;
  });
  return id == kNoToken ? -1 : id;
}

anemone_status anemone_encode(const anemone_tokenizer* tokenizer, const char* text, int flags, int32_t** ids,
                              size_t* count) {
  return guarded([&] {
    int32_t*& list = emptied(ids, "the place for the ids");
    size_t& size = emptied(count, "the place for the number of ids");
    if (flags & ~(ANEMONE_ADD_SPECIAL | ANEMONE_PLAIN_TEXT))
      throw errorf("the flags {} of anemone_encode are not known", flags);
    return give(format_of(tokenizer).tokenizer()->encode(&expect(text, "the text"),
                                                         {.add_special = (flags & ANEMONE_ADD_SPECIAL) != 0,
                                                          .parse_special = !(flags & ANEMONE_PLAIN_TEXT)}),
                list, size);
  });
}

anemone_status anemone_decode(const anemone_tokenizer* tokenizer, const int32_t* ids, size_t count,
                              int skip_special, char** text) {
  return guarded([&] {
    char*& place = emptied(text, "the place for the text");
    place = copied(
        format_of(tokenizer).tokenizer()->decode(list_of(ids, count, "the list of ids"), skip_special != 0));
    return ANEMONE_OK;
  });
}

anemone_status anemone_chat_ids(const anemone_tokenizer* tokenizer, const char* const* roles,
                                const char* const* contents, size_t messages, int flags, int32_t** ids,
                                size_t* count) {
  return guarded([&] {
    int32_t*& list = emptied(ids, "the place for the ids");
    size_t& size = emptied(count, "the place for the number of ids");
    if (flags & ~ANEMONE_PLAIN_TEXT) throw errorf("the flags {} of anemone_chat_ids are not known", flags);
    const auto contents_are = flags & ANEMONE_PLAIN_TEXT ? Contents::plain : Contents::parsed;
    return give(format_of(tokenizer).conversation(messages_of(roles, contents, messages), contents_are), list,
                size);
  });
}

anemone_status anemone_chat_text(const anemone_tokenizer* tokenizer, const char* const* roles,
                                 const char* const* contents, size_t messages, char** text) {
  return guarded([&] {
    char*& place = emptied(text, "the place for the text");
    place = copied(format_of(tokenizer).text(messages_of(roles, contents, messages)));
    return ANEMONE_OK;
  });
}

}  // extern "C"
}  // namespace anemone
