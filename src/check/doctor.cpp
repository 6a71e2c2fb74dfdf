#include "check/doctor.h"

#include <fmt/ranges.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

#include "base/error.h"
#include "base/paths.h"
#include "base/thread_pool.h"
#include "base/words.h"
#include "bundle/files.h"
#include "check/check.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

constexpr ErrorMeaning kMeanings[] = {
    {"0x1d", "The engine refused at run time: several states, or tile.",
     "Pack the cache into two states (convert --kv packed); anemone check --target iphone shows K02.",
     "K02, S10", "JR; SK"},
    {"Program load failed|Program load failure|0x20004|appleneuralengine Code=53",
     "The program was compiled, and the engine could not load it: too large for the memory it may map, or "
     "for this chip.",
     "Smaller packages (convert --shard-mb) or fewer bits; close other models; anemone plan shows what fits.",
     "Z01, Z04", "apple/ml-stable-diffusion#26; ct#1717; apple/coreai-torch#67"},
    {"ANEProgramProcessRequestDirect|Program Inference error|Could not process request",
     "The engine loaded the program and failed while it ran.",
     "anemone check for rules about states and sizes; run it once with CPU only: what is right there is a "
     "fault of the engine's program, and smaller packages or another shape avoid it.",
     "K02, S09, P06",
     "AUTOMATIC1111/stable-diffusion-webui#13419; jundot/omlx#2940; john-rocky/CoreML-Models#51"},
    {"Cannot support standalone slice_update", "A slice_update that is not on a state is not for the engine.",
     "Write the cache by a mask (convert --kv-write mask), or update a state directly.", "K04",
     "Anemll/anemll-profile"},
    {"Unsupported tensor data type: int32|Output type int32 is not supported",
     "An int32 tensor: it stays on the CPU.",
     "Keep ids, positions and argmax on the host; anemone check names the operations.", "D02, O05",
     "M6; Anemll/anemll-profile"},
    {"Unsupported gather index type", "A gather whose indices are known only at run time.",
     "Embedding and RoPE tables on the host, as inputs.", "O03, H05, H08", "M6 5.2"},
    {"Unsupported MIL operation|MIL converter not implemented", "The engine has no such operation.",
     "anemone check names it, and what to write instead.", "O01, O02", "M6 5.2"},
    {"not within supported range", "A dimension is too large for this chip's engine.",
     "anemone check --target for the oldest chip; split at 16384 (old) or 65536.", "S05, S06",
     "FluidInference/FluidAudio#121; M6 5.2"},
    {"does not support blob with rank", "A tensor of rank 6.", "Drop axes of size one.", "S01",
     "microsoft/onnxruntime#14212"},
    {"can not fit the Kmem", "The inner dimension of a matmul is too large.", "Split it and add.", "S07",
     "M6 5.2"},
    {"large kernel does not meet decomposition|Invalid Pool kernel", "A kernel is too large.",
     "Decompose it.", "O07, O08", "M6 5.2"},
    {"only support per-cout/per-tensor quantization", "Weights quantized in blocks along the inputs.",
     "One scale an output channel, or palettes in groups of output channels.", "Q02", "ct#2510"},
    {"mps.dequantize|must be tensor of quantized values", "A palette with scales per channel, on macOS 26.",
     "Palettize without per-channel scales.", "Q09", "ct#2688"},
    {"only supported on uANE targets", "A scatter.", "Write by slice_update or a mask.", "O03", "M6 5.2"},
    {"Error in declaring network",
     "Core ML could not build the network: a weight file of more than 2^31 bytes on an older system, or a "
     "shape "
     "it does not take.",
     "Smaller packages: convert --shard-mb 1000; the line before it in the log may name the shape.", "Z02",
     "ct#1807; edouardlp/Mask-RCNN-CoreML#3"},
    {"bad_cast", "Enumerated shapes together with a state.", "Several functions with fixed shapes.", "K09",
     "ct#2730; ct#1909"},
    {"0xe00002c2", "A decode query of one or two positions, in a static export of Core AI.",
     "Four positions, padded.", "K11", "CAD"},
    {"ANECCompileOffline|aneCompileStatus",
     "Building for the engine ahead of time failed, and what was written is for the GPU: seen with int4 "
     "blocks.",
     "anemone check for Q02; one scale an output channel, or palettes.", "Q02", "apple/coreai-models#205"},
    {"ANECCompile", "The compiler for the engine rejected a segment.",
     "anemone check for operations and shapes; then halve the layers until it compiles.", "O01, S05, Z05",
     "ct#2247; ct#2503"},
    {"on-device compiled macho", "A stale compiled copy.",
     "Delete the compiled model and compile again from the .mlpackage.", "Z09",
     "FluidInference/FluidAudio#121"},
    {"error code: -14|error code -14|error code: 14|error code 14|code=-14|code=14|code: -14|(-14)|"
     "error -14|error: -14|status -14|execution plan",
     "The engine refused the plan: size, how states are written, form of the palettes, or a stale compiled "
     "copy.",
     "anemone check for Z01, K02 to K05 and Q05; then delete the compiled copy and compile again.",
     "Z01, K02, K03, K04, Q05, Z09", "ct#2325; huggingface/swift-chat#31; AB; JR"},
    {"exit 137|status 137|code 137|SIGKILL|Killed: 9|signal 9",
     "Compiling for the engine failed silently, and the process was "
     "killed at the first predict; or memory ran out.",
     "anemone check; then load with CPU only to see whether the package itself is sound.", "P06", "ct#2758"},
    {"Unknown opset|more recent than this framework|intended for a newer version of Xcode|"
     "only valid in specification version",
     "The package was made for a newer system than the one that loads it.",
     "Update the system, or convert for the older one; anemone inspect shows what a package needs.", "T01",
     "ct#2283; ct#750; ct#2684; Desert-Ant-Labs/desert-ant-core#77"},
    {"Unable to mmap file",
     "The weights could not be mapped into memory: the file is cut short, or too large for this device.",
     "Copy it again (anemone doctor --bundle looks at every size); then smaller packages or fewer bits.",
     "Z01, Z04", "ggml-org/whisper.cpp#2456"},
    {"weights/weight.bin|Error parsing MIL model|Code=110",
     "The weight file of the package or of its compiled copy is missing, or the program in it is damaged.",
     "Copy the whole folder: a package is not one file. A compiled copy in a temporary folder is gone after "
     "a "
     "restart: compile again.",
     "Z09", "apple/ml-stable-diffusion#132; ct#1704; exPHAT/SwiftWhisper#15"},
    {"valid manifest does not exist|valid runtime manifest does not exist",
     "What was opened is no .mlpackage: Manifest.json is missing.",
     "Give the folder that ends in .mlpackage, whole; Core ML wants it compiled to .mlmodelc first.", "",
     "andmev/llama-to-coreml#2"},
    {"cannot be loaded just from the model spec", "coremltools was given a program without its weights.",
     "Save and load it as .mlpackage, or give weights_dir as well.", "", "ggml-org/whisper.cpp#1495"},
    {"Unable to load CoreML.framework",
     "coremltools found no Core ML: not a Mac, a package of it without the library, or a model it cannot "
     "compile.",
     "anemone predict runs the package here, without Core ML.", "", "ct#372; ct#2071"},
    {"not compatible with the model's feature description|not in enumerated set of allowed shapes|"
     "does not match the shape|MultiArrayConstraint",
     "An input has another shape or type than the package asks for.",
     "anemone inspect lists every input with its shape; anemone predict tries the same arrays.", "S08",
     "ct#1717; ct#672; ct#301; alibaba/MNN#1672"},
    {"contains unknown strides", "Enumerated or flexible shapes that the runtime cannot lay out.",
     "Several functions with fixed shapes.", "K09, S08", "ct#2730"},
    {"using too much memory|std::bad_alloc|jetsam",
     "The app's memory is used up: weights that the engine does not take are unpacked for the CPU or the "
     "GPU.",
     "anemone plan --chip for what fits; fewer bits; CPU and Neural Engine as compute units, never all.",
     "P05, Z04", "cardona/SwiftMistralCoreML#15; apple/ml-stable-diffusion#291; ct#2590"},
    {"No space left|ENOSPC", "Compiled copies eat the disk.",
     "Free space; anemone doctor measures the caches.", "Z08", "AB j111; CAD"},
    // What others wrap around a cause: said when the text has nothing more particular.
    {"ANECF error|Error plan build|nil _ANEModel|MILCompilerForANE",
     "Compiling or loading for the engine failed; Core ML goes on with the CPU or the GPU, slowly.",
     "anemone check for operations and shapes; then halve the layers until it compiles.", "O01, S05, Z01",
     "ct#1106; ct#1548; john-rocky/CoreML-Models#25", true},
    {"Error computing NN outputs|Unable to compute the prediction|Failure in -executePlan",
     "A prediction failed; the cause stands in the lines before it.",
     "Run it with CPU only: what fails there too is an input or an operation; else anemone check.", "P06",
     "ct#412; apple/ml-stable-diffusion#96; pytorch/pytorch#96967", true},
    {"You will not be able to run predict|E5RT encountered an STL exception|Error reading protobuf spec",
     "A wrapper around another message.", "Give the doctor what stands behind it.", "", "ct#1704; ct#2247",
     true},
};

