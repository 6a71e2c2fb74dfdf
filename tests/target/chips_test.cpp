#include "target/chips.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "base/error.h"

using namespace anemone;

TEST_CASE("a chip is found by its name, by its device and by a system") {
  struct Row {
    const char* text;
    const char* id;
    DeviceClass device;
    int os;
  };
  const Row rows[] = {
      {"m4-max", "m4-max", DeviceClass::mac, 0},
      {"M4 Max", "m4-max", DeviceClass::mac, 0},
      {"m4max", "m4-max", DeviceClass::mac, 0},
      {"a17", "a17-pro", DeviceClass::iphone, 0},
      {"A17 Pro", "a17-pro", DeviceClass::iphone, 0},
      {"iphone 15 pro", "a17-pro", DeviceClass::iphone, 0},
      {"iPhone 15 Pro Max", "a17-pro", DeviceClass::iphone, 0},
      {"iPhone 15", "a16", DeviceClass::iphone, 0},
      {"iPad Pro M4", "m4", DeviceClass::ipad, 0},
      {"macos15", "m1", DeviceClass::mac, 15},
      {"ios18", "a14", DeviceClass::iphone, 18},
      {"iOS 26", "a14", DeviceClass::iphone, 26},
      {"iphone", "a14", DeviceClass::iphone, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const Target t = find_target(row.text);
    CHECK(t.chip->id == row.id);
    CHECK(t.device == row.device);
    CHECK(t.os == row.os);
    CHECK(t.oldest == (row.os != 0 || std::string(row.text) == "iphone"));
  }
}

TEST_CASE("a kind of device has several names, and a chip may come with a system") {
  CHECK(find_target("phone").chip->id == "a14");
  CHECK(find_target("phone").device == DeviceClass::iphone);
  CHECK(find_target("ipad").device == DeviceClass::ipad);
  CHECK(find_target("Mac").device == DeviceClass::mac);
  for (const char* text : {"a17-pro, ios18", "ios18,a17-pro"}) {
    const Target t = find_target(text);
    CHECK(t.chip->id == "a17-pro");
    CHECK(t.os == 18);
    CHECK_FALSE(t.oldest);
    CHECK(system_name(t) == "ios18");
  }
  CHECK(find_target("m4, ipados18").device == DeviceClass::ipad);
  for (const char* text : {"m4, ios18", "a17-pro, macos15", "m4, m3", "ios18, macos15", "m4,"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(find_target(text), Error);
  }
}

TEST_CASE("a chip that is not in the table is an error that lists those that are") {
  for (const char* text : {"", "m9", "iphone 3", "macos150", "snapdragon", "m4-ultra", "ios1x"}) {
    CAPTURE(text);
    try {
      find_target(text);
      FAIL("found");
    } catch (const Error& e) {
      CHECK(e.expected().find("a17-pro, a18") != std::string::npos);
      CHECK(e.expected().find("m6") != std::string::npos);
    }
  }
}

// The published weight-read figures and limits, typed in from the sources a second time.
TEST_CASE("the table says what was published") {
  struct Row {
    const char* id;
    double low, high;
  };
  const Row rows[] = {{"m1", 51, 61},           {"m1-pro", 54.6, 54.9}, {"m1-max", 54.6, 54.9},
                      {"m1-ultra", 54.6, 54.9}, {"m2", 60.5, 60.5},     {"m2-max", 62, 62},
                      {"m2-ultra", 61.7, 61.7}, {"m3", 63, 63},         {"m3-max", 120, 120},
                      {"m4", 64, 67},           {"m4-pro", 126, 126},   {"m4-max", 119, 119},
                      {"m5", 70, 70},           {"m5-pro", 122, 145},   {"m6", 150, 150}};
  std::set<std::string_view> published;
  for (const Row& row : rows) {
    CAPTURE(row.id);
    const Figure& f = find_target(row.id).chip->weight_read;
    CHECK(f.measured);
    CHECK(f.low == row.low);
    CHECK(f.high == row.high);
    published.insert(row.id);
  }
  for (const Chip& chip : all_chips()) {
    CAPTURE(chip.id);
    CHECK(chip.weight_read.known());
    CHECK(chip.weight_read.measured == published.contains(chip.id));
    CHECK_FALSE(chip.weight_read.origin.empty());
    CHECK(!chip.memory_gb.empty());
    CHECK(chip.platform.starts_with("h" + std::to_string(chip.generation)));
    CHECK(find_target(chip.name).chip == &chip);
    const bool old = chip.generation <= 15;  // 16384 up to the M3's engine
    CHECK(chip.limits().spatial == (old ? 16384 : 65536));
    CHECK(chip.limits().inner == (old ? 16384 : 32768));
    CHECK(chip.limits().channels == 65536);
  }
  const auto check_figure = [](const Figure& f, double low, double high) {
    CHECK(f.measured);
    CHECK(f.low == low);
    CHECK(f.high == high);
  };
  check_figure(find_target("m1").chip->call_us, 190, 220);
  check_figure(find_target("m2-pro").chip->call_us, 100, 100);
  check_figure(find_target("m4").chip->call_us, 90, 90);
  check_figure(find_target("m5").chip->call_us, 70, 110);
  check_figure(find_target("m5-pro").chip->call_us, 70, 70);
  check_figure(find_target("m6").chip->call_us, 30 + 130, 30 + 325);
  check_figure(find_target("m1").chip->activation, 24, 24);
  check_figure(find_target("m5").chip->activation, 24, 24);
  check_figure(find_target("m5-pro").chip->activation, 21, 24);
  check_figure(find_target("m6").chip->activation, 35, 40);
  CHECK_FALSE(find_target("m1").chip->streams().int8);  // folded to fp16 there
  CHECK(find_target("m2").chip->streams().int8);
  CHECK_FALSE(find_target("m2").chip->streams().blocks);
  CHECK(find_target("m3").chip->streams().blocks);
}
