#include "placement/rates.h"

#include <string>

namespace anemone::placement {
namespace {

constexpr Rates h16g() {
  Rates r;
  r.platform = "H16G";
  r.read = {true, true, true, true, true, true, true};
  r.conv = {Leaf{{471.180908203125, 23.54788589477539}, 1.179648e6, 2.359296e6},
            Leaf{{7160.830078125, 337.380615234375}, 2.94912e5, 1.8874368e7},
            Leaf{{16151.6767578125, 655.9559936523438}, 1.8874368e7, 2.424307712e9}};
  r.linear = {Leaf{{106.97308349609375, 59.87608}, 131136, 131136}, Leaf{{580.4504, 19.60015}, 5e5, 3.4e7},
              Leaf{{5290.789551, 145.849075}, 1.6e7, 1.34218752e8}};
  r.add = {{35.98052978515625, 18.363636016845703}, 32, 655360};
  r.mul = {{43, 10}, 262144, 262144};
  r.relu = {{50, 50}, 64, 2097152};
  r.concat = {{100, 10}, 262144, 262144};
  r.transpose_small = {{34.43734359741211, 38.030303955078124}, 32768, 131082};
  r.transpose_large = {{22.8565502166748, 1.6305354833602906}, 262144, 262152};
  r.upsample = {{39.65890121459961, 0.22808466}, 131072, 131078};
  r.deconv_2d = {{15205.03515625, 54.89610290527344}, 1.3421772e8, 3.01989888e8};
  r.deconv = {{37831.95703125, 184.01751708984375}, 1.6842752e7, 1.6842752e7};
  return r;
}

// Two leaves of conv, and what else the log of that platform shows.
constexpr Rates like_h16g(std::string_view name, Rate conv_fast, Rate conv_middle, Rate peak) {
  Rates r = h16g();
  r.platform = name;
  r.read = {.conv = true, .matmul = true};
  r.conv[1].rate = conv_middle;
  r.conv[2].rate = conv_fast;
  r.peak = peak;
  return r;
}

constexpr Rates h13g() {
  Rates r = like_h16g("H13G", {11582.157227, 633.96814}, {5980.881836, 259.172424}, {12000, 634});
  r.read.add = r.read.bandwidth = true;
  r.add.rate = {32.949493, 12.654321};
  return r;
}

constexpr Rates h14g() {
  Rates r = like_h16g("H14G", {16151.6767578125, 655.9559936523438}, {7160.830078125, 337.380615234375},
                      {17200, 656});
  r.read.bandwidth = true;
  return r;
}

// The only one that takes matmul from a tree; its bandwidth was not read.
constexpr Rates h17g() {
  Rates r = like_h16g("H17G", {8609.553711, 1036.970703}, {5484.956543, 211.346802}, {17200, 656});
  r.matmul_tree = true;
  r.matmul = {11245.807617, 312.337097};
  return r;
}

constexpr Rates h19() {
  Rates r = like_h16g("H19", {13916.3125, 621.170593}, {3491.165771, 249.228928}, {16900, 842});
  r.read.add = r.read.bandwidth = true;
  r.ane_gib = 58;
  r.bnns_gib = 51;
  r.classic_gib = 42.5;
  r.add.rate = {30, 8};
  return r;
}

// The M6 study found H18G's estimates byte for byte those of H16G.
constexpr Rates h18g() {
  Rates r = h16g();
  r.platform = "H18G";
  return r;
}

// A platform nobody read: another's numbers under its name, none of them its own.
constexpr Rates borrowed(Rates from, std::string_view name) {
  from.platform = name;
  from.read = {};
  return from;
}

struct Entry {
  std::string_view platform;
  Rates rates;
};

constexpr Entry kEntries[] = {
    {"h13", borrowed(h13g(), "H13, taken as H13G")},
    {"h13g", h13g()},
    {"h14", borrowed(h14g(), "H14, taken as H14G")},
    {"h14g", h14g()},
    {"h15", borrowed(h16g(), "H15, taken as H16G")},
    {"h15g", borrowed(h16g(), "H15G, taken as H16G")},
    {"h16", borrowed(h16g(), "H16, taken as H16G")},
    {"h16g", h16g()},
    {"h17", borrowed(h17g(), "H17, taken as H17G")},
    {"h17g", h17g()},
    {"h18", borrowed(h18g(), "H18, taken as H18G")},
    {"h18g", h18g()},
    {"h19", h19()},
};
constexpr Rates kUnknown = borrowed(h16g(), "taken as H16G");

}  // namespace

const Rates& rates_for(std::string_view platform) {
  std::string name(platform);
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const Entry& entry : kEntries)
    if (entry.platform == name) return entry.rates;
  return kUnknown;
}

}  // namespace anemone::placement