std::string lower(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// The pattern stands in the text, and no letter or digit goes on where it begins or ends with one.
bool contains(const std::string& text, const std::string& pattern) {
  for (size_t at = text.find(pattern); at != std::string::npos; at = text.find(pattern, at + 1)) {
    const size_t end = at + pattern.size();
    const bool starts = at == 0 || !word(pattern.front()) || !word(text[at - 1]);
    // A number must be the whole of it: 0x1d is not the beginning of an address.
    const bool number = std::isdigit(static_cast<unsigned char>(pattern.back())) || pattern.starts_with("0x");
    const bool ends = end == text.size() || !number || !word(text[end]);
    if (starts && ends) return true;
  }
  return false;
}

// The minus sign of typeset messages.
std::string plain_minus(std::string text) {
  for (size_t at = text.find("\u2212"); at != std::string::npos; at = text.find("\u2212", at))
    text.replace(at, 3, "-");
  return text;
}

uint64_t folder_bytes(const fs::path& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end;
       it != end; it.increment(error)) {
    if (error) break;
    std::error_code ignored;
    if (it->is_regular_file(ignored)) bytes += it->file_size(ignored);
  }
  return bytes;
}

// Copies that Core ML compiled for each program on this machine.
std::optional<Health> caches(const fs::path& home) {
  std::error_code error;
  uint64_t bytes = 0;
  int programs = 0;
  for (fs::directory_iterator it(home / "Library/Caches", error), end; !error && it != end;
       it.increment(error)) {
    const fs::path cache = it->path() / "com.apple.e5rt.e5bundlecache";
    std::error_code ignored;
    if (!fs::is_directory(cache, ignored)) continue;
    ++programs;
    bytes += folder_bytes(cache);
  }
  if (programs == 0) return std::nullopt;
  Health h{"compiled copies", fmt::format("{} for {}", size_text(bytes), counted(programs, "program")), true,
           ""};
  if (bytes > 20'000'000'000) {
    h.good = false;
    h.advice =
        "Copies of old systems and old builds stay: delete com.apple.e5rt.e5bundlecache folders in "
        "Library/Caches (Z08).";
  }
  return h;
}

