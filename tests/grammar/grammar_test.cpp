// GBNF and the automaton: which texts are in a grammar, and what is refused before any text is read.
#include "grammar/grammar.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "grammar/automaton.h"
#include "grammar/gbnf.h"

using namespace anemone;

namespace {

bool accepts(const Grammar& grammar, std::string_view text) {
  GrammarAutomaton automaton(std::make_shared<const Grammar>(grammar));
  int32_t state = automaton.start();
  for (const char c : text) state = automaton.next(state, static_cast<uint8_t>(c));
  return automaton.accepts(state);
}

std::string refusal(std::string_view text) {
  try {
    parse_gbnf(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a GBNF grammar takes the texts that it describes and no others") {
  struct Case {
    const char* grammar;
    std::vector<std::string> in, out;
  };
  const std::vector<Case> cases = {
      {"root ::= \"yes\" | \"no\"", {"yes", "no"}, {"", "y", "yesno", "Yes"}},
      {"root ::= [a-c]+ [^a-c\\n]?", {"a", "abcx", "cé"}, {"", "x", "a\n", "abxx"}},
      {"root ::= digit{2,3} # two or three\ndigit ::= [0-9]", {"12", "123"}, {"1", "1234"}},
      {"root ::= \"a\"{2}", {"aa"}, {"a", "aaa"}},
      {"root ::= \"a\"{,2}", {"", "a", "aa"}, {"aaa"}},
      {"root ::= \"a\"{1,}", {"a", "aaaaaaaaaaaaaaaaaaaa"}, {""}},
      {"root ::= (\"a\" | \"b\"\n  \"c\")* \"!\"", {"!", "a!", "bca!", "aabc!"}, {"b!", "ac!"}},
      {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "())"}},
      {"root ::= list\nlist ::= item (\",\" item)*\nitem ::= [0-9]+", {"1", "1,22,3"}, {"1,", ",1"}},
      {"root ::= \"\\x41\\u00e9\\U0001f41a\\\"\\\\\"", {"Aé🐚\"\\"}, {"Aé🐚\""}},
      {"root ::= . \"!\"", {"a!", "é!", "🐚!"}, {"!", "aa!", "\xff!", "\xc3!"}},
      {"root ::= [à-ü] [\\-\\]]", {"é-", "ü]"}, {"e-", "éx"}},
      // Ways that begin alike are followed together.
      {"root ::= \"ab\" \"c\" | \"a\" \"bd\"", {"abc", "abd"}, {"ab", "abcd"}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.grammar);
    const Grammar grammar = parse_gbnf(c.grammar);
    for (const std::string& text : c.in) CHECK_MESSAGE(accepts(grammar, text), text);
    for (const std::string& text : c.out) CHECK_MESSAGE(!accepts(grammar, text), text);
  }
}

TEST_CASE("a character of UTF-8 is one item of a set, at every border of its lengths") {
  const Grammar grammar = parse_gbnf("root ::= [\\u0070-\\U00010010]");
  for (const char* text :
       {"p", "\x7f", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010010"})
    CHECK_MESSAGE(accepts(grammar, text), text);
  for (const char* text : {"o", "\U00010011", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80"})
    CHECK_MESSAGE(!accepts(grammar, text), text);
}

TEST_CASE("a grammar that cannot be followed is refused with its reason and place") {
  struct Case {
    const char *grammar, *says;
  };
  for (const Case& c : std::vector<Case>{
           {"", "no rule 'root'"},
           {"root ::= thing", "no rule 'thing'"},
           {"root ::= root \"a\" | \"a\"", "'root' of the grammar begins with itself"},
           {"root ::= a\na ::= b? a2 | \"z\"\nb ::= \"x\"\na2 ::= a \"y\"", "begins with itself"},
           {"root ::= \"a\" root", "can never end"},
           {"root ::= \"a", "line 1, column 12"},
           {"root ::= [z-a]", "ends before it begins"},
           {"root ::= []", "empty"},
           {"root ::= (\"a\"", "')' is missing"},
           {"root ::= \"a\"{3,2}", "ends before it begins"},
           {"root ::= \"\\q\"", "unknown escape"},
           {"root = \"a\"", "'::=' is missing"},
           {"root ::= \"a\"\nroot ::= \"b\"", "twice"},
           {"root ::= \"a\" )", "should end here"},
           {"root ::= \"a\"{300000}", "too large"},
           {"root ::= ((\"a\"{1000} \"b\"){1,100000}){1,100000}", "too large"},
       }) {
    const std::string said = refusal(c.grammar);
    CAPTURE(said);
    CHECK(said.find(c.says) != std::string::npos);
  }
}

TEST_CASE("a grammar that can be read in very many ways is ended, not followed for ever") {
  const Grammar grammar = parse_gbnf("root ::= (\"a\" | \"a\" \"a\")* \"b\"");
  CHECK(accepts(grammar, std::string(3000, 'a') + "b"));
  // Each a opens another depth: the automaton stops at its limit of open rules, and says no.
  const Grammar deep = parse_gbnf("root ::= \"a\" root \"b\" | \"\"");
  CHECK(accepts(deep, std::string(300, 'a') + std::string(300, 'b')));
  CHECK(!accepts(deep, std::string(5000, 'a') + std::string(5000, 'b')));
}
