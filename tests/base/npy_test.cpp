#include "base/npy.h"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/error.h"

using namespace anemone;

namespace {

std::string from_hex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return out;
}

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

// A version 1.0 file with this dictionary and data.
std::string npy(std::string dictionary, std::string data) {
  dictionary += '\n';
  std::string out = "\x93NUMPY";
  out += {'\x01', '\x00', static_cast<char>(dictionary.size() & 0xff),
          static_cast<char>(dictionary.size() >> 8)};
  return out + dictionary + data;
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

struct TempFile {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("anemone_npy_test_" + std::to_string(::getpid()) + ".npz");
  ~TempFile() { std::filesystem::remove(path); }
};

std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// np.savez_compressed(f, a=np.arange(6, dtype=np.int16).reshape(2, 3), b=np.array([True, False]))
constexpr std::string_view kCompressed =
    "504b03042d0000000800000021001a4e987effffffffffffffff05001400612e6e7079010010008c00000000000000520000"
    "00000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9369a4aea3a09e965f54529498179f5f94920a12774bcc"
    "294e058a17672416a402f91a463a0ac69a3a0ab50a64032e06064606260666061606560600504b03042d0000000800000021"
    "00ee19bb5dffffffffffffffff05001400622e6e707901001000820000000000000046000000000000009bec17ea1b10c9c8"
    "50c650ad9e925a9c5ca46ea5a05e9364a8aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a46"
    "3a9a3a0ab50a14002e460600504b01022d032d0000000800000021001a4e987e520000008c00000005000000000000000000"
    "0000800100000000612e6e7079504b01022d032d000000080000002100ee19bb5d4600000082000000050000000000000000"
    "000000800189000000622e6e7079504b0506000000000200020066000000060100000000";

// np.savez(f, x=np.asfortranarray(np.arange(6, dtype='>f4').reshape(2, 3)), s=np.float16(1.5))
constexpr std::string_view kStored =
    "504b03042d00000000000000210009d9d18fffffffffffffffff05001400782e6e7079010010009800000000000000980000"
    "0000000000934e554d5059010076007b276465736372273a20273e6634272c2027666f727472616e5f6f72646572273a2054"
    "7275652c20277368617065273a2028322c2033292c207d202020202020202020202020202020202020202020202020202020"
    "20202020202020202020202020202020202020202020202020202020202020200a00000000404000003f8000004080000040"
    "00000040a00000504b03042d00000000000000210044796d5dffffffffffffffff05001400732e6e70790100100082000000"
    "000000008200000000000000934e554d5059010076007b276465736372273a20273c6632272c2027666f727472616e5f6f72"
    "646572273a2046616c73652c20277368617065273a2028292c207d2020202020202020202020202020202020202020202020"
    "2020202020202020202020202020202020202020202020202020202020202020202020202020200a003e504b01022d032d00"
    "000000000000210009d9d18f9800000098000000050000000000000000000000800100000000782e6e7079504b01022d032d"
    "00000000000000210044796d5d82000000820000000500000000000000000000008001cf000000732e6e7079504b05060000"
    "00000200020066000000880100000000";

}  // namespace

TEST_CASE("arrays written by NumPy are read, stored and deflated") {
  const NamedArrays packed = parse_npz(as_bytes(from_hex(kCompressed)), "packed");
  REQUIRE(packed.size() == 2);
  CHECK(packed[0].first == "a");
  CHECK(packed[0].second.shape() == std::vector<int64_t>{2, 3});
  CHECK(packed[0].second.to_int() == std::vector<int64_t>{0, 1, 2, 3, 4, 5});
  CHECK(packed[1].first == "b");
  CHECK(packed[1].second.dtype() == DType::boolean);
  CHECK(packed[1].second.to_int() == std::vector<int64_t>{1, 0});

  const NamedArrays stored = parse_npz(as_bytes(from_hex(kStored)), "stored");
  REQUIRE(stored.size() == 2);
  CHECK(stored[0].second.dtype() == DType::fp32);
  CHECK(stored[0].second.to_float() == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(stored[1].second.shape().empty());
  CHECK(stored[1].second.to_float() == std::vector<float>{1.5f});
}

TEST_CASE("a .npy of every version and order is read") {
  const Array plain = parse_npy(as_bytes(npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }",
                                             std::string("\x01\0\0\0\xff\xff\xff\xff", 8))),
                                "plain");
  CHECK(plain.to_int() == std::vector<int64_t>{1, -1});
  const Array big = parse_npy(as_bytes(npy("{\"shape\":(2,),\"descr\":\">u2\",\"fortran_order\":False}",
                                           std::string("\x01\x02\x00\x03", 4))),
                              "big");
  CHECK(big.to_int() == std::vector<int64_t>{258, 3});
  const Array columns = parse_npy(as_bytes(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }",
                                               std::string("\x00\x03\x01\x04\x02\x05", 6))),
                                  "columns");
  CHECK(columns.to_int() == std::vector<int64_t>{0, 1, 2, 3, 4, 5});
  const Array empty =
      parse_npy(as_bytes(npy("{'descr': '<f8', 'fortran_order': True, 'shape': (0, 3), }", "")), "empty");
  CHECK(empty.size() == 0);
}