Health disk(const fs::path& where, uint64_t bundle_bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(where, error);
  if (error) return {"disk", "cannot be asked: " + error.message(), true, ""};
  const uint64_t wanted = std::max<uint64_t>(5'000'000'000, 3 * bundle_bytes);
  Health h{"disk", size_text(space.available) + " free", space.available >= wanted, ""};
  if (!h.good)
    h.advice =
        fmt::format("Core ML keeps compiled copies of every package: have {} free (Z08).", size_text(wanted));
  return h;
}

Health system_health() {
  utsname name{};
  ::uname(&name);
  std::string found = fmt::format("{} {}", name.sysname, name.machine);
#ifdef __APPLE__
  char version[64] = {};
  size_t size = sizeof version - 1;
  if (::sysctlbyname("kern.osproductversion", version, &size, nullptr, 0) == 0)
    found = fmt::format("macOS {}, {}", version, name.machine);
#else
  found += ": no Core ML here; packages run on anemone's own CPU engine";
#endif
  return {"system", found, true, ""};
}

uint64_t look_at_files(const fs::path& bundle, const BundleInfo& info, bool hashes,
                       std::vector<Health>& out) {
  uint64_t bytes = 0;
  for (const BundleFile& file : info.files) bytes += file.bytes;
  ThreadPool pool(0);
  const std::vector<std::string> faults = damaged_files(bundle, info, hashes, pool);
  const std::string good =
      fmt::format("all {} there{}, {}", info.files.size(),
                  hashes ? ", with the content that bundle.json says" : "", size_text(bytes));
  out.push_back({"files", faults.empty() ? good : fmt::format("{}", fmt::join(faults, "; ")), faults.empty(),
                 faults.empty() ? "" : "Was the copy cut short? Copy or convert it again."});
  return bytes;
}

void look_at_packages(const fs::path& path, std::vector<Health>& out) {
  CheckReport report;
  try {
    report = check(path, {});
  } catch (const Error& e) {
    if (!is_bundle(path)) throw;
    out.push_back({"check", e.what(), false, "Copy or convert it again."});
    return;
  }
  std::string ids;
  for (const Finding& f : report.findings)
    if (f.level != Level::hint && ids.find(f.rule->id) == std::string::npos)
      ids += (ids.empty() ? "" : ", ") + std::string(f.rule->id);
  out.push_back({"check",
                 fmt::format("{}, {} for {}", counted(report.count(Level::error), "error"),
                             counted(report.count(Level::warning), "warning"), report.target_text),
                 !report.failed(false),
                 report.failed(false) ? fmt::format("anemone check tells more: {}", ids) : ""});
}

}  // namespace

