// Made-up values: they look like the kind that they stand for, and belong to nobody. Mail and web addresses are of
// example.org and example.net, telephone numbers of 555-01xx, which are set aside for examples.
#include <fmt/format.h>

#include <array>
#include <cctype>

#include "redact/labels.h"
#include "redact/replace.h"

namespace anemone::redact {
namespace {

constexpr std::array<std::string_view, 48> kFirst = {
    "Ada",   "Alba", "Amos",  "Anton", "Arlo", "Astrid", "Beata", "Boris", "Carla", "Cleo", "Cyrus",  "Dalia",
    "Dario", "Edda", "Elmo",  "Enzo",  "Esra", "Fabian", "Flora", "Gerd",  "Greta", "Hugo", "Ida",    "Igor",
    "Ines",  "Ivo",  "Jana",  "Joris", "Juno", "Kasia",  "Klaus", "Lana",  "Levin", "Mara", "Milo",   "Nadia",
    "Nils",  "Olga", "Oskar", "Paula", "Quin", "Rania",  "Rolf",  "Selma", "Timo",  "Ulla", "Viktor", "Zora"};
constexpr std::array<std::string_view, 48> kLast = {
    "Abel",   "Almond", "Arden",  "Barlow", "Becker", "Birch",   "Calder", "Castel", "Corden", "Dahl",
    "Darrow", "Dorn",   "Ebner",  "Elling", "Farrow", "Fels",    "Fjord",  "Garner", "Grove",  "Hale",
    "Harlan", "Holm",   "Irving", "Jansen", "Keller", "Kestrel", "Lark",   "Linden", "Marsh",  "Merle",
    "Moss",   "Norden", "Oakley", "Orlov",  "Palmer", "Pryor",   "Quist",  "Reed",   "Rowan",  "Sander",
    "Sorrel", "Tarn",   "Thorn",  "Ulrich", "Vale",   "Weaver",  "Winter", "Yarrow"};
constexpr std::array<std::string_view, 16> kStreets = {
    "Alder", "Aspen",   "Cedar",  "Clover", "Elm",   "Fern",   "Hazel", "Heather",
    "Ivy",   "Juniper", "Laurel", "Maple",  "Olive", "Poplar", "Sage",  "Willow"};
constexpr std::array<std::string_view, 6> kWays = {"Street", "Road", "Lane", "Avenue", "Way", "Court"};
constexpr std::array<std::string_view, 12> kPlaces = {"Ashford",  "Brookfield", "Clearwater", "Dunmore",
                                                      "Eastham",  "Fairview",   "Greenvale",  "Hillcrest",
                                                      "Kingsley", "Lakewood",   "Milton",     "Westbrook"};

// Numbers from 32 bytes, one after the other.
class Draws {
 public:
  explicit Draws(std::string_view bytes) : bytes_(bytes) {}
  uint32_t below(uint32_t n) {
    uint32_t value = 0;
    for (int i = 0; i < 3; ++i) value = value << 8 | next();
    return value % n;
  }
  template <size_t N>
  std::string of(const std::array<std::string_view, N>& list) {
    return std::string(list[below(N)]);
  }
  uint32_t next() {
    const auto byte = static_cast<unsigned char>(bytes_[at_ % bytes_.size()]);
    return (byte + 37u * static_cast<uint32_t>(at_++ / bytes_.size())) & 0xff;
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// A value of the same form: other digits, other letters, the signs as they are, where those are plain.
std::string same_form(std::string_view value, Draws& draw) {
  std::string out;
  for (const char c : value) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isdigit(u))
      out += static_cast<char>('0' + draw.below(10));
    else if (std::isupper(u))
      out += static_cast<char>('A' + draw.below(26));
    else if (std::islower(u))
      out += static_cast<char>('a' + draw.below(26));
    else if (c == ' ' || c == '-' || c == '.' || c == '/' || c == ':' || c == '_')
      out += c;
    else if ((u & 0xc0) != 0x80)  // once for a character of several bytes
      out += 'x';
  }
  return out;
}

}  // namespace

std::string fake_value(std::string_view kind, std::string_view bytes, std::string_view value) {
  Draws draw(bytes);
  const std::string name = short_name(kind);
  if (name == "PERSON") {
    const std::string first = draw.of(kFirst);
    return value.find(' ') == std::string_view::npos ? first : first + " " + draw.of(kLast);
  }
  if (name == "EMAIL") {
    const std::string first = lower(draw.of(kFirst)), last = lower(draw.of(kLast));
    return fmt::format("{}.{}{}@example.org", first, last, draw.below(100));
  }
  if (name == "URL")
    return fmt::format("https://{}.example.net/{}", lower(draw.of(kLast)), lower(draw.of(kStreets)));
  if (name == "PHONE") return fmt::format("+1 {} 555 01{:02}", 200 + draw.below(700), draw.below(100));
  if (name == "ADDRESS") {
    const uint32_t house = 1 + draw.below(199);
    const std::string street = draw.of(kStreets), way = draw.of(kWays);
    return fmt::format("{} {} {} {}", house, street, way, draw.of(kPlaces));
  }
  if (name == "DATE") {
    const uint32_t year = 1950 + draw.below(70), month = 1 + draw.below(12);
    return fmt::format("{}-{:02}-{:02}", year, month, 1 + draw.below(28));
  }
  return same_form(value, draw);
}

}  // namespace anemone::redact
