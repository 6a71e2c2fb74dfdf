#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "base/error.h"
#include "base/half.h"
#include "base/shape.h"
#include "mil/text.h"

namespace anemone {
namespace {

constexpr int kMostNesting = 64;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '@' ||
         c == '.' || c == '/';
}

// Appends elements of one dtype, packed as a Constant holds them.
class ElementWriter {
 public:
  explicit ElementWriter(DType dtype) : dtype_(dtype), bits_(dtype_bits(dtype)) {}

  void add_float(double v) {
    if (dtype_ == DType::fp16) return put(half_from_float(static_cast<float>(v)));
    if (dtype_ == DType::bf16) return put(bfloat16_from_float(static_cast<float>(v)));
    if (dtype_ == DType::fp64) return put(v);
    put(static_cast<float>(v));
  }

  void add_int(uint64_t v) {
    if (bits_ >= 8) {
      const size_t n = static_cast<size_t>(bits_ / 8), at = bytes.size();
      bytes.resize(at + n);
      std::memcpy(bytes.data() + at, &v, n);
      return;
    }
    for (int b = 0; b < bits_; ++b, ++bit_) {
      if (bit_ % 8 == 0) bytes.push_back(std::byte{0});
      bytes.back() |= static_cast<std::byte>(((v >> b) & 1) << (bit_ % 8));
    }
  }

  Constant::Bytes bytes;

 private:
  template <class T>
  void put(T v) {
    const size_t at = bytes.size();
    bytes.resize(at + sizeof v);
    std::memcpy(bytes.data() + at, &v, sizeof v);
  }

  DType dtype_;
  int bits_;
  uint64_t bit_ = 0;
};

class Parser {
 public:
  Parser(std::string_view text, const std::string& name, const BlobResolver& resolve)
      : text_(text), name_(name), resolve_(resolve) {}