std::vector<const ErrorMeaning*> decode_error(std::string_view text) {
  std::string message = lower(plain_minus(std::string(text)));
  if (message == "-14" || message == "14") message = "error code " + message;  // a date has such numbers, too
  std::vector<const ErrorMeaning*> out;
  for (const ErrorMeaning& m : kMeanings) {
    if (m.wrapper && !out.empty()) break;
    std::string_view rest = m.patterns;
    while (!rest.empty()) {
      const size_t bar = rest.find('|');
      if (contains(message, lower(rest.substr(0, bar)))) {
        out.push_back(&m);
        break;
      }
      rest = bar == std::string_view::npos ? "" : rest.substr(bar + 1);
    }
  }
  return out;
}

std::vector<Health> examine(const DoctorOptions& options) {
  std::vector<Health> out{system_health()};
  uint64_t bytes = 0;
  if (options.bundle) {
    std::error_code error;
    if (!fs::exists(*options.bundle, error)) throw missing_path(options.bundle->string());
    bool whole = true;
    if (is_bundle(*options.bundle)) {
      bytes = look_at_files(*options.bundle, BundleInfo::read(*options.bundle), options.hashes, out);
      whole = out.back().good;
    }
    if (whole) look_at_packages(*options.bundle, out);
  }
  out.push_back(disk(options.bundle.value_or(fs::current_path()), bytes));
  const char* environment = std::getenv("HOME");
  const fs::path home = !options.home.empty() ? options.home : fs::path(environment ? environment : "");
  if (auto found = caches(home)) out.push_back(std::move(*found));
  return out;
}

}  // namespace anemone
