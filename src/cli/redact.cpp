// `anemone redact`: finds personal data in texts and takes it out.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/words.h"
#include "cli/backend.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/output.h"
#include "cli/source.h"
#include "cli/version.h"
#include "redact/batch.h"
#include "redact/report_page.h"
#include "redact/shipped.h"

namespace anemone::cli {
namespace {

constexpr const char* kNoModel = "none";

struct Args {
  std::vector<std::string> files, fields, labels, also, keep;
  std::string model, output, format = "auto", encoding = "auto", replace = "label", scope = "document",
                             key_file, policy = "balanced", report, html;
  bool recursive = false, lines = false, no_header = false, show = false, check = false, jsonl = false,
       overwrite = false;
  BackendFlags backend;
};

// "a,b" and "c" are three.
std::vector<std::string> listed(const std::vector<std::string>& values) {
  std::vector<std::string> out;
  for (const std::string& value : values)
    for (size_t at = 0; at <= value.size();) {
      const size_t end = std::min(value.find(',', at), value.size());
      if (end > at) out.push_back(value.substr(at, end - at));
      at = end + 1;
    }
  return out;
}

void check_flags(const Args& args) {
  if (args.jsonl && (args.lines || args.no_header || args.format != "auto" || args.encoding != "auto"))
    throw errorf("--jsonl reads records in UTF-8")
        .hint("leave out --format, --encoding, --lines and --no-header");
  if (args.jsonl && !args.html.empty()) throw errorf("--html shows documents, and --jsonl reads records");
  if (args.jsonl && listed(args.fields).size() > 1) throw errorf("--jsonl takes one field of text");
  if (!args.key_file.empty() && args.replace != "hash" && args.replace != "fake")
    throw errorf("--hash-key-file goes with --replace hash or fake");
  if (args.show && args.report.empty() && args.html.empty() && !args.check)
    throw errorf("--show goes with --report, --html or --check");
  if (args.check && !args.output.empty())
    throw errorf("--check writes no text, and -o says where to write it").hint("leave one of them out");
  if (!args.report.empty() && std::filesystem::is_regular_file(args.report) && !args.overwrite &&
      !redact::is_report(args.report))
    throw errorf("exists already, and is no report").at(args.report).hint("--overwrite replaces it");
  if (args.model == kNoModel && args.also.empty())
    throw errorf("without a model there is nothing to look for").hint("give patterns with --also");
}

redact::RedactSettings settings_of(const Args& args, const Common& common) {
  redact::RedactSettings out;
  out.labels = listed(args.labels);
  out.also = args.also;
  out.keep = args.keep;
  out.policy = args.policy == "strict"  ? redact::Policy::strict
               : args.policy == "quiet" ? redact::Policy::quiet
                                        : redact::Policy::balanced;
  out.replace.style = redact::find_style(args.replace);
  out.replace.per_run = args.scope == "run";
  out.threads = common.threads;
  if (args.key_file.empty()) {
    if (out.replace.style == redact::Style::hash)
      throw errorf("--replace hash needs a key, so that nobody can try out values")
          .hint("head -c 32 /dev/urandom > key; --hash-key-file key");
    return out;
  }
  out.replace.key = MappedFile::open(args.key_file)->text();
  if (out.replace.key.size() < 16)
    throw errorf("the key is too short")
        .at(args.key_file)
        .found(counted(static_cast<int64_t>(out.replace.key.size()), "byte"))
        .expected("16 bytes or more");
  return out;
}

// A line that is drawn over itself.
class ReadProgress {
 public:
  explicit ReadProgress(uint64_t total) : total_(total) {}
  void operator()(uint64_t done) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    if (total_)
      fmt::print(stderr, "\r\x1b[K{} of {}  {:.0f}%", size_text(done), size_text(total_),
                 100.0 * static_cast<double>(done) / static_cast<double>(total_));
    else
      fmt::print(stderr, "\r\x1b[K{}", size_text(done));
    std::fflush(stderr);
  }