TEST_CASE("a broken .npy is an error that says what is wrong") {
  struct Case {
    std::string bytes, message;
  };
  const std::string ok = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
  const Case cases[] = {
      {"", "is not a .npy file"},
      {"\x93NUMPY\x01", "is not a .npy file"},
      {"\x93NUMPY\x09" + std::string(20, '\0'), "version 9"},
      {npy(ok, "abc"), "does not fill"},
      {npy(ok, "abcde"), "does not fill"},
      {npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "abcd"), "objects"},
      {npy("{'descr': '<U3', 'fortran_order': False, 'shape': (1,), }", "abcd"), "text"},
      {npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "abcd"), "complex"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "abcd"), "structures"},
      {npy("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", "abcd"), "fortran_order"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "abcd"), "whole number"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "abcd"),
       "too large"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "abcd"), ""},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }", "abcd"), "does not fill"},
      {npy("{'descr': '<f4', 'fortran_order': False}", "abcd"), "lacks"},
      {npy("{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}", "abcd"), "repeated key 'descr'"},
      {npy("__import__('os')", "abcd"), "dictionary"},
      {npy(ok + "x", "abcd"), "more text after"},
  };
  for (const Case& c : cases) {
    const std::string message = error_of([&] { parse_npy(as_bytes(c.bytes), "x.npy"); });
    CAPTURE(c.bytes);
    CAPTURE(message);
    CHECK(message.find("x.npy: ") == 0);
    CHECK(message.find(c.message) != std::string::npos);
  }
}

TEST_CASE("an .npz reads back as it was written, and the same arrays give the same bytes") {
  TempFile file;
  Array halves(DType::fp16, {3});
  const uint16_t bits[] = {0x3c00, 0xc000, 0x7bff};
  std::memcpy(halves.bytes().data(), bits, sizeof bits);
  const NamedArrays arrays = {{"halves", halves},
                              {"none", Array(DType::int64, {0, 4})},
                              {"scalar", Array::from<double>({}, {0.25})},
                              {"grid", Array::from<int32_t>({2, 2}, {1, -2, 3, -4})}};
  for (const bool compress : {false, true}) {
    write_npz(file.path, arrays, compress);
    const std::string once = slurp(file.path);
    const NamedArrays back = read_npz(file.path);
    REQUIRE(back.size() == arrays.size());
    for (size_t i = 0; i < back.size(); ++i) {
      CHECK(back[i].first == arrays[i].first);
      CHECK(back[i].second.dtype() == arrays[i].second.dtype());
      CHECK(back[i].second.shape() == arrays[i].second.shape());
      CHECK(std::ranges::equal(back[i].second.bytes(), arrays[i].second.bytes()));
    }
    write_npz(file.path, arrays, compress);
    CHECK(slurp(file.path) == once);
  }
  CHECK_THROWS_AS(write_npz(file.path, {{"x", Array(DType::int4, {2})}}), Error);
}

TEST_CASE("strings are written as NumPy's unicode type") {
  TempFile file;
  NpzWriter writer(file.path);
  const std::string labels[] = {"cat", "d\xc3\xb6g", ""};
  writer.add_strings("labels", labels);
  writer.finish();
  const std::string bytes = slurp(file.path);
  CHECK(bytes.find("'descr': '<U3'") != std::string::npos);
  CHECK(bytes.find(std::string("d\0\0\0\xf6\0\0\0g\0\0\0", 12)) != std::string::npos);
  CHECK(error_of([&] { read_npz(file.path); }).find("text") != std::string::npos);
}

TEST_CASE("a file is only replaced by a whole one") {
  TempFile file;
  write_npz(file.path, {{"x", Array::from<float>({1}, {1})}});
  const std::string before = slurp(file.path);
  {
    NpzWriter writer(file.path);
    writer.add("y", Array::from<float>({1}, {2}));  // and then something goes wrong
  }
  CHECK(slurp(file.path) == before);
  CHECK(error_of([] { NpzWriter writer(std::filesystem::temp_directory_path()); }).find("is a folder") !=
        std::string::npos);
  // Through a link: the link stays.
  const std::filesystem::path link = file.path.string() + ".link";
  std::filesystem::create_symlink(file.path, link);
  write_npz(link, {{"z", Array::from<float>({1}, {3})}});
  CHECK(std::filesystem::is_symlink(link));
  std::filesystem::remove(link);
  CHECK(read_npz(file.path)[0].first == "z");
}

TEST_CASE("a pipe is refused at once, not waited for") {
  const std::filesystem::path pipe =
      std::filesystem::temp_directory_path() / ("anemone_pipe_" + std::to_string(::getpid()));
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(error_of([&] { read_npy(pipe); }).find("is not a file") != std::string::npos);
  std::filesystem::remove(pipe);
}

TEST_CASE("an error is one line, whatever the names in it hold") {
  const Error e = Error("the value 'a\nb' is not defined").at(std::string("x\0y\x1b[31m", 8));
  CHECK(std::string(e.what()) == "x y [31m: the value 'a b' is not defined");
}

TEST_CASE("a damaged .npz is an error and never unpacks more than it declares") {
  const std::string good = from_hex(kCompressed);
  // Cut anywhere: the end record or a member is missing.
  for (size_t size = 0; size < good.size(); ++size)
    CHECK_THROWS_AS(parse_npz(as_bytes(good.substr(0, size)), "cut"), Error);
  // Any one byte of the packed data changed: the checksum shows it.
  const size_t data = good.find(".npy") + 4;
  for (size_t i = data + 24; i < data + 60; ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x55);
    try {
      const NamedArrays read = parse_npz(as_bytes(bad), "bad");
      CHECK(read[0].second.to_int() == std::vector<int64_t>{0, 1, 2, 3, 4, 5});
    } catch (const Error&) {
    }
  }
  // The directory claims 3 GB out of a few bytes.
  std::string bomb = good;
  const size_t entry = bomb.find("PK\x01\x02");
  const uint32_t size = 3u << 30;
  std::memcpy(bomb.data() + entry + 24, &size, sizeof size);
  CHECK(error_of([&] { parse_npz(as_bytes(bomb), "bomb"); }).find("claims more") != std::string::npos);
}
