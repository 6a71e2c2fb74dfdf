// Programs of the placement oracle: tables of what Core ML's segmenter said about many small programs, turned
// into operations of MIL.
//     for (const OracleProgram& p : oracle_programs(folder / "program_ops.tsv")) …
// The tables name an operation's operands by shape and its parameters in a short form (see the README beside
// them); every row becomes a whole Operation with bound values and constants, so that what is tested is the way
// that real programs take.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mil/program.h"

namespace anemone {

// A row of a table, by column.
using OracleRow = std::map<std::string, std::string>;
std::vector<OracleRow> read_table(const std::filesystem::path& path);

// One operation in a function of its own.
std::unique_ptr<Function> build_row(const OracleRow& row);
// The operation that a row became: the last of the function.
const Operation& last_op(const Function& function);

struct OracleProgram {
  std::string name;
  std::vector<OracleRow> rows;  // in program order

  bool estimates_known() const;
};
std::vector<OracleProgram> oracle_programs(const std::filesystem::path& table);

// A number of a table; empty for '-'.
std::optional<double> number_of(const std::string& text);
// The device that Core ML chose.
bool on_ane(const OracleRow& row);

// The tables of that name below the roots of test data: whatever programs are put there are judged.
std::vector<std::filesystem::path> oracle_tables(const std::string& name);

}  // namespace anemone