 private:
  uint64_t total_;
  std::chrono::steady_clock::time_point last_;
};

std::shared_ptr<const redact::RedactModel> open_model(const Args& args, const Common& common) {
  if (args.model == kNoModel) return nullptr;
  // Windows run beside each other, each on one core.
  BackendFlags backend = args.backend;
  backend.in_flight = BackendFlags::kInFlight;
  const auto opened = backend.open(common, 1);
  return args.model.empty() ? redact::RedactModel::shipped(opened)
                            : redact::RedactModel::open(args.model, opened);
}

redact::ReportHead head_of(const Args& args) {
  redact::ReportHead head;
  head.tool = fmt::format("anemone {}", kVersion);
  head.model = args.model.empty() ? std::string(redact::kShippedName) : args.model;
  if (args.model.empty()) head.limits = redact::kShippedLimits;
  head.policy = args.policy;
  head.replace = args.replace;
  head.show = args.show;
  return head;
}

// What goes to standard output and to files beside the texts.
struct Answers {
  std::unique_ptr<redact::ReportFile> file;
  std::unique_ptr<redact::ReportPage> page;
};

redact::BatchOptions batch_options(const Args& args, const Common& common, uint64_t total, Answers& answers) {
  redact::BatchOptions o;
  o.format = redact::find_format(args.format);
  o.encoding = redact::find_encoding(args.encoding);
  o.walker = {redact::FieldFilter(listed(args.fields)), args.lines, !args.no_header};
  o.records = args.jsonl;
  if (args.jsonl && !args.fields.empty()) o.text_field = listed(args.fields).front();
  o.print = [](std::string_view bytes) { std::fwrite(bytes.data(), 1, bytes.size(), stdout); };
  o.flush = flush_output;
  if (!common.quiet && !common.json && ::isatty(STDERR_FILENO) &&
      !(args.output.empty() && ::isatty(STDOUT_FILENO)))
    o.progress = ReadProgress(total);
  if (answers.page) {
    o.passed = [&page = *answers.page](const std::string& file, redact::Encoding encoding,
                                       std::string_view raw) { page.pass(file, encoding, raw); };
    o.found = [&page = *answers.page](const std::string& file, const redact::Finding& f) {
      page.find(file, f);
    };
  }
  return o;
}

// "letter.txt:3: …", as editors and terminals know places.
void print_finding(const std::string& file, const redact::Finding& f, const std::string& kind, bool show) {
  fmt::print("{}:{}: characters {}-{}: {} ({:.2f}){}\n", file == "-" ? "standard input" : file, f.line,
             f.range.begin.character, f.range.end.character, kind, static_cast<double>(f.score),
             show ? ": " + one_line(f.text, 60) : std::string());
}

void say(const redact::Report& report, const redact::Batch& batch,
         const std::vector<redact::Skipped>& skipped, const Args& args, const Common& common) {
  if (!common.quiet && ::isatty(STDERR_FILENO)) fmt::print(stderr, "\r\x1b[K");
  for (const std::string& text : batch.notes()) note(common, text);
  for (const redact::Skipped& s : skipped)
    note(common, fmt::format("{}: {}, so it was left out", s.file, s.why));
  if (batch.bad_records())
    note(common,
         fmt::format("{} could not be read{}", counted(static_cast<int64_t>(batch.bad_records()), "line"),
                     args.check ? "" : "; the field error says why"));
  if (common.json || (args.jsonl && !args.check)) return;
  if (!args.output.empty() || args.check)
    (args.check ? fmt::print("{} found in {}\n", report.counts_text(),
                             counted(static_cast<int64_t>(report.files()), "file"))
                : note(common, fmt::format("{} replaced in {}", report.counts_text(),
                                           counted(static_cast<int64_t>(report.files()), "file"))));
}

int run_redact(const Args& args, const Common& common) {
  check_flags(args);
  const redact::RedactSettings settings = settings_of(args, common);
  std::vector<redact::Skipped> skipped;
  redact::BatchPlan plan{args.files.empty() ? std::vector<std::string>{"-"} : args.files, args.output,
                         args.recursive, !args.check && (!common.json || !args.output.empty() || args.jsonl),
                         args.overwrite};
  const std::vector<redact::BatchItem> items = redact::plan_batch(plan, skipped);
  redact::Redactor redactor(settings, open_model(args, common));
  Answers answers;
  if (!args.report.empty()) answers.file = std::make_unique<redact::ReportFile>(args.report);
  const redact::ReportHead head = head_of(args);
  redact::Report::Write write;
  const bool print_report = common.json && !args.jsonl;
  if (answers.file || print_report)
    write = [&](std::string_view text) {
      if (answers.file) answers.file->write(text);
      if (print_report) std::fwrite(text.data(), 1, text.size(), stdout);
    };
  redact::Report report(head, redactor.kinds(), write);
  if (!args.html.empty()) answers.page = std::make_unique<redact::ReportPage>(head, redactor.kinds());
  uint64_t total = 0;
  for (const redact::BatchItem& item : items) total += item.bytes;
  redact::BatchOptions options = batch_options(args, common, total, answers);
  if (args.check && !common.json)
    options.found = [&, more = options.found](const std::string& file, const redact::Finding& f) {
      print_finding(file, f, redactor.kinds()[static_cast<size_t>(f.kind)], args.show);
      if (more) more(file, f);
    };
  redact::expect_fields(items, options);
  redact::Batch batch(redactor, options, report);
  for (const redact::BatchItem& item : items) batch.add(item);
  batch.finish();
  const redact::FieldFilter& fields = options.walker.fields;
  if (!fields.all() && !fields.asked() && !args.jsonl)
    note(common, "--fields was not used: a text has no columns and no keys. --format says what else it is");
  for (const redact::Skipped& s : skipped) report.skipped(s.file, s.why);
  report.finish();
  if (answers.file) answers.file->commit();
  if (answers.page) answers.page->write(args.html, report);
  say(report, batch, skipped, args, common);
  return (args.check && report.total() > 0) || batch.bad_records() > 0 ? 1 : 0;
}

// "found.json" behind --json: a report, unless a file of that name is there that is none. So no text is ever replaced
// because it stands in that place.
bool names_report(const std::string& word) {
  return word.ends_with(".json") && (!std::filesystem::exists(word) || redact::is_report(word));
}

constexpr std::string_view kExamples =
    "  anemone redact letter.txt -o clean.txt --replace number --html found.html\n"
    "  anemone redact -r mails -o clean --labels email,phone --report found.json";

void declare_what(Options& o, Args& a) {
  o.group("What is looked for");
  o.texts("--labels", "KINDS", a.labels, "only these kinds, such as private_email,phone");
  o.texts("--also", "[NAME=]REGEX", a.also,
          "also what the expression matches, as a kind of that name (match)");
  o.texts("--keep", "REGEX", a.keep, "leave alone what it matches somewhere in the span");
  o.text("--policy", "POLICY", a.policy,
         "strict marks more and misses less, quiet the other way round; balanced by default")
      .one_of({"strict", "balanced", "quiet"});
  a.backend.declare(o);
}

void declare_how(Options& o, Args& a) {
  o.group("What replaces it");
  o.text("--replace", "WAY", a.replace,
         "label: [EMAIL] (default); number: [EMAIL_2], the same for the same value; mask: *****; hash: "
         "[EMAIL_1f0c…] by a key; remove; fake: another value, the same for the same value")
      .one_of(redact::style_names());
  o.text("--scope", "SCOPE", a.scope,
         "number, fake: values are the same in a document (default) or in the whole run")
      .one_of({"document", "run"});
  o.text("--hash-key-file", "FILE", a.key_file, "hash, fake: the key, 16 bytes or more; keep it to yourself")
      .reads();
  o.group("How documents are read");
  std::vector<std::string> formats = redact::format_names(), encodings = redact::encoding_names();
  formats.insert(formats.begin(), "auto");
  encodings.insert(encodings.begin(), "auto");
  o.text("--format", "FORMAT", a.format, "auto (by the file's name), text, csv, tsv, json or jsonl")
      .one_of(formats);
  o.text("--encoding", "NAME", a.encoding,
         "auto (by the first bytes), utf-8, utf-16le, utf-16be, utf-32le, utf-32be or latin-1")
      .one_of(encodings);
  o.texts("--fields", "NAMES", a.fields,
          "only these columns or keys; with --jsonl the field of the text (text)");
  o.flag("--lines", a.lines, "text: each line is a document of its own");
  o.flag("--no-header", a.no_header, "csv, tsv: the first row has no names of columns");
  o.flag("--jsonl", a.jsonl, "lines of {\"text\": …} in; the same out, redacted and with spans; for pipes");
}

}  // namespace