  // Where we are: "model.mil:12:102".
  std::string place() const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < std::min(pos_, text_.size()); ++i) {
      ++column;
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      }
    }
    return fmt::format("{}:{}:{}", name_, line, column);
  }

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
  // ---- characters and words

  Error at_here(Error e) const {
    e.at(place());
    return e;
  }

  char peek() {
    for (;;) {
      while (pos_ < text_.size() && std::strchr(" \t\r\n", text_[pos_]) && text_[pos_]) ++pos_;
      if (text_.substr(pos_, 2) != "//") break;
      while (pos_ < text_.size() && text_[pos_] != '\n') ++pos_;
    }
    return pos_ < text_.size() ? text_[pos_] : '\0';
  }

  bool accept(char c) {
    if (peek() != c || pos_ >= text_.size()) return false;
    ++pos_;
    return true;
  }

  void expect(char c) {
    const char found = peek();
    if (!accept(c))
      throw at_here(errorf("'{}' is missing", c)
                        .found(found ? fmt::format("'{}'", found) : std::string("the end of the text")));
  }

  std::string word() {
    peek();
    const size_t begin = pos_;
    while (pos_ < text_.size() && is_word(text_[pos_])) ++pos_;
    if (begin == pos_) throw at_here(errorf("a name is missing"));
    return std::string(text_.substr(begin, pos_ - begin));
  }

  void expect_word(std::string_view expected) {
    const std::string found = word();
    if (found != expected) throw at_here(errorf("'{}' is missing", expected).found("'" + found + "'"));
  }

  std::string string() {
    expect('"');
    std::string out;
    while (pos_ < text_.size() && text_[pos_] != '"') {
      char c = text_[pos_++];
      if (c == '\\' && pos_ < text_.size()) {
        c = text_[pos_++];
        c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
      }
      out += c;
    }
    if (pos_ >= text_.size()) throw at_here(errorf("a text is not closed"));
    ++pos_;
    return out;
  }

  std::string number_token() {
    peek();
    const size_t begin = pos_;
    while (pos_ < text_.size() && (is_word(text_[pos_]) || text_[pos_] == '-' || text_[pos_] == '+')) ++pos_;
    if (begin == pos_) throw at_here(errorf("a number is missing"));
    return std::string(text_.substr(begin, pos_ - begin));
  }

  double floating() {
    const std::string token = number_token();
    char* end = nullptr;
    const double value = std::strtod(token.c_str(), &end);
    if (end != token.c_str() + token.size()) throw at_here(errorf("not a number").found(token));
    return value;
  }

  // A whole number that `dtype` holds; a negative one in two's complement.
  uint64_t integer(DType dtype) {
    const std::string token = number_token();
    const bool negative = token[0] == '-';
    const int base = token.compare(negative ? 1 : 0, 2, "0x") == 0 ? 16 : 10;
    char* end = nullptr;
    errno = 0;
    const uint64_t value = negative ? static_cast<uint64_t>(std::strtoll(token.c_str(), &end, base))
                                    : std::strtoull(token.c_str(), &end, base);
    if (errno != 0 || end != token.c_str() + token.size())
      throw at_here(errorf("not a whole number of 64 bits").found(token));
    const bool with_sign = dtype_is_signed(dtype);
    const uint64_t highest = ~uint64_t{0} >> (64 - dtype_bits(dtype) + (with_sign ? 1 : 0));
    const bool fits = negative && value != 0 ? with_sign && ~value <= highest : value <= highest;
    if (!fits)
      throw at_here(errorf("the number is outside its type")
                        .found(token)
                        .expected(fmt::format("{}: {} to {}", dtype_name(dtype),
                                              with_sign ? -static_cast<int64_t>(highest) - 1 : 0, highest)));
    return value;
  }

  struct Nest {  // counts how deep we are, so that hostile text cannot exhaust the stack
    explicit Nest(Parser& p) : parser(p) {
      if (++parser.depth_ > kMostNesting) throw parser.at_here(errorf("nested deeper than {}", kMostNesting));
    }
    ~Nest() { --parser.depth_; }
    Parser& parser;
  };

  // ---- types

  Dim dim() {
    if (accept('?')) return Dim::unknown();
    const uint64_t n = integer(DType::int64);
    if (n > INT64_MAX) throw at_here(errorf("a dimension is negative"));
    return static_cast<int64_t>(n);
  }

  Shape shape() {
    Shape out;
    expect('[');
    if (accept(']')) return out;
    do out.push_back(dim());
    while (accept(','));
    expect(']');
    return out;
  }

  DType dtype(const std::string& name) {
    const DType out = dtype_from_name(name);
    if (out == DType::none) throw at_here(errorf("unknown type '{}'", name));
    return out;
  }

  Type type() {
    const Nest nest(*this);
    const std::string kind = word();
    Type out;
    if (kind == "tensor") {
      expect('<');
      const DType element = dtype(word());
      expect(',');
      out = Type::tensor(element, shape());
    } else if (kind == "state") {
      expect('<');
      const Type content = type();
      if (!content.is_tensor()) throw at_here(errorf("a state holds a tensor"));
      out = Type::state(content.dtype, content.shape);
    } else if (kind == "list") {
      expect('<');
      Type element = type();
      expect(',');
      out = Type::list(std::move(element), dim());
    } else if (kind == "dict" || kind == "tuple") {
      out.kind = kind == "dict" ? Type::Kind::dict : Type::Kind::tuple;
      expect('<');
      if (peek() != '>') {
        do out.items.push_back(type());
        while (accept(','));
      }
      if (kind == "dict" && out.items.size() != 2) throw at_here(errorf("a dict has two types"));
    } else {
      return Type::tensor(dtype(kind));  // a scalar by its bare name
    }
    expect('>');
    return out;
  }

  // ---- literals

  Constant literal() {
    Type t = type();
    expect('(');
    Constant out = value(std::move(t));
    expect(')');
    return out;
  }

  Constant value(Type t) {
    const Nest nest(*this);
    if (peek() == 'B' && text_.substr(pos_, 8) == "BLOBFILE") return blob(std::move(t));
    if (t.kind == Type::Kind::tensor) return tensor(std::move(t));
    Constant out;
    Constant::Items items;
    if (t.kind == Type::Kind::tuple) {
      expect('(');
      // A tuple is written with or without parentheses of its own inside the literal's.
      for (size_t i = 0; i < t.items.size(); ++i) {
        if (i) expect(',');
        items.push_back(value(t.items[i]));
      }
      expect(')');
    } else if (t.kind == Type::Kind::list) {
      expect('[');
      if (peek() != ']') {
        do items.push_back(value(t.items[0]));
        while (accept(','));
      }
      expect(']');
    } else if (t.kind == Type::Kind::dict) {
      expect('{');
      if (peek() != '}') {
        do {
          expect('{');
          items.push_back(value(t.items[0]));
          expect(',');
          items.push_back(value(t.items[1]));
          expect('}');
        } while (accept(','));
      }
      expect('}');
    } else {
      throw at_here(errorf("no literal of type {} exists", t.text()));
    }
    out.type = std::move(t);
    out.data = std::move(items);
    return out;
  }

  Constant blob(Type t) {
    expect_word("BLOBFILE");
    expect('(');
    Blob b;
    for (int i = 0; i < 2; ++i) {
      if (i) expect(',');
      const std::string key = word();
      expect('=');
      const Constant c = literal();
      if (key == "path" && c.is_strings() && std::get<Constant::Strings>(c.data).size() == 1)
        b.file_name = std::get<Constant::Strings>(c.data)[0];
      else if (key == "offset" && c.type == Type::tensor(DType::uint64))
        std::memcpy(&b.record_offset, c.bytes().data(), 8);
      else
        throw at_here(errorf("a BLOBFILE has a path and an offset").found(key));
    }
    expect(')');
    if (resolve_) resolve_(b, t);
    return Constant::from_blob(std::move(t), std::move(b));
  }

  Constant tensor(Type t) {
    if (t.dtype == DType::string) {
      Constant out;
      Constant::Strings strings;
      elements([&] { strings.push_back(string()); });
      out.type = std::move(t);
      check_count(out.type, static_cast<int64_t>(strings.size()));
      out.data = std::move(strings);
      return out;
    }
    if (!t.fixed() && dtype_bits(t.dtype) < 8)  // packed: the bytes would not tell how many there are
      throw at_here(errorf("a literal of type {} needs a known size", t.text()));
    if (t.is_float() && dtype_bits(t.dtype) < 16)
      throw at_here(errorf("a literal of type {} cannot be read", t.text()).expected("it in a weight file"));
    ElementWriter writer(t.dtype);
    int64_t count = 0;
    elements([&] {
      ++count;
      if (t.dtype == DType::boolean)
        writer.add_int(boolean());
      else if (t.is_float())
        writer.add_float(floating());
      else
        writer.add_int(integer(t.dtype));
    });
    check_count(t, count);
    return Constant::from_bytes(std::move(t), std::move(writer.bytes));
  }

  bool boolean() {
    const std::string w = word();
    if (w != "true" && w != "false" && w != "0" && w != "1") throw at_here(errorf("not a bool").found(w));
    return w == "true" || w == "1";
  }

  void check_count(const Type& t, int64_t count) {
    if (t.fixed() && t.size() != count)
      throw at_here(errorf("a literal of type {} has {} elements", t.text(), count));
  }

  // One element, or elements in brackets nested to any depth.
  template <class Element>
  void elements(const Element& element) {
    const Nest nest(*this);
    if (!accept('[')) return element();
    if (accept(']')) return;
    do elements(element);
    while (accept(','));
    expect(']');
  }

  // ---- programs

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
    const size_t start = pos_;
    const std::string name = word();
    const char next = peek();
    pos_ = start;
    if (next == '(' || next == '<') return {nullptr, std::make_shared<const Constant>(literal()), {}};
    return {use(), nullptr, {}};
  }

  std::unique_ptr<Operation> operation() {
    auto op = std::make_unique<Operation>();
    // "TYPE name, TYPE name = op(…)" or "op(…)": a type is followed by a name, an operation by a parenthesis.
    peek();
    const size_t start = pos_;
    op->type = word();
    if (peek() != '(') {
      pos_ = start;
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

  const std::string_view text_;
  const std::string& name_;
  const BlobResolver& resolve_;
  size_t pos_ = 0;
  int depth_ = 0;
  std::unordered_map<std::string, Value*> values_;
  std::vector<std::string> scope_;
};

}  // namespace

Program parse_mil(std::string_view text, const std::string& name, const BlobResolver& resolve) {
  Parser parser(text, name, resolve);
  try {
    return parser.program();
  } catch (Error& e) {  // a fault of a size or of a weight file knows nothing of the text
    if (!e.where().starts_with(name)) e.within(parser.place());
    throw;
  }
}

}  // namespace anemone
