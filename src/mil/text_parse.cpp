#include <unordered_map>

#include "mil/text.h"
#include "mil/text_literal.h"

namespace anemone {
namespace {

// Programs: functions, blocks, operations, and which names are in scope.
class Parser : public MilLiterals {
 public:
  using MilLiterals::MilLiterals;

  Program program() {
    Program out;
    expect_word("program");
    expect('(');
    const std::string version = word();
    if (version != "1.0" && version != "1.1" && version != "1.2" && version != "1.3")
      throw at_here(errorf("unknown version of MIL text").found(version).expected("1.0 to 1.3"));
    expect(')');
    if (peek() == '[') out.attributes = attributes();
    expect('{');
    while (!accept('}')) {
      out.functions.push_back(function());
      for (size_t i = 0; i + 1 < out.functions.size(); ++i)
        if (out.functions[i]->name == out.functions.back()->name)
          throw at_here(errorf("the function '{}' is defined twice", out.functions.back()->name));
    }
    if (peek() != '\0') throw at_here(errorf("text after the program's end"));
    return out;
  }

 private:
  Attributes attributes() {
    Attributes out;
    expect('[');
    if (accept(']')) return out;
    do {
      const std::string key = word();
      expect('=');
      if (!out.emplace(key, literal()).second)
        throw at_here(errorf("the attribute '{}' is given twice", key));
    } while (accept(','));
    expect(']');
    return out;
  }

  std::unique_ptr<Value> declare(Operation* producer) {
    Type t = type();
    auto value = std::make_unique<Value>(Value{word(), std::move(t), producer, {}});
    if (!values_.emplace(value->name, value.get()).second)
      throw at_here(errorf("the value '{}' is defined twice", value->name));
    scope_.push_back(value->name);
    return value;
  }

  Value* use() {
    const std::string name = word();
    const auto it = values_.find(name);
    if (it == values_.end()) throw at_here(errorf("the value '{}' is not defined", name));
    return it->second;
  }

  std::vector<std::unique_ptr<Value>> parameters() {
    std::vector<std::unique_ptr<Value>> out;
    expect('(');
    if (accept(')')) return out;
    do out.push_back(declare(nullptr));
    while (accept(','));
    expect(')');
    return out;
  }

  std::vector<Value*> outputs() {
    expect('-');
    expect('>');
    std::vector<Value*> out;
    expect('(');
    if (accept(')')) return out;
    do out.push_back(use());
    while (accept(','));
    expect(')');
    return out;
  }

  std::unique_ptr<Function> function() {
    values_.clear();
    scope_.clear();
    auto f = std::make_unique<Function>();
    expect_word("func");
    f->name = word();
    expect('<');
    const std::string opset = word();
    const auto known = opset_from_name(opset);
    if (!known) throw at_here(errorf("unknown opset '{}'", opset).expected("ios15 to ios18 or ios26"));
    f->opset = *known;
    expect('>');
    f->inputs = parameters();
    if (peek() == '[') f->attributes = attributes();
    expect('{');
    while (!accept('}')) f->body.ops.push_back(operation());
    f->body.outputs = outputs();
    expect(';');
    return f;
  }

  // Values of a nested block go out of scope with it.
  std::unique_ptr<Block> block() {
    const Nest nest(*this);
    const size_t outer = scope_.size();
    auto b = std::make_unique<Block>();
    b->inputs = parameters();
    expect('{');
    while (!accept('}')) b->ops.push_back(operation());
    b->outputs = outputs();
    for (; scope_.size() > outer; scope_.pop_back()) values_.erase(scope_.back());
    return b;
  }

  Binding binding() {
    // A literal starts with a type; a value is a name that something defines.
    peek();
    const size_t start = position();
    const std::string name = word();
    const char next = peek();
    go_back(start);
    if (next == '(' || next == '<') return {nullptr, std::make_shared<const Constant>(literal()), {}};
    return {use(), nullptr, {}};
  }

  std::unique_ptr<Operation> operation() {
    auto op = std::make_unique<Operation>();
    // "TYPE name, TYPE name = op(…)" or "op(…)": a type is followed by a name, an operation by a parenthesis.
    peek();
    const size_t start = position();
    op->type = word();
    if (peek() != '(') {
      go_back(start);
      // Outputs enter the scope after the inputs are read: an operation cannot use its own result.
      std::vector<std::pair<Type, std::string>> declared;
      do {
        Type t = type();
        std::string name = word();
        declared.push_back({std::move(t), std::move(name)});
      } while (accept(','));
      expect('=');
      op->type = word();
      finish(*op);
      for (auto& [t, name] : declared) {
        auto value = std::make_unique<Value>(Value{name, std::move(t), op.get(), {}});
        if (!values_.emplace(name, value.get()).second)
          throw at_here(errorf("the value '{}' is defined twice", name));
        scope_.push_back(name);
        op->outputs.push_back(std::move(value));
      }
    } else {
      finish(*op);
    }
    expect(';');
    return op;
  }

  void finish(Operation& op) {
    expect('(');
    if (!accept(')')) {
      do {
        Input input{word(), {}, {}};
        if (op.input(input.name)) throw at_here(errorf("the parameter '{}' is given twice", input.name));
        expect('=');
        if (accept('(')) {
          if (!accept(')')) {
            do input.bindings.push_back(binding());
            while (accept(','));
            expect(')');
          }
        } else {
          input.bindings.push_back(binding());
        }
        op.inputs.push_back(std::move(input));
      } while (accept(','));
      expect(')');
    }
    if (peek() == '[') op.attributes = attributes();
    while (peek() == '(') op.blocks.push_back(block());
  }

  std::unordered_map<std::string, Value*> values_;
  std::vector<std::string> scope_;
};

}  // namespace

Program parse_mil(std::string_view text, const std::string& name, const BlobResolver& resolve) {
  Parser parser(text, name, resolve);
  try {
    return parser.program();
  } catch (Error& e) {  // an error about a size or a weight file does not know the text
    if (!e.where().starts_with(name)) e.within(parser.place());
    throw;
  }
}

}  // namespace anemone