extern const Command kRedact{
    "redact", "Take personal data out of texts", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positionals("FILE", args->files,
                    "texts, Markdown, CSV, JSON; folders with -r; - is standard input, as it is without",
                    false)
          .streams();
      o.text("--model", "BUNDLE", args->model,
             "a bundle that labels tokens, or none. By default the small model that comes with anemone: it "
             "misses "
             "names in free text one time in three. Not for compliance by itself")
          .also("-m")
          .takes(kBundle | kName);
      o.text("-o,--output", "PATH", args->output,
             "a file, or a folder for several files; standard output by default")
          .writes();
      o.flag("-r,--recursive", args->recursive, "all files in folders, to the same places below --output");
      o.flag("--overwrite", args->overwrite, "replace files that are there");
      o.flag("--check", args->check,
             "write no text, list what was found; exit status 1 if there is something");
      o.text("--report", "FILE", args->report,
             "write all that was found, with places and scores, as JSON; --json FILE.json is the same")
          .also("--json=")
          .behind_if(names_report)
          .writes();
      o.text("--html", "FILE", args->html, "write a page that shows the text with what was found").writes();
      o.flag("--show", args->show, "with --report, --html, --check: show what was found itself");
      declare_what(o, *args);
      declare_how(o, *args);
      return [args](const Common& common) { return run_redact(*args, common); };
    }};

}  // namespace anemone::cli
