// The words in which a model is asked to translate.
//     Translator translator(*bundle, tokenizer);
//     std::vector<int32_t> ids = translator.prompt("Good morning.", find_language("fr"));
// Hy-MT (family hunyuan) gets the prompts that it was trained with; every other model with a chat template
// gets a plain instruction.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/languages.h"
#include "runtime/prompt.h"

namespace anemone {

class Translator {
 public:
  // `chat_template` empty: the model's own. Error for a model that was trained neither to translate nor to
  // follow instructions.
  Translator(const Bundle& bundle, std::shared_ptr<const Tokenizer> tokenizer,
             const std::string& chat_template = "");

  // `from` may be absent: Chinese text is then known by its characters.
  std::vector<int32_t> prompt(std::string_view text, const Language& to,
                              const Language* from = nullptr) const;
  // What the user's turn says.
  std::string request(std::string_view text, const Language& to, const Language* from = nullptr) const;
  // True for Hy-MT; else the model is a general one and is asked in plain words.
  bool trained() const { return trained_; }

 private:
  bool trained_;
  PromptFormat format_;
};

}  // namespace anemone
